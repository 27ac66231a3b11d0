"""The paper's equations as plain loops: the reference for every faster backend.

    H  [B, n, k]   hidden states           f  [B, n, k]   what is written: h, or σ(W h + b) ⊙ h
    C  [B, k, k]   memory                  α, β  [B, n]   gates: what is kept, what is written
    q  [B, m, k]   queries                 R  [B, m, k]   readouts, C q

Written to be read, not to be fast. Padding is α = 1, β = 0, f = 0: a step that changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attar.ops.checks import accumulation_dtype

States = Float[Tensor, "B n k"]
Memory = Float[Tensor, "B k k"]
Mask = Bool[Tensor, "B n"] | None
Gate = Float[Tensor, "B n"] | None
Gates = Float[Tensor, "B n 2"]
# A cell takes a state [B, d], what is written, f [B, k], and its reading C f [B, k]. It returns α and β, [B] each, and
# may return a third: what is written in place of f.
Cell = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]


def gated(
    h: Float[Tensor, "*batch k"], weight: Float[Tensor, "k k"], bias: Float[Tensor, " k"]
) -> Float[Tensor, "*batch k"]:
    """f = σ(W h + b) ⊙ h (section 4)."""
    return torch.nn.functional.linear(h, weight.to(h.dtype), bias.to(h.dtype)).sigmoid_() * h


def squash(reading: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
    """r / √(1 + mean r²): a small reading is unchanged, a large one keeps only its direction.

    C f grows with everything that was written. Gates that read it raw saturate, and their gradients drift in
    float32 (29 % off at n = 1,024). The 1 keeps the slope at an empty memory finite.

    >>> squash(torch.tensor([3.0, 3.0])).tolist()
    [0.9486832618713379, 0.9486832618713379]
    """
    return reading * torch.rsqrt(1 + reading.square().mean(-1, keepdim=True))


def presence(f: Float[Tensor, "*batch k"], reading: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
    """How much of f is in C already, from r = C f: e / (1 + e) with the energy e = fᵀ C f / ‖f‖⁴.

    If C holds f n times, and else only what is orthogonal to it, then C f = n ‖f‖² f and e = n. (The paper prints
    ‖f‖ f for n = 1.) Bounded, since e grows with the text and as 1 / ‖f‖² where a gate of f is nearly closed.

    >>> f = torch.tensor([0.0, 2.0])
    >>> C = torch.outer(f, f)
    >>> presence(f, 0 * C @ f).item(), presence(f, C @ f).item(), presence(f, 3 * C @ f).item()
    (0.0, 0.5, 0.75)
    """
    overlap = torch.linalg.vecdot(f, reading).clamp(min=0)
    share: Tensor = overlap / (torch.linalg.vecdot(f, f).square() + overlap + TINY)
    return share


# Added where a vector of zeros, such as padding, would divide 0 by 0.
TINY = 1e-30


@dataclass(frozen=True)
class AffineGates:
    """(α, β) = σ(U h + b + V squash(C f) + w presence(f, C f)): the cell that the fast backends support.

    Any callable of (h, f, C f) is a cell; this one allows U h to be computed for all tokens at once. Without U and b,
    h is that sum already, `[B, n, 2]`. V and w may be given per document, `[B, 2, k]` and `[B, 2]`.
    """

    hidden_weight: Float[Tensor, "2 d"] | None
    read_weight: Float[Tensor, "*B 2 k"]
    bias: Float[Tensor, " 2"] | None
    energy_weight: Float[Tensor, "*B 2"] | None = None

    def __call__(
        self, h: Float[Tensor, "B d"], f: Float[Tensor, "B k"], reading: Float[Tensor, "B k"]
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
        """α and β of one token per document."""
        alpha, beta = self.of_reading(self.of_hidden(h), f, reading).unbind(-1)
        return alpha, beta

    def of_hidden(self, h: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch 2"]:
        """The part of the logits that depends on the state alone: U h + b."""
        if self.hidden_weight is None or self.bias is None:
            return h
        return torch.nn.functional.linear(h, self.hidden_weight.to(h.dtype), self.bias.to(h.dtype))

    def of_reading(
        self, hidden_logits: Float[Tensor, "B 2"], f: Float[Tensor, "B k"], reading: Float[Tensor, "B k"]
    ) -> Float[Tensor, "B 2"]:
        """α and β, stacked, from U h + b, f and C f."""
        read = torch.einsum("...ck,...k->...c", self.read_weight.to(reading.dtype), squash(reading))
        if self.energy_weight is not None:
            read = read + self.energy_weight.to(reading.dtype) * presence(f, reading)[..., None]
        return torch.sigmoid(hidden_logits + read)

    def tensors(self) -> tuple[Tensor, ...]:
        """Its parameters, in the order of the constructor."""
        return tuple(
            x for x in (self.hidden_weight, self.read_weight, self.bias, self.energy_weight) if x is not None
        )


def encode(
    f: States, alpha: Gate = None, beta: Gate = None, mask: Mask = None, initial: Memory | None = None
) -> Memory:
    """C_(t+1) = α_t C_t + β_t f_t f_tᵀ (section 4; section 3.2 with α = β = 1)."""
    f, C = blank_padding(f, mask), start_memory(f, initial)
    ones = torch.ones(f.shape[:2], dtype=f.dtype, device=f.device)
    alpha = ones if alpha is None else alpha.to(f.dtype)
    beta = ones if beta is None else beta.to(f.dtype)
    for t in range(f.shape[1]):
        C = step(C, f[:, t], *_gates_at(t, alpha[:, t], beta[:, t], mask))
    return C


def encode_adaptive(
    h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask = None, initial: Memory | None = None
) -> Memory:
    """The same with gates, and what is written, computed from h_t and C_t f_t: the general form of section 4."""
    h, f, C = blank_padding(h, mask), blank_padding(f, mask), start_memory(f, initial)
    for t in range(f.shape[1]):
        alpha, beta, *written = cell(h[:, t], f[:, t], torch.einsum("bij,bj->bi", C, f[:, t]))
        C = step(C, written[0] if written else f[:, t], *_gates_at(t, alpha, beta, mask))
    return C


def step(C: Memory, f: Float[Tensor, "B k"], alpha: Float[Tensor, " B"], beta: Float[Tensor, " B"]) -> Memory:
    """One token: α C + β f fᵀ.

    >>> f, half, one = torch.tensor([[1.0, 2.0]]), torch.tensor([0.5]), torch.tensor([1.0])
    >>> step(torch.eye(2)[None], f, half, one)[0].tolist()
    [[1.5, 2.0], [2.0, 4.5]]
    """
    return alpha[:, None, None] * C + beta[:, None, None] * f[:, :, None] * f[:, None, :]


def lookup(C: Float[Tensor, "B k d"], q: Float[Tensor, "B m k"]) -> Float[Tensor, "B m d"]:
    """R = Cᵀ q; C q for a symmetric C (section 3.1)."""
    return torch.einsum("bij,bmi->bmj", C, q)


def softmax_lookup(H: States, q: Float[Tensor, "B m k"], mask: Mask = None) -> Float[Tensor, "B m k"]:
    """R = Hᵀ softmax(H q) (section 2.1); 0 for a document of no tokens."""
    H = blank_padding(H, mask)
    scores = torch.einsum("bnk,bmk->bmn", H, q)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, :], -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("bmn,bnk->bmk", torch.nan_to_num(weights), H)


def start_memory(f: States, initial: Memory | None) -> Memory:
    """The memory before the first token, in the accumulation dtype."""
    batch, _, k = f.shape
    dtype = accumulation_dtype(f.dtype)
    return f.new_zeros(batch, k, k, dtype=dtype) if initial is None else initial.to(dtype)


def blank_padding(states: States, mask: Mask) -> States:
    """States in the accumulation dtype, and 0 after the end of each document, whatever was there."""
    states = states.to(accumulation_dtype(states.dtype))
    return states if mask is None else states.masked_fill(~mask[:, :, None], 0)


def _gates_at(
    t: int, alpha: Float[Tensor, " B"], beta: Float[Tensor, " B"], mask: Mask
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    """Gates at token t, with α = 1 and β = 0 in documents that have ended."""
    if mask is None:
        return alpha, beta
    return alpha.masked_fill(~mask[:, t], 1), beta.masked_fill(~mask[:, t], 0)
