"""The one sequential part of an adaptive scan: the gates of a chunk's L tokens, each of which looks at those before.

Gates are found by sweeps over the whole chunk. Token t's gates follow from those before it alone, so after i sweeps
the first i tokens are final and L sweeps are exact; gates that look at the memory mildly settle in a few, and the
sweeps end when none moves by more than SETTLED (gradients: by that share of the largest). Everything that they need
of the vectors is in products made beforehand, so that a sweep touches L × L numbers and none of size k. Forwards,
from the chunk's start C₀, with P_t = C₀ f_t:

    r_t = a_t P_t + Σ_{s<t} c_ts f_s        c_ts = w_s K_ts        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u
    V r_t = a_t (V P_t) + Σ c_ts (V f_s)    ‖r_t‖² = a_t² ‖P_t‖² + 2 a_t Σ c_ts M_ts + c_tᵀ K c_t
    K_ts = f_t · f_s    M_ts = P_t · f_s

Backwards, with ρ = φ r the squashed reading (φ = 1 / √(1 + ‖r‖² / k)), ∂z the gradient of the gates' logits and
G the gradient of the memory after the chunk:

    d_t = ∂L/∂r_t = φ_t (Vᵀ ∂z_t − κ_t ρ_t)        κ_t = (V ρ_t) · ∂z_t / k
    e_t = f_tᵀ G_{t+1} f_t = g_t f_tᵀ G f_t + Σ_{s>t} v_s K_ts (f_t · d_s)
    ∂z_t = ((q_{t+1} − β_t e_t)(1 − α_t),  e_t β_t (1 − β_t))
    q_t = ⟨G_t, C_t⟩ = q_{t+1} − β_t e_t + d_t · r_t        d_t · r_t = φ_t² (V ρ_t) · ∂z_t

q makes ∂α free of any C_t, and the sigmoid's own α cancels the division: α_t ∂α_t = q_{t+1} − β_t e_t.
"""

import triton
import triton.language as tl


@triton.jit
def solve_gates(K, M, P2, PV0, PV1, FV0, FV1, U0, U1, count, size, L: tl.constexpr, SETTLED: tl.constexpr):
    """α, β and φ of L tokens; `count` of them are real, the others keep everything and write nothing."""
    at = tl.arange(0, L)
    real = at < count
    alphas = tl.where(real, tl.sigmoid(U0), 1.0)
    betas = tl.where(real, tl.sigmoid(U1), 0.0)
    phis = tl.full([L], 1.0, tl.float32)
    moved = 1.0
    sweeps = 0
    while (moved > SETTLED) & (sweeps <= L):
        left, a = weights_before(alphas, betas, L)
        c = left * K
        seen = tl.dot(c, K, input_precision="tf32x3")
        along_c = c * (seen + 2 * a[:, None] * M)
        norm, y0, y1 = tl.reduce((along_c, c * FV0[None, :], c * FV1[None, :]), 1, add_three)
        phis = tl.rsqrt(1 + tl.maximum(norm + a * a * P2, 0.0) / size)
        new_alphas = tl.where(real, tl.sigmoid(U0 + phis * (y0 + a * PV0)), 1.0)
        new_betas = tl.where(real, tl.sigmoid(U1 + phis * (y1 + a * PV1)), 0.0)
        moved = tl.max(tl.maximum(tl.abs(new_alphas - alphas), tl.abs(new_betas - betas)), 0)
        alphas, betas = new_alphas, new_betas
        sweeps += 1
    return alphas, betas, phis


@triton.jit
def solve_gradients(
    K, N, E, alphas, betas, phis, RV0, RV1, FV0, FV1, q, count, size, L: tl.constexpr, SETTLED: tl.constexpr
):  # fmt: skip
    """∂z and κ of L tokens, and q before them.

    N_ts = f_t · ρ_s, E_t = f_tᵀ G f_t for the G after the chunk, RV = V ρ, FV = V f.
    """
    at = tl.arange(0, L)
    real = at < count
    log = log_of(alphas)
    logs = tl.cumsum(log, 0)
    later = at[None, :] > at[:, None]
    between = tl.exp(tl.where(later, (logs - log)[None, :] - logs[:, None], -float("inf"))) * K
    from_end = E * tl.exp(tl.sum(log, 0) - logs)
    z0 = tl.zeros([L], tl.float32)
    z1 = tl.zeros([L], tl.float32)
    total = q
    moved = 1.0
    sweeps = 0
    while (moved > SETTLED) & (sweeps <= L):
        scaled0, scaled1 = phis * z0, phis * z1
        kappa = (RV0 * scaled0 + RV1 * scaled1) / size
        along = FV0[:, None] * scaled0[None, :] + FV1[:, None] * scaled1[None, :] - N * kappa[None, :]
        e = from_end + tl.sum(between * along, 1)
        # q after token t: everything behind t taken off q after the chunk.
        taken = tl.where(real, betas * e - phis * (RV0 * scaled0 + RV1 * scaled1), 0.0)
        after = q - (tl.cumsum(taken, 0, reverse=True) - taken)
        new_z0 = tl.where(real, (after - betas * e) * (1 - alphas), 0.0)
        new_z1 = tl.where(real, e * betas * (1 - betas), 0.0)
        largest = tl.max(tl.maximum(tl.abs(new_z0), tl.abs(new_z1)), 0)
        change = tl.max(tl.maximum(tl.abs(new_z0 - z0), tl.abs(new_z1 - z1)), 0)
        moved = change / tl.maximum(largest, 1e-30)
        z0, z1 = new_z0, new_z1
        total = q - tl.sum(taken, 0)
        sweeps += 1
    return z0, z1, (RV0 * z0 + RV1 * z1) / size, total


@triton.jit
def weights_before(alphas, betas, L: tl.constexpr):
    """w_s as [t, s], 0 unless s < t, and a_t."""
    at = tl.arange(0, L)
    log = log_of(alphas)
    logs = tl.cumsum(log, 0)
    earlier = at[None, :] < at[:, None]
    decays = tl.exp(tl.where(earlier, (logs - log)[:, None] - logs[None, :], -float("inf")))
    return decays * betas[None, :], tl.exp(logs - log)


@triton.jit
def log_of(alphas):
    """log α, where a shut gate counts as 1e-37 so that logarithms subtract."""
    return tl.log(tl.maximum(alphas, 1e-37))


@triton.jit
def add_three(a0, a1, a2, b0, b1, b2):
    """Three sums in one pass, so that a program's warps meet once and not three times."""
    return a0 + b0, a1 + b1, a2 + b2
