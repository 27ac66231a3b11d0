"""The adaptive scan's kernels for k ≤ 128: one program a document, its memory on the chip from first token to last.

Memories are held transposed (T = Cᵀ), as are their gradients: F T is then the chunk's readings C f as rows, for
memories that are not symmetric too. Every `every` tokens the memory is written out for backward. `solve` has the
mathematics of a chunk's gates; around it, with S = G + Gᵀ for the gradient G of the memory after the chunk,

    ∂f_t = β_t (g_t S f_t + Σ_{s>t} v_s (K_ts d_s + (f_t · d_s) f_s)) + C_tᵀ d_t        g_t = ∏_{u>t} α_u
    G before = ∏ α G + Σ_s (∏_{u<s} α_u) d_s f_sᵀ                                       v_s = ∏_{t<u<s} α_u

The part C_tᵀ d_t needs no order of tokens, and is made by a kernel of its own.
"""

import triton
import triton.language as tl

from attar.ops.fused.solve import log_of, solve_gates, solve_gradients, weights_before


@triton.jit
def read_kernel(
    f, hidden, V, lengths, initial, last, gates, rho, phi, kept,
    stride_b, stride_n, n, k, every, keeps,
    RAGGED: tl.constexpr, INITIAL: tl.constexpr, TRAINING: tl.constexpr,
    L: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Forwards: the last memory; for training also gates, squashed readings ρ with their φ, and kept memories."""
    b = tl.program_id(0).to(tl.int64)
    at, i = tl.arange(0, L), tl.arange(0, K)
    square, cell = (i[:, None] < k) & (i[None, :] < k), i[:, None] * k + i[None, :]
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    V0, V1 = tl.load(V + i, i < k, 0.0), tl.load(V + k + i, i < k, 0.0)
    T = tl.zeros([K, K], tl.float32)
    if INITIAL:
        T = tl.load(initial + b * k * k + cell, square, 0.0)
    for start in range(0, count, L):
        if TRAINING:
            if start % every == 0:
                tl.store(kept + (b * keeps + start // every) * k * k + cell, T, square)
        t = start + at
        token = b * n + t
        inside = (t[:, None] < count) & (i[None, :] < k)
        F = tl.load(f + b * stride_b + t[:, None].to(tl.int64) * stride_n + i[None, :], inside, 0.0).to(tl.float32)
        U0, U1 = tl.load(hidden + token * 2, t < count, 0.0), tl.load(hidden + token * 2 + 1, t < count, 0.0)
        P = tl.dot(F, T, input_precision=PRECISION)
        overlaps = tl.dot(F, tl.trans(F), input_precision=PRECISION)
        M = tl.dot(P, tl.trans(F), input_precision=PRECISION)
        alphas, betas, phis = solve_gates(
            overlaps, M, tl.sum(P * P, 1),
            tl.sum(P * V0[None, :], 1), tl.sum(P * V1[None, :], 1),
            tl.sum(F * V0[None, :], 1), tl.sum(F * V1[None, :], 1),
            U0, U1, count - start, k, L,
        )  # fmt: skip
        if TRAINING:
            left, a = weights_before(alphas, betas, L)
            R = tl.dot(left * overlaps, F, P * a[:, None], input_precision=PRECISION) * phis[:, None]
            tl.store(rho + token[:, None] * k + i[None, :], R.to(rho.dtype.element_ty), inside)
            tl.store(phi + token, phis, t < count)
            tl.store(gates + token * 2, alphas, t < count)
            tl.store(gates + token * 2 + 1, betas, t < count)
        log = log_of(alphas)
        total = tl.sum(log, 0)
        w = betas * tl.exp(total - tl.cumsum(log, 0))
        T = tl.dot(tl.trans(F * w[:, None]), F, T * tl.exp(total), input_precision=PRECISION)
    tl.store(last + b * k * k + cell, T, square)


@triton.jit
def gradient_kernel(
    f, rho, phi, gates, V, lengths, kept, overlap, grad_last, grad_f, d, grad_hidden, grad_V, grad_initial,
    stride_b, stride_n, n, k, every, keeps,
    RAGGED: tl.constexpr, L: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Backwards: ∂z, d = ∂L/∂r, ∂V, ∂C₀, and ∂f but for C_tᵀ d_t; `overlap` is q after the last token."""
    b = tl.program_id(0).to(tl.int64)
    at, i = tl.arange(0, L), tl.arange(0, K)
    square, cell = (i[:, None] < k) & (i[None, :] < k), i[:, None] * k + i[None, :]
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    V0, V1 = tl.load(V + i, i < k, 0.0), tl.load(V + k + i, i < k, 0.0)
    grad_V0, grad_V1 = tl.zeros([K], tl.float32), tl.zeros([K], tl.float32)
    G = tl.load(grad_last + b * k * k + cell, square, 0.0)
    q = tl.load(overlap + b)
    chunks = tl.cdiv(count, L)
    for back in range(chunks):
        start = (chunks - 1 - back) * L
        if ((start + L) % every == 0) & (start + L < count):
            # q is summed anew where a memory is at hand, before its rounding errors add up.
            C = tl.load(kept + (b * keeps + (start + L) // every) * k * k + cell, square, 0.0)
            q = tl.sum(tl.sum(G * C, 1), 0)
        t = start + at
        token = b * n + t
        inside = (t[:, None] < count) & (i[None, :] < k)
        F = tl.load(f + b * stride_b + t[:, None].to(tl.int64) * stride_n + i[None, :], inside, 0.0).to(tl.float32)
        R = tl.load(rho + token[:, None] * k + i[None, :], inside, 0.0).to(tl.float32)
        phis = tl.load(phi + token, t < count, 0.0)
        alphas, betas = tl.load(gates + token * 2, t < count, 1.0), tl.load(gates + token * 2 + 1, t < count, 0.0)
        Y = tl.dot(F, G + tl.trans(G), input_precision=PRECISION)
        overlaps = tl.dot(F, tl.trans(F), input_precision=PRECISION)
        N = tl.dot(F, tl.trans(R), input_precision=PRECISION)
        dz0, dz1, kappas, q = solve_gradients(
            overlaps, N, tl.sum(F * Y, 1) * 0.5, alphas, betas, phis,
            tl.sum(R * V0[None, :], 1), tl.sum(R * V1[None, :], 1),
            tl.sum(F * V0[None, :], 1), tl.sum(F * V1[None, :], 1),
            q, count - start, k, L,
        )  # fmt: skip
        D = dz0[:, None] * V0[None, :] + dz1[:, None] * V1[None, :] - kappas[:, None] * R
        D = D * phis[:, None]
        log = log_of(alphas)
        logs = tl.cumsum(log, 0)
        before, total = logs - log, tl.sum(log, 0)
        later = tl.where(at[None, :] > at[:, None], before[None, :] - logs[:, None], -float("inf"))
        left = tl.exp(later)
        along = left * tl.dot(F, tl.trans(D), input_precision=PRECISION)
        grad = Y * tl.exp(total - logs)[:, None]
        grad = tl.dot(left * overlaps, D, grad, input_precision=PRECISION)
        grad = tl.dot(along, F, grad, input_precision=PRECISION) * betas[:, None]
        tl.store(grad_f + token[:, None] * k + i[None, :], grad.to(grad_f.dtype.element_ty), inside)
        tl.store(d + token[:, None] * k + i[None, :], D.to(d.dtype.element_ty), inside)
        tl.store(grad_hidden + token * 2, dz0, t < count)
        tl.store(grad_hidden + token * 2 + 1, dz1, t < count)
        grad_V0 += tl.sum(dz0[:, None] * R, 0)
        grad_V1 += tl.sum(dz1[:, None] * R, 0)
        G = tl.dot(tl.trans(F * tl.exp(before)[:, None]), D, G * tl.exp(total), input_precision=PRECISION)
    tl.store(grad_V + b * 2 * k + i, grad_V0, i < k)
    tl.store(grad_V + b * 2 * k + k + i, grad_V1, i < k)
    tl.store(grad_initial + b * k * k + cell, G, square)


@triton.jit
def through_memory_kernel(
    f, gates, lengths, kept, d, grad_f,
    stride_b, stride_n, n, k, keeps,
    RAGGED: tl.constexpr, L: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂f_t += C_tᵀ d_t for the L tokens behind one kept memory C₀.

    C_tᵀ d_t = a_t C₀ᵀ d_t + Σ_{s<t} w_s (f_s · d_t) f_s
    """
    b, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at, i = tl.arange(0, L), tl.arange(0, K)
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    if part * L < count:
        square, cell = (i[:, None] < k) & (i[None, :] < k), i[:, None] * k + i[None, :]
        T = tl.load(kept + (b * keeps + part) * k * k + cell, square, 0.0)
        t = part * L + at
        token = b * n + t
        inside = (t[:, None] < count) & (i[None, :] < k)
        F = tl.load(f + b * stride_b + t[:, None].to(tl.int64) * stride_n + i[None, :], inside, 0.0).to(tl.float32)
        D = tl.load(d + token[:, None] * k + i[None, :], inside, 0.0).to(tl.float32)
        alphas, betas = tl.load(gates + token * 2, t < count, 1.0), tl.load(gates + token * 2 + 1, t < count, 0.0)
        left, a = weights_before(alphas, betas, L)
        along = left * tl.dot(D, tl.trans(F), input_precision=PRECISION)
        grad = tl.dot(D, tl.trans(T), input_precision=PRECISION) * a[:, None]
        grad = tl.dot(along, F, grad, input_precision=PRECISION)
        place = grad_f + token[:, None] * k + i[None, :]
        grad += tl.load(place, inside, 0.0).to(tl.float32)
        tl.store(place, grad.to(grad_f.dtype.element_ty), inside)
