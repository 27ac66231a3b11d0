"""Baselines: what people would write or install instead, each written as well as its users would.

flash-linear-attention (`fla`) is imported here and nowhere else. Its layout is [B, T, heads, K].
"""

import importlib.util

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.ops import AffineGates

Floats = NDArray[np.float32]


def softmax_numpy(hidden: Floats, queries: Floats) -> Floats:
    """Hᵀ softmax(H q) in numpy, for one query `[k]` or many `[m, k]`.

    >>> softmax_numpy(np.float32([[1], [3]]), np.float32([[0]])).tolist()
    [[2.0]]
    """
    scores = queries @ hidden.T
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    # Dividing last touches k numbers per query, not n.
    readouts: Floats = (scores @ hidden) / scores.sum(-1, keepdims=True)
    return readouts


def softmax_torch(hidden: Tensor, queries: Tensor) -> Tensor:
    """The same in torch."""
    return torch.softmax(queries @ hidden.mT, -1) @ hidden


def softmax_sdpa(hidden: Tensor, query: Tensor) -> Tensor:
    """The same for one query with PyTorch's fused attention."""
    rows = hidden[None]
    return torch.nn.functional.scaled_dot_product_attention(query[None, None], rows, rows, scale=1.0)[0, 0]


def faiss_is_installed() -> bool:
    """Whether `TokenIndex` can be used."""
    return importlib.util.find_spec("faiss") is not None


class TokenIndex:
    """FAISS's flat inner-product index over a document's states; answers by softmax over the `top` nearest.

    FAISS is limited to one thread, as the other methods are.
    """

    # Queries per call: the selected states of 256 queries with top = k = 100 take 10 MB in float32.
    BATCH = 256

    def __init__(self, hidden: Floats, top: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.top = min(top, len(hidden))
        self.index = faiss.IndexFlatIP(hidden.shape[1])
        self.index.add(hidden)
        # A view of FAISS's own copy of the states: fetching them through its calls takes twice as long.
        self.states: Floats = faiss.rev_swig_ptr(self.index.get_xb(), hidden.size).reshape(hidden.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the index."""
        return int(self.index.ntotal * self.index.code_size)

    def nearest(self, queries: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and positions `[m, top]` of the tokens nearest to each query."""
        scores, places = self.index.search(queries, self.top)
        return scores, places

    def batches(self, queries: Floats) -> list[Floats]:
        """Queries as they are passed to FAISS; how it rounds depends on the batch."""
        return [queries[at : at + self.BATCH] for at in range(0, len(queries), self.BATCH)]

    def lookup(self, queries: Floats) -> Floats:
        """Readouts `[m, k]`."""
        if len(queries) > self.BATCH:
            return np.concatenate([self.lookup(batch) for batch in self.batches(queries)])
        weights, places = self.nearest(queries)
        weights -= weights[:, :1]  # the best comes first
        np.exp(weights, out=weights)
        readouts: Floats = (weights[:, None] @ self.states[places])[:, 0]
        readouts /= weights.sum(1, keepdims=True)
        return readouts


def plain_scan(f: Tensor, alpha: Tensor | None = None) -> Tensor:
    """C ← α_t C + f_t f_tᵀ, token by token: what autograd gets where there is no closed form."""
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
    """The final state of `chunk_simple_gla` with keys = values = f; it needs queries, which are not used."""
    from fla.ops.simple_gla import chunk_simple_gla

    heads = f[:, :, None]
    gates = None if log_alpha is None else log_alpha[:, :, None]
    _, state = chunk_simple_gla(heads.detach(), heads, heads, gates, scale=1.0, output_final_state=True)
    memory: Tensor = state[:, 0]
    return memory


def fla_delta_memory(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    """The final state of `fused_recurrent_delta_rule`, which also reads its memory before it writes."""
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    heads, written = keys[:, :, None], values[:, :, None]
    _, state = fused_recurrent_delta_rule(
        heads, heads, written, beta[:, :, None], scale=1.0, output_final_state=True
    )
    memory: Tensor = state[:, 0]
    return memory


def delta_reference(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    """The delta rule as a plain loop, S ← S + k (β (v − Sᵀ k))ᵀ: the reference for `fla_delta_memory`.

    >>> one = torch.ones(1, 2, 1)
    >>> delta_reference(one, 3 * one, one[..., 0]).item()  # a value that is known is not written again
    3.0
    """
    S = keys.new_zeros(keys.shape[0], keys.shape[2], values.shape[2])
    for k, v, b in zip(keys.unbind(1), values.unbind(1), beta.unbind(1), strict=True):
        change = b[:, None] * (v - torch.einsum("bkv,bk->bv", S, k))
        S = S + k[:, :, None] * change[:, None, :]
    return S
