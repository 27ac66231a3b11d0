"""The paper's equations as plain loops: the referee of every faster backend.

    H  [B, n, k]   hidden states           f  [B, n, k]   what is written: h, or σ(W h + b) ⊙ h
    C  [B, k, k]   memory                  α, β  [B, n]   gates: what is kept, what is written
    q  [B, m, k]   queries                 R  [B, m, k]   readouts, C q

Written to be read, not to be run on much. Padding is α = 1, β = 0, f = 0: a step that changes nothing.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attar.ops.checks import accumulation_dtype
from attar.ops.gates import Cell

Memory = Float[Tensor, "B k k"]
Mask = Bool[Tensor, "B n"] | None


def encode(
    f: Float[Tensor, "B n k"],
    alpha: Float[Tensor, "B n"] | None = None,
    beta: Float[Tensor, "B n"] | None = None,
    mask: Mask = None,
    initial: Memory | None = None,
) -> Memory:
    """C_(t+1) = α_t C_t + β_t f_t f_tᵀ (section 4; section 3.2 with α = β = 1)."""
    f, C = blank_padding(f, mask), start(f, initial)
    ones = torch.ones(f.shape[:2], dtype=f.dtype, device=f.device)
    alpha = ones if alpha is None else alpha.to(f.dtype)
    beta = ones if beta is None else beta.to(f.dtype)
    for t in range(f.shape[1]):
        kept, written = silence_padding(alpha[:, t], beta[:, t], mask, t)
        C = step(C, f[:, t], kept, written)
    return C


def encode_adaptive(
    h: Float[Tensor, "B n d"],
    f: Float[Tensor, "B n k"],
    cell: Cell,
    mask: Mask = None,
    initial: Memory | None = None,
) -> Memory:
    """The same with gates that look at h_t and C_t f_t: the general form of section 4."""
    h, f, C = blank_padding(h, mask), blank_padding(f, mask), start(f, initial)
    for t in range(f.shape[1]):
        alpha, beta = cell(h[:, t], torch.einsum("bij,bj->bi", C, f[:, t]))
        kept, written = silence_padding(alpha, beta, mask, t)
        C = step(C, f[:, t], kept, written)
    return C


def step(C: Memory, f: Float[Tensor, "B k"], alpha: Float[Tensor, " B"], beta: Float[Tensor, " B"]) -> Memory:
    """One token: α C + β f fᵀ.

    >>> f, half, one = torch.tensor([[1.0, 2.0]]), torch.tensor([0.5]), torch.tensor([1.0])
    >>> step(torch.eye(2)[None], f, half, one)[0].tolist()
    [[1.5, 2.0], [2.0, 4.5]]
    """
    return alpha[:, None, None] * C + beta[:, None, None] * f[:, :, None] * f[:, None, :]


def unstep(
    C: Memory, f: Float[Tensor, "B k"], alpha: Float[Tensor, " B"], beta: Float[Tensor, " B"]
) -> Memory:
    """The step undone: (C − β f fᵀ) / α. Section 4 prints it with α and β exchanged.

    >>> C, f = torch.eye(2)[None], torch.tensor([[1.0, 2.0]])
    >>> gates = torch.tensor([0.5]), torch.tensor([1.0])
    >>> bool((unstep(step(C, f, *gates), f, *gates) == C).all())
    True
    """
    return (C - beta[:, None, None] * f[:, :, None] * f[:, None, :]) / alpha[:, None, None]


def lookup(C: Float[Tensor, "B k d"], q: Float[Tensor, "B m d"]) -> Float[Tensor, "B m k"]:
    """R = C q (section 3.1)."""
    return torch.einsum("bij,bmj->bmi", C, q)


def softmax_lookup(
    H: Float[Tensor, "B n k"], q: Float[Tensor, "B m k"], mask: Mask = None
) -> Float[Tensor, "B m k"]:
    """R = Hᵀ softmax(H q) (section 2.1); nothing read gives 0."""
    H = blank_padding(H, mask)
    scores = torch.einsum("bnk,bmk->bmn", H, q)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, :], -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("bmn,bnk->bmk", torch.nan_to_num(weights), H)


def start(f: Float[Tensor, "B n k"], initial: Memory | None) -> Memory:
    """The memory before the first token, in the type that memories are summed in."""
    batch, _, k = f.shape
    dtype = accumulation_dtype(f.dtype)
    return torch.zeros(batch, k, k, dtype=dtype, device=f.device) if initial is None else initial.to(dtype)


def blank_padding(states: Float[Tensor, "B n k"], mask: Mask) -> Float[Tensor, "B n k"]:
    """States in the type that is summed in, and 0 where a document has ended, whatever lay there."""
    states = states.to(accumulation_dtype(states.dtype))
    return states if mask is None else states.masked_fill(~mask[:, :, None], 0)


def silence_padding(
    alpha: Float[Tensor, " B"], beta: Float[Tensor, " B"], mask: Mask, t: int
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    """Gates at token t, with α = 1 and β = 0 where a document has ended."""
    if mask is None:
        return alpha, beta
    return alpha.masked_fill(~mask[:, t], 1), beta.masked_fill(~mask[:, t], 0)
