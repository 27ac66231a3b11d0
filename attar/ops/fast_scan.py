"""The fast twin of `scan`'s chunk, without a loop over tokens: gates by fixed points, gradients in closed form.

Inside a chunk of L tokens that starts from C₀, with P_t = C₀ f_t and K_ts = f_t · f_s,

    r_t = C_t f_t = a_t P_t + Σ_{s<t} w_ts K_ts f_s        a_t = ∏_{u<t} α_u    w_ts = β_s ∏_{s<u<t} α_u
    α_t, β_t = σ(z_t + V φ_t r_t + w g_t)                  z_t = U h_t + b      φ_t = 1 / √(1 + mean r_t²)
    g_t = x_t / (1 + x_t)                                  x_t = f_t · r_t / K_tt²

An iteration computes all readings r from the current gates by one product, and all gates from the readings. The gates
of token t depend only on those before it, so each iteration makes at least one more token final, and L iterations are
exact. Mostly it makes many final: those up to the first that changed by more than its rounding. Gates that depend
weakly on the memory need four iterations (L = 64, |f| = |V| = 1).

Backward, with G = ∂L/∂C after the chunk, G_t before token t, ρ = φ r, and d_t = ∂L/∂r_t:

    d_t = φ_t (Vᵀ ∂z_t − (V ρ_t · ∂z_t) ρ_t / k) + (w · ∂z_t) g'_t f_t / K_tt²      G_t = α_t G_{t+1} + d_t f_tᵀ
    e_t = f_tᵀ G_{t+1} f_t        y_t = ⟨α_t G_{t+1}, C_t⟩ = ⟨G_{t+1}, C_{t+1}⟩ − β_t e_t
    ∂z_t = ((1 − α_t) y_t,  β_t (1 − β_t) e_t)

Everything here is linear in the y and e of later tokens: one triangular system of 2 L unknowns per chunk. Its matrix
needs products of vectors only, no C_t.

Gain: 2.8 times forward at 8 × 512 × 128, one CPU thread; forward and backward 4 times at 32 × 750 × 100.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attar.ops.gram import decay_after
from attar.ops.reference import TINY, Gates, Mask, Memory, States

# Longer chunks need fewer products and more iterations: 64 was the fastest of 32, 64 and 128 at 8 × 1,024 × 128.
CHUNK = 64

# Weights count as e⁻⁸⁰ = 2e-35 at least: negligible next to the 1 of a squashed reading, and above the subnormal
# numbers that processors multiply slowly (strong gates took 1.6 times the time). A gate of 0 counts as that too, as
# its logarithm must be subtracted.
LEAST = -80.0

ReadWeight = Float[Tensor, "*B 2 k"]
EnergyWeight = Float[Tensor, "*B 2"] | None


class Gradients(NamedTuple):
    """The gradients of a chunk: of the memory at its start, of U h + b, f, V and w."""

    start: Memory
    logits: Gates
    f: States
    read_weight: ReadWeight
    energy_weight: EnergyWeight


def read_chunk(
    C: Memory, f: States, logits: Gates, read_weight: ReadWeight, energy_weight: EnergyWeight, mask: Mask
) -> tuple[Memory, Gates]:
    """The memory after a chunk, and the gates of its tokens; `logits` are U h + b.

    >>> C, f, V = torch.eye(2)[None], torch.tensor([[[0.0, 2.0]]]), torch.zeros(2, 2)  # every gate half open
    >>> read_chunk(C, f, torch.zeros(1, 1, 2), V, None, None)[0].tolist()
    [[[0.5, 0.0], [0.0, 2.5]]]
    """
    gates = _solve_gates(torch.bmm(f, C.mT), f, logits, read_weight, energy_weight, mask)
    return add_chunk(C, f, gates), gates


def add_chunk(C: Memory, f: States, gates: Gates) -> Memory:
    """The memory after a chunk whose gates are known."""
    after, kept = decay_after(gates[..., 0])
    weighted = f * (after * gates[..., 1])[:, :, None]
    return (C * kept[:, None, None]).baddbmm_(weighted.mT, f)


def _solve_gates(
    at_start: States,
    f: States,
    logits: Gates,
    read_weight: ReadWeight,
    energy_weight: EnergyWeight,
    mask: Mask,
) -> Gates:
    """α and β of a chunk's tokens, from P = F C₀ᵀ and F."""
    overlaps = torch.bmm(f, f.mT)
    norms = overlaps.diagonal(dim1=1, dim2=2).square()
    overlaps = overlaps.tril(-1)
    rounding = torch.finfo(f.dtype).eps

    def gates_of(reading: States, first: int) -> Gates:
        """σ(z + V squash(r) + w g) from token `first` on; squashed after the product with V, 2 values instead of k."""
        squashing = torch.linalg.vector_norm(reading, dim=-1, keepdim=True)
        squashing = squashing.square_().div_(reading.shape[2]).add_(1).rsqrt_()
        found = torch.addcmul(logits[:, first:], reading @ read_weight.mT, squashing)
        if energy_weight is not None:
            present = torch.linalg.vecdot(f[:, first:], reading).clamp_(min=0)
            present = present / (norms[:, first:] + present + TINY)
            found = torch.addcmul(found, present[:, :, None], energy_weight.unsqueeze(-2))
        found = found.sigmoid_()
        blank = found.new_tensor([1.0, 0.0])
        return found if mask is None else torch.where(mask[:, first:, None], found, blank)

    # C₀ alone is a good first guess at what each token reads, and exact for the first token.
    gates = gates_of(at_start, 0)
    final = 1
    while final < f.shape[1]:
        before, left = remaining_weights(gates, final)
        reading = (before.to(f.dtype) * at_start[:, final:]).baddbmm_(
            left.to(f.dtype).mul_(overlaps[:, final:]), f
        )
        previous, new = gates[:, final:], gates_of(reading, final)
        # Written with <=, so that NaN in one document does not end the iterations of the others.
        unchanged = ((new - previous).abs_() <= rounding).all(2).all(0)
        previous.copy_(new)
        # The first of them was computed from final gates alone, so it is final even if it changed.
        final += max(1, [*unchanged.tolist(), False].index(False))
    return gates


def remaining_weights(gates: Gates, first: int) -> tuple[Float[Tensor, "B t 1"], Float[Tensor, "B t n"]]:
    """For the tokens t from `first` on: a_t, what remains of the chunk's start, and w_ts, of token s < t.

    Sums of logarithms are float64: in float32 the difference of two large ones would lose its last digits.

    >>> a, w = remaining_weights(torch.tensor([[[0.5, 1.0], [0.25, 1.0], [0.5, 1.0]]]), 2)
    >>> round(a.item(), 4), [round(x, 4) for x in w[0, 0, :2].tolist()]
    (0.125, [0.25, 1.0])
    """
    forget, write = gates.double().log().clamp_min_(LEAST).unbind(-1)
    through = forget.cumsum(1)
    before = (through - forget)[:, first:, None]
    # Where s ≥ t the exponent may be anything: the result is 1 there, and the caller masks it.
    left = (before - (through - write)[:, None, :]).clamp_(LEAST, 0)
    return before.clamp_min(LEAST).exp_(), left.exp_()


def chunk_gradients(
    C: Memory,
    end: Memory,
    f: States,
    gates: Gates,
    read_weight: ReadWeight,
    energy_weight: EnergyWeight,
    mask: Mask,
    G: Memory,
) -> Gradients:
    """The gradients of a chunk that goes from the memory C to the memory `end`, from G, that of `end`."""
    k, (alpha, beta) = f.shape[2], gates.unbind(-1)
    before, left = remaining_weights(gates.new_tensor([1.0, 0.0]) * gates + gates.new_tensor([0.0, 1.0]), 0)
    # v[t, s] = ∏_{t<u<s} α_u for t < s, else 0.
    before, later = before.to(f.dtype), left.to(f.dtype).tril(-1).mT
    overlaps = torch.bmm(f, f.mT)
    history = (later * beta[:, :, None] * overlaps).mT
    reading = torch.baddbmm(before * torch.bmm(f, C.mT), history, f)
    squashing = torch.rsqrt(1 + reading.square().mean(-1))
    rho = squashing[:, :, None] * reading
    norms = overlaps.diagonal(dim1=1, dim2=2)
    overlap = torch.linalg.vecdot(f, reading)
    # g' / K² and g, both 0 where f is 0.
    present = overlap.clamp(min=0)
    slope = torch.where(overlap > 0, norms.square() / (norms.square() + present + TINY).square(), 0)
    V_rho, V_f = rho @ read_weight.mT, f @ read_weight.mT
    energies = (
        torch.zeros_like(V_rho) if energy_weight is None else energy_weight.unsqueeze(-2) * slope[..., None]
    )
    both = torch.bmm(f, G + G.mT)
    after, kept = decay_after(alpha)
    # f_t · d_s = Σ_c A_tsc ∂z_sc, and d_s · r_s = Σ_c m_sc ∂z_sc.
    along_rho = torch.bmm(f, (squashing[:, :, None] * rho / k).mT)
    weights = later * overlaps
    A = [
        weights
        * (
            V_f[:, :, None, c] * squashing[:, None, :]
            - along_rho * V_rho[:, None, :, c]
            + energies[:, None, :, c] * overlaps
        )
        for c in range(2)
    ]
    m = squashing.square()[..., None] * V_rho + energies * overlap[..., None]
    y, e = _solve_backward(
        torch.linalg.vecdot(f, both) / 2 * after,
        torch.linalg.vecdot(G.flatten(1), end.flatten(1)),
        A,
        m,
        alpha,
        beta,
    )
    dz = torch.stack([(1 - alpha) * y, beta * (1 - beta) * e], -1)
    if mask is not None:
        dz = dz.masked_fill(~mask[:, :, None], 0)
    kappa = torch.linalg.vecdot(V_rho, dz)[..., None] / k
    along_energy = torch.linalg.vecdot(energies, dz)[..., None]
    D = squashing[:, :, None] * (dz @ read_weight - kappa * rho) + along_energy * f
    along = torch.bmm(f, D.mT)
    grad = torch.baddbmm(both * after[:, :, None], weights, D)
    grad = beta[:, :, None] * torch.baddbmm(grad, later * along, f)
    grad = torch.baddbmm(grad, (later * beta[:, :, None] * along).mT, f) + before * torch.bmm(D, C)
    grad = grad + along_energy * (reading - 4 * (overlap / norms.clamp(min=TINY))[..., None] * f)
    start = torch.baddbmm(kept[:, None, None] * G, (D * before).mT, f)
    of_V, of_w = torch.bmm(dz.mT, rho), None
    if energy_weight is not None:
        of_w = torch.bmm(dz.mT, (present / (norms.square() + present + TINY))[..., None])[..., 0]
        of_w = of_w if energy_weight.ndim == 2 else of_w.sum(0)
    return Gradients(start, dz, grad, of_V if read_weight.ndim == 3 else of_V.sum(0), of_w)


def _solve_backward(
    energies: Float[Tensor, "B n"],
    overlap: Float[Tensor, " B"],
    A: list[Float[Tensor, "B n n"]],
    m: Gates,
    alpha: Float[Tensor, "B n"],
    beta: Float[Tensor, "B n"],
) -> tuple[Float[Tensor, "B n"], Float[Tensor, "B n"]]:
    """y and e of every token, from the last to the first.

        e_t = energies_t + Σ_{s>t} (A_ts0 (1 − α_s) y_s + A_ts1 β_s (1 − β_s) e_s)
        y_t = ⟨G_{t+1}, C_{t+1}⟩ − β_t e_t        ⟨G_t, C_t⟩ = y_t + m_t · ∂z_t

    With the unknowns in the order y_0, e_0, y_1, e_1, … each depends on those after it only.
    """
    batch, n = alpha.shape
    shares = 1 - alpha, beta * (1 - beta)
    matrix = alpha.new_zeros(batch, n, 2, n, 2)
    matrix[:, :, 1, :, 0] = -A[0] * shares[0][:, None, :]
    matrix[:, :, 1, :, 1] = -A[1] * shares[1][:, None, :]
    matrix[:, :, 0, :, 1].diagonal(dim1=1, dim2=2).copy_(beta)
    matrix[:, :, 0, :, 0].diagonal(1, dim1=1, dim2=2).copy_(-(1 + m[..., 0] * shares[0])[:, 1:])
    matrix[:, :, 0, :, 1].diagonal(1, dim1=1, dim2=2).copy_(-(m[..., 1] * shares[1])[:, 1:])
    known = torch.stack([torch.zeros_like(energies), energies], -1)
    known[:, -1, 0] = overlap
    system = matrix.view(batch, 2 * n, 2 * n)
    solved = torch.linalg.solve_triangular(
        system, known.view(batch, 2 * n, 1), upper=True, unitriangular=True
    )
    y, e = solved.view(batch, n, 2).unbind(-1)
    return y, e
