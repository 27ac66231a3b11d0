"""The adaptive scan for k > 128, where no memory fits on the chip: products by cuBLAS, gates by a kernel.

The same mathematics as `scan`, one chunk at a time for all documents: everything of size k is a matrix product, and
only the gates of a chunk's L tokens, each of which depends on those before, are sequential. Memories and their
gradients are transposed, as there.

Gates are computed by fixed-point iterations over the whole chunk, as in `attar.ops.fast_scan`. The gates of token t
depend only on those before it, so after i iterations the first i tokens are final and L are exact; gates that
depend weakly on the memory converge in a few, and the iterations end when none changes by more than SETTLED
(gradients: relative to the largest). All that they need of the vectors is in products computed beforehand, so an
iteration touches L × L values and none of size k. In forward, from the chunk's start C₀, with P_t = C₀ f_t:

    r_t = a_t P_t + Σ_{s<t} c_ts f_s        c_ts = w_s K_ts        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u
    V r_t = a_t (V P_t) + Σ c_ts (V f_s)    ‖r_t‖² = a_t² ‖P_t‖² + 2 a_t Σ c_ts M_ts + c_tᵀ K c_t
    K_ts = f_t · f_s    M_ts = P_t · f_s

In backward, with ρ = φ r the squashed reading (φ = 1 / √(1 + ‖r‖² / k)), ∂z the gradient of the gates' logits and
G the gradient of the memory after the chunk:

    d_t = ∂L/∂r_t = φ_t (Vᵀ ∂z_t − κ_t ρ_t)        κ_t = (V ρ_t) · ∂z_t / k
    e_t = f_tᵀ G_{t+1} f_t = g_t f_tᵀ G f_t + Σ_{s>t} v_s K_ts (f_t · d_s)
    ∂z_t = ((q_{t+1} − β_t e_t)(1 − α_t),  e_t β_t (1 − β_t))
    q_t = ⟨G_t, C_t⟩ = q_{t+1} − β_t e_t + d_t · r_t        d_t · r_t = φ_t² (V ρ_t) · ∂z_t
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from attar.ops.triton import Maybe
from attar.ops.triton.gates import decay_after

CHUNK = 64
SETTLED = 2e-7


def read(
    hidden: Tensor, f: Tensor, V: Tensor, w: Maybe, initial: Maybe, lengths: Maybe, training: bool
) -> tuple[Tensor, Tensor, Maybe, Tensor, Maybe]:
    """The last memory; for training also the gates, ρ, φ and a memory every `_spacing` tokens."""
    batch, n, k = f.shape
    counts = torch.full((batch,), n, dtype=torch.int32, device=f.device) if lengths is None else lengths
    T = f.new_zeros(batch, k, k, dtype=torch.float32) if initial is None else initial
    gates, phi = hidden.new_empty(batch, n, 2), hidden.new_empty(batch, n)
    rho = torch.zeros_like(f, memory_format=torch.contiguous_format) if training else None
    kept = T.new_empty(batch, -(-n // _spacing(k)), k, k) if training else None
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        if kept is not None and start % _spacing(k) == 0:
            kept[:, start // _spacing(k)] = T
        F = _states(f, part, counts)
        P, overlaps = F @ T, F @ F.mT
        gates_kernel[(batch,)](
            *(overlaps, P @ F.mT, P.square().sum(-1), P @ V.mT, F @ V.mT, hidden, w, counts, gates, phi),
            *(start, F.shape[1], n, k),
            ENERGY=w is not None,
            OWN=V.ndim == 3,
            L=CHUNK,
            SETTLED=SETTLED,
        )
        alphas, betas = gates[:, part].unbind(-1)
        if rho is not None:
            later, before = _decays_between(alphas)
            history = later.mT * betas[:, None, :] * overlaps
            readings = torch.baddbmm(before[:, :, None] * P, history, F)
            rho[:, part] = (phi[:, part, None] * readings).to(f.dtype)
        T = _add_chunk(T, F, alphas, betas)
    return T, gates, rho, phi, kept


def gradients(
    f: Tensor, V: Tensor, w: Maybe, lengths: Maybe, last: Tensor, gates: Tensor, rho: Tensor, phi: Tensor,
    kept: Tensor, grad_last: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Maybe, Tensor]:  # fmt: skip
    """∂(U h + b), ∂f, ∂V, ∂w and ∂C₀."""
    batch, n, k = f.shape
    counts = torch.full((batch,), n, dtype=torch.int32, device=f.device) if lengths is None else lengths
    grad_hidden, grad_f = torch.zeros_like(gates), torch.zeros_like(rho)
    grad_V, grad_w = torch.zeros(batch, 2, k, device=f.device), torch.zeros(batch, 2, device=f.device)
    G, end = grad_last, last
    for segment in reversed(range(kept.shape[1])):
        first = segment * _spacing(k)
        starts = _memories_between(kept[:, segment], f, gates, counts, first, min(first + _spacing(k), n))
        for place in reversed(range(len(starts))):
            start = first + place * CHUNK
            part, T = slice(start, start + CHUNK), starts[place]
            F, R = _states(f, part, counts), _states(rho, part, counts)
            dz, G, grad, present = _chunk_gradient(
                F, R, T, end, G, V, w, gates[:, part], phi[:, part], counts, start
            )
            grad_hidden[:, part], grad_f[:, part] = dz, grad.to(f.dtype)
            grad_V += torch.bmm(dz.mT, R)
            grad_w += torch.bmm(dz.mT, present[:, :, None])[:, :, 0]
            end = T
    if V.ndim == 2:
        grad_V, grad_w = grad_V.sum(0), grad_w.sum(0)
    return grad_hidden, grad_f, grad_V, None if w is None else grad_w, G


def _chunk_gradient(
    F: Tensor, R: Tensor, T: Tensor, end: Tensor, G: Tensor, V: Tensor, w: Maybe, gates: Tensor, phi: Tensor,
    counts: Tensor, start: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """∂z, the gradient of the memory before the chunk, ∂f, and how much of each token was there."""
    batch, rows, k = F.shape
    alphas, betas = gates.unbind(-1)
    Y, overlaps = F @ (G + G.mT), F @ F.mT
    dz, kappas = F.new_empty(batch, rows, 2), F.new_empty(batch, rows)
    energies, q = (F * Y).sum(-1) / 2, (G * end).sum((1, 2))
    norms, u = (F * F).sum(-1), ((F * R).sum(-1) / phi).clamp(min=0)
    whole = norms.square() + u + 1e-30
    slopes = ((u > 0) * norms.square() / whole / whole)[:, :, None]
    slopes = torch.zeros_like(dz) if w is None else (slopes * w.unsqueeze(-2)).contiguous()
    gradients_kernel[(batch,)](
        *(overlaps, F @ R.mT, energies, gates.contiguous(), phi.contiguous(), R @ V.mT, F @ V.mT),
        *(slopes, u.contiguous(), q, counts, dz, kappas, start, rows, k),
        L=CHUNK,
        SETTLED=SETTLED,
    )
    c = (slopes * dz).sum(-1, keepdim=True)
    D = phi[:, :, None] * (dz @ V - kappas[:, :, None] * R) + c * F
    D = D.masked_fill(~_inside(F, counts, start), 0)
    later, before = _decays_between(alphas)
    along = F @ D.mT
    after, kept_share = decay_after(alphas)
    grad = torch.baddbmm(Y * after[:, :, None], later * overlaps, D)
    grad = betas[:, :, None] * torch.baddbmm(grad, later * along, F)
    through = torch.bmm(D, T.mT) * before[:, :, None]
    grad = grad + torch.baddbmm(through, later.mT * betas[:, None, :] * along.mT, F)
    grad = grad + c * (R / phi[:, :, None] - 4 * (u / norms.clamp(min=1e-30))[:, :, None] * F)
    G = torch.baddbmm(kept_share[:, None, None] * G, (F * before[:, :, None]).mT, D)
    return dz, G, grad, u / whole


def _memories_between(
    T: Tensor, f: Tensor, gates: Tensor, counts: Tensor, first: int, end: int
) -> list[Tensor]:
    """The memories at the starts of a segment's chunks, recomputed from its first: the gates are known."""
    memories = [T]
    for start in range(first, end - CHUNK, CHUNK):
        part = slice(start, start + CHUNK)
        memories.append(_add_chunk(memories[-1], _states(f, part, counts), *gates[:, part].unbind(-1)))
    return memories


def _add_chunk(T: Tensor, F: Tensor, alphas: Tensor, betas: Tensor) -> Tensor:
    """The memory after a chunk whose gates are known."""
    after, kept_share = decay_after(alphas)
    return torch.baddbmm(kept_share[:, None, None] * T, (F * (after * betas)[:, :, None]).mT, F)


def _spacing(k: int) -> int:
    """Tokens between kept memories: k or more, so that these are no larger than the states.

    >>> _spacing(200)
    256
    """
    return CHUNK * -(-k // CHUNK)


def _states(x: Tensor, part: slice, counts: Tensor) -> Tensor:
    """A chunk's rows in float32, 0 after a document's end."""
    rows = x[:, part].float()
    return rows.masked_fill(~_inside(rows, counts, part.start), 0)


def _inside(rows: Tensor, counts: Tensor, start: int) -> Tensor:
    """Which rows of a chunk are tokens, [B, n, 1]."""
    return (start + torch.arange(rows.shape[1], device=rows.device) < counts[:, None])[:, :, None]


def _decays_between(alphas: Tensor) -> tuple[Tensor, Tensor]:
    """∏_{t<u<s} α_u as [B, t, s] for t < s, else 0; and ∏_{u<s} α_u."""
    log = alphas.clamp_min(1e-37).log()
    logs = log.cumsum(1)
    before = logs - log
    return torch.exp(before[:, None, :] - logs[:, :, None]).triu(1), before.exp()


@triton.jit
def gates_kernel(
    overlaps, readings, P2, PV, FV, hidden, w, counts, gates, phi, start, rows, n, k,
    ENERGY: tl.constexpr, OWN: tl.constexpr, L: tl.constexpr, SETTLED: tl.constexpr,
):  # fmt: skip
    """α, β and φ of one document's L tokens; those after its end have α = 1 and β = 0."""
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, L)
    here, row = at < rows, b * rows + at
    real = at < tl.minimum(tl.load(counts + b) - start, rows)
    token = b * n + start + at
    square, cell = here[:, None] & here[None, :], row[:, None] * rows + at[None, :]
    K, M = tl.load(overlaps + cell, square, 0.0), tl.load(readings + cell, square, 0.0)
    P_squared = tl.load(P2 + row, here, 0.0)
    PV0, PV1 = load_pairs(PV, row, here, 0.0)
    FV0, FV1 = load_pairs(FV, row, here, 0.0)
    U0, U1 = load_pairs(hidden, token, here, 0.0)
    same = at[:, None] == at[None, :]
    power = tl.sum(tl.where(same, K, 0.0), 1)
    power, own = power * power, tl.sum(tl.where(same, M, 0.0), 1)
    if ENERGY:
        w0, w1 = tl.load(w + b * 2 * OWN), tl.load(w + b * 2 * OWN + 1)
    alphas = tl.where(real, tl.sigmoid(U0), 1.0)
    betas = tl.where(real, tl.sigmoid(U1), 0.0)
    phis = tl.full([L], 1.0, tl.float32)
    moved = 1.0
    iterations = 0
    while (moved > SETTLED) & (iterations <= L):
        left, a = weights_before(alphas, betas, L)
        c = left * K
        seen = tl.dot(c, K, input_precision="tf32x3")
        along_c = c * (seen + 2 * a[:, None] * M)
        norm, y0, y1 = tl.reduce((along_c, c * FV0[None, :], c * FV1[None, :]), 1, add_three)
        phis = tl.rsqrt(1 + tl.maximum(norm + a * a * P_squared, 0.0) / k)
        z0, z1 = U0 + phis * (y0 + a * PV0), U1 + phis * (y1 + a * PV1)
        if ENERGY:
            u = tl.maximum(tl.sum(c * K, 1) + a * own, 0.0)
            present = u / (power + u + 1e-30)
            z0 += w0 * present
            z1 += w1 * present
        new_alphas = tl.where(real, tl.sigmoid(z0), 1.0)
        new_betas = tl.where(real, tl.sigmoid(z1), 0.0)
        moved = tl.max(tl.maximum(tl.abs(new_alphas - alphas), tl.abs(new_betas - betas)), 0)
        alphas, betas = new_alphas, new_betas
        iterations += 1
    tl.store(gates + token * 2, alphas, here)
    tl.store(gates + token * 2 + 1, betas, here)
    tl.store(phi + token, phis, here)


@triton.jit
def gradients_kernel(
    overlaps, N, energies, gates, phi, RV, FV, slopes, u, q, counts, dz, kappas, start, rows, k,
    L: tl.constexpr, SETTLED: tl.constexpr,
):  # fmt: skip
    """∂z and κ of one document's L tokens.

    N_ts = f_t · ρ_s, energies are f_tᵀ G f_t for the G after the chunk, RV = V ρ, FV = V f, u = f · r; slopes, for α
    and β, are those of the gates' logits with respect to u.
    """
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, L)
    here, row = at < rows, b * rows + at
    real = at < tl.minimum(tl.load(counts + b) - start, rows)
    square, cell = here[:, None] & here[None, :], row[:, None] * rows + at[None, :]
    along_rho = tl.load(N + cell, square, 0.0)
    alphas, _ = load_pairs(gates, row, here, 1.0)
    _, betas = load_pairs(gates, row, here, 0.0)
    phis = tl.load(phi + row, here, 0.0)
    RV0, RV1 = load_pairs(RV, row, here, 0.0)
    FV0, FV1 = load_pairs(FV, row, here, 0.0)
    slope0, slope1 = load_pairs(slopes, row, here, 0.0)
    seen = tl.load(u + row, here, 0.0)
    q_end = tl.load(q + b)
    log = log_of(alphas)
    logs = tl.cumsum(log, 0)
    later = at[None, :] > at[:, None]
    between = tl.exp(tl.where(later, (logs - log)[None, :] - logs[:, None], -float("inf")))
    K = tl.load(overlaps + cell, square, 0.0)
    between *= K
    from_end = tl.load(energies + row, here, 0.0) * tl.exp(tl.sum(log, 0) - logs)
    z0 = tl.zeros([L], tl.float32)
    z1 = tl.zeros([L], tl.float32)
    moved = 1.0
    iterations = 0
    while (moved > SETTLED) & (iterations <= L):
        scaled0, scaled1 = phis * z0, phis * z1
        kappa = (RV0 * scaled0 + RV1 * scaled1) / k
        c = slope0 * z0 + slope1 * z1
        along = FV0[:, None] * scaled0[None, :] + FV1[:, None] * scaled1[None, :] - along_rho * kappa[None, :]
        along += K * c[None, :]
        e = from_end + tl.sum(between * along, 1)
        # q after token t: q after the chunk less everything after t.
        taken = tl.where(real, betas * e - phis * (RV0 * scaled0 + RV1 * scaled1) - c * seen, 0.0)
        after = q_end - (tl.cumsum(taken, 0, reverse=True) - taken)
        new_z0 = tl.where(real, (after - betas * e) * (1 - alphas), 0.0)
        new_z1 = tl.where(real, e * betas * (1 - betas), 0.0)
        largest = tl.max(tl.maximum(tl.abs(new_z0), tl.abs(new_z1)), 0)
        change = tl.max(tl.maximum(tl.abs(new_z0 - z0), tl.abs(new_z1 - z1)), 0)
        moved = change / tl.maximum(largest, 1e-30)
        z0, z1 = new_z0, new_z1
        iterations += 1
    tl.store(dz + row * 2, z0, here)
    tl.store(dz + row * 2 + 1, z1, here)
    tl.store(kappas + row, (RV0 * z0 + RV1 * z1) / k, here)


@triton.jit
def load_pairs(x, row, mask, other):
    """The two values of each row."""
    return tl.load(x + row * 2, mask, other), tl.load(x + row * 2 + 1, mask, other)


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
    """log α, where a gate of 0 counts as 1e-37 so that logarithms can be subtracted."""
    return tl.log(tl.maximum(alphas, 1e-37))


@triton.jit
def add_four(a0, a1, a2, a3, b0, b1, b2, b3):
    """Four sums in one pass."""
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit
def add_three(a0, a1, a2, b0, b1, b2):
    """Three sums in one pass, so that a program's warps synchronise once and not three times."""
    return a0 + b0, a1 + b1, a2 + b2
