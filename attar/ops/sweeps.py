"""A chunk of the adaptive scan without a loop over its tokens: the gates by sweeps, where nobody differentiates.

Inside a chunk of L tokens that starts from C₀, with P_t = C₀ f_t and K_ts = f_t · f_s,

    r_t = C_t f_t = a_t P_t + Σ_{s<t} w_ts K_ts f_s        a_t = ∏_{u<t} α_u    w_ts = β_s ∏_{s<u<t} α_u
    α_t, β_t = σ(z_t + V squash(r_t))                      z_t = U h_t + b

A sweep takes the gates of all tokens as they stand, makes all readings r from them by one product, and all
gates anew from the readings. Token t's gates follow from those before it alone, so each sweep makes at least one
more token final whatever the others do, and L sweeps are exact. Mostly it makes many final: those up to the first
that moved by more than its rounding. Gates that look at the memory mildly need four sweeps (L = 64, |f| = |V| = 1).

A token of the plain loop is a dozen small operations, and Python's part of them takes longer than their own; a
sweep is two dozen for a whole chunk.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attar.ops.gates import AffineGates
from attar.ops.gram import Mask, Memory, decay_after

Gates = Float[Tensor, "B n 2"]

# Longer chunks mean fewer calls, but w K F and C F cost the same at n = k, and the former is made every sweep.
# Longer chunks need fewer products and more sweeps: 64 was the quickest of 32, 64 and 128 at 8 × 1,024 × 128.
CHUNK = 64

# What is left of anything counts as e⁻⁸⁰ = 2e-35 at least: nothing beside the 1 of a squashed reading, and above
# the numbers that processors multiply slowly (strong gates took 1.6 times the time). So does what a shut gate
# leaves, whose logarithm must subtract.
LEAST = -80.0


def read_chunk(
    C: Memory, f: Float[Tensor, "B n k"], hidden_logits: Gates, cell: AffineGates, mask: Mask
) -> tuple[Memory, Gates]:
    """The memory after a chunk, and the gates of its tokens; `hidden_logits` is what the states alone say.

    >>> cell = AffineGates(torch.zeros(2, 1), torch.zeros(2, 2), torch.zeros(2))  # every gate half open
    >>> C, f = torch.eye(2)[None], torch.tensor([[[0.0, 2.0]]])
    >>> read_chunk(C, f, torch.zeros(1, 1, 2), cell, None)[0].tolist()
    [[[0.5, 0.0], [0.0, 2.5]]]
    """
    gates = solve_gates(torch.bmm(f, C.mT), f, hidden_logits, cell.read_weight.to(f.dtype), mask)
    after, kept = decay_after(gates[..., 0])
    weighted = f * (after * gates[..., 1])[:, :, None]
    return (C * kept[:, None, None]).baddbmm_(weighted.mT, f), gates


def solve_gates(
    at_start: Float[Tensor, "B n k"],
    f: Float[Tensor, "B n k"],
    hidden_logits: Gates,
    read_weight: Float[Tensor, "2 k"],
    mask: Mask,
) -> Gates:
    """α and β of a chunk's tokens, from P = F C₀ᵀ and F."""
    overlaps = torch.bmm(f, f.mT).tril_(-1)
    rounding = torch.finfo(f.dtype).eps
    # C₀ alone is a good guess at what each token reads, and for the first token it is all there is.
    gates = gates_of(at_start, hidden_logits, read_weight, mask)
    final = 1
    while final < f.shape[1]:
        before, left = left_over(gates, final)
        reading = (before.to(f.dtype) * at_start[:, final:]).baddbmm_(
            left.to(f.dtype).mul_(overlaps[:, final:]), f
        )
        visible = None if mask is None else mask[:, final:]
        last, found = gates[:, final:], gates_of(reading, hidden_logits[:, final:], read_weight, visible)
        # Asked this way round, not-a-number in one document does not end the sweeps of the others.
        still = ((found - last).abs_() <= rounding).all(2).all(0)
        last.copy_(found)
        # The first of them was made from final gates alone, so it is final even if it moved.
        final += max(1, [*still.tolist(), False].index(False))
    return gates


def gates_of(
    reading: Float[Tensor, "B n k"], hidden_logits: Gates, read_weight: Float[Tensor, "2 k"], mask: Mask
) -> Gates:
    """σ(z + V squash(r)) of all tokens: `AffineGates`, with r squashed once it is two numbers and not k."""
    norms = torch.linalg.vector_norm(reading, dim=-1, keepdim=True)
    squashing = norms.square_().div_(reading.shape[2]).add_(1).rsqrt_()
    gates = torch.addcmul(hidden_logits, reading @ read_weight.T, squashing).sigmoid_()
    return gates if mask is None else torch.where(mask[:, :, None], gates, gates.new_tensor([1.0, 0.0]))


def left_over(gates: Gates, first: int) -> tuple[Float[Tensor, "B t 1"], Float[Tensor, "B t n"]]:
    """For the tokens t from `first` on: a_t, what is left of the chunk's start, and w_ts, of token s < t.

    Sums of logarithms are float64: in float32 the difference of two large ones would cost its last digits.

    >>> a, w = left_over(torch.tensor([[[0.5, 1.0], [0.25, 1.0], [0.5, 1.0]]]), 2)
    >>> round(a.item(), 4), [round(x, 4) for x in w[0, 0, :2].tolist()]
    (0.125, [0.25, 1.0])
    """
    forget, write = gates.double().log().clamp_min_(LEAST).unbind(-1)
    through = forget.cumsum(1)
    before = (through - forget)[:, first:, None]
    # Where s ≥ t the exponent may be anything: 1 there, for the caller to blank.
    left = (before - (through - write)[:, None, :]).clamp_(LEAST, 0)
    return before.clamp_min(LEAST).exp_(), left.exp_()
