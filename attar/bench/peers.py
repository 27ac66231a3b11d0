"""What people would write or install instead, written as well as they would.

flash-linear-attention (`fla`) is a peer only, imported here and nowhere else. Its layout is [B, T, heads, K].
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.ops import AffineGates

Floats = NDArray[np.float32]


def softmax_numpy(hidden: Floats, query: Floats) -> Floats:
    """Hᵀ softmax(H q) in numpy; dividing last touches k numbers, not n."""
    scores = hidden @ query
    scores -= scores.max()
    np.exp(scores, out=scores)
    readout: Floats = (scores @ hidden) / scores.sum()
    return readout


def softmax_torch(hidden: Tensor, query: Tensor) -> Tensor:
    """The same in torch."""
    return torch.softmax(torch.mv(hidden, query), 0) @ hidden


def softmax_sdpa(hidden: Tensor, query: Tensor) -> Tensor:
    """The same with PyTorch's fused attention."""
    rows = hidden[None]
    return torch.nn.functional.scaled_dot_product_attention(query[None, None], rows, rows, scale=1.0)[0, 0]


def plain_scan(f: Tensor, alpha: Tensor | None = None) -> Tensor:
    """C ← α_t C + f_t f_tᵀ, token by token: what autograd is given where there is no closed form."""
    columns = f.float().unbind(1)
    C = columns[0].new_zeros(f.shape[0], f.shape[2], f.shape[2])
    for t, column in enumerate(columns):
        kept = C if alpha is None else C * alpha[:, t, None, None]
        C = torch.baddbmm(kept, column[:, :, None], column[:, None, :])
    return C


@torch.no_grad()
def plain_adaptive_loop(h: Tensor, f: Tensor, cell: AffineGates) -> Tensor:
    """The adaptive scan as a good torch user writes it: read, gate, decay and write in place."""
    logits, rows = cell.of_hidden(h).unbind(1), f.unbind(1)
    C = f.new_zeros(f.shape[0], f.shape[2], f.shape[2])
    for token, row in zip(logits, rows, strict=True):
        reading = torch.bmm(C, row[:, :, None])[:, :, 0]
        gates = cell.of_reading(token, reading)
        C.mul_(gates[:, :1, None])
        C.baddbmm_(row[:, :, None], (gates[:, 1:] * row)[:, None, :])
    return C


def fla_memory(f: Tensor, log_alpha: Tensor | None = None) -> Tensor:
    """The memory as `chunk_simple_gla` makes it: keys and values are f; queries it will not do without."""
    from fla.ops.simple_gla import chunk_simple_gla

    heads = f[:, :, None]
    gates = None if log_alpha is None else log_alpha[:, :, None]
    _, state = chunk_simple_gla(heads.detach(), heads, heads, gates, scale=1.0, output_final_state=True)
    memory: Tensor = state[:, 0]
    return memory


def fla_delta_memory(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    """The state of `fused_recurrent_delta_rule`, the peer that reads its memory before it writes."""
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    heads = keys[:, :, None]
    written = values[:, :, None]
    _, state = fused_recurrent_delta_rule(
        heads, heads, written, beta[:, :, None], scale=1.0, output_final_state=True
    )
    memory: Tensor = state[:, 0]
    return memory


def delta_reference(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    """The delta rule as a plain loop, S ← S + k (β (v − Sᵀ k))ᵀ: the referee of the above.

    >>> one = torch.ones(1, 2, 1)
    >>> delta_reference(one, 3 * one, one[..., 0]).item()  # written once, and then it is known
    3.0
    """
    S = keys.new_zeros(keys.shape[0], keys.shape[2], values.shape[2])
    for k, v, b in zip(keys.unbind(1), values.unbind(1), beta.unbind(1), strict=True):
        news = b[:, None] * (v - torch.einsum("bkv,bk->bv", S, k))
        S = S + k[:, :, None] * news[:, None, :]
    return S
