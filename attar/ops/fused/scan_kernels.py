"""The adaptive scan's kernels for k ≤ 128: one program a document, its memory in registers from first token to last.

Forwards a step is r = C f, the gates, C ← α C + β f fᵀ; backwards, with S = G + Gᵀ and d = ∂L/∂r,

    y = S f        e = fᵀ G f = y · f / 2        ∂f = β y + Cᵀ d        S ← α S + d fᵀ + f dᵀ

where ρ = φ r is the squashed reading (φ = 1 / √(1 + mean r²)), z the gates' logits, V their weights:

    ∂z = ((q − β e)(1 − α),  e β (1 − β))        d = φ (Vᵀ ∂z − κ ρ)        κ = (V ρ) · ∂z / k
    q = ⟨G, C⟩,  which a step back makes  q − β e + d · r,   d · r = φ² (V ρ) · ∂z

q makes ∂α free of any C_t, and the sigmoid's own α cancels the division: α ∂α = q − β e. It is summed anew
from every kept memory. The part Cᵀ d of ∂f needs no order of tokens and is made by a kernel of its own.

How a matrix lies in registers decides the speed. As [K / 32, K, 32], column block × row × lane, a thread has K / 4
rows of K / 32 columns: it sums over rows by itself in independent chains, and needs few of a vector's numbers.
Vectors over columns are [K / 32, 32]. Sums run over rows, so that matrices are held transposed.
"""

import triton
import triton.language as tl


@triton.jit
def read_kernel(
    f, hidden, V, lengths, initial, last, gates, rho, phi, kept,
    stride_b, stride_n, n, k, every, keeps,
    RAGGED: tl.constexpr, INITIAL: tl.constexpr, TRAINING: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Forwards: the last memory; for training also the gates, ρ, φ and the kept memories."""
    b = tl.program_id(0).to(tl.int64)
    i, j, cell, square = places(k, K)
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    V0, V1 = over_columns(V, j, k, K), over_columns(V + k, j, k, K)
    C = tl.zeros([K // 32, K, 32], tl.float32)
    if INITIAL:
        C = tl.load(initial + b * k * k + cell, square, 0.0)
    row = f + b * stride_b
    written = tl.load(row + j, j < k, 0.0).to(tl.float32)
    written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
    for start in range(0, count, every):
        if TRAINING:
            tl.store(kept + (b * keeps + start // every) * k * k + cell, C, square)
        for t in range(start, tl.minimum(start + every, count)):
            token = b * n + t
            u0, u1 = tl.load(hidden + token * 2), tl.load(hidden + token * 2 + 1)
            # The next token's row is on its way while this one is worked on.
            row += tl.where(t + 1 < count, stride_n, 0)
            next_written = tl.load(row + j, j < k, 0.0).to(tl.float32)
            next_written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
            rows, columns = written_i[None, :, None], written[:, None, :]
            r = tl.sum(C * rows, 1)
            norm, along0, along1 = three_sums(r * r, r * V0, r * V1)
            squashing = tl.rsqrt(1 + norm / k)
            alpha = tl.sigmoid(u0 + squashing * along0)
            beta = tl.sigmoid(u1 + squashing * along1)
            if TRAINING:
                tl.store(rho + token * k + j, (r * squashing).to(rho.dtype.element_ty), j < k)
                tl.store(phi + token, squashing)
                tl.store(gates + token * 2, alpha)
                tl.store(gates + token * 2 + 1, beta)
            C = C * alpha + rows * (columns * beta)
            written, written_i = next_written, next_written_i
    tl.store(last + b * k * k + cell, C, square)


@triton.jit
def gradient_kernel(
    f, rho, phi, gates, V, lengths, kept, symmetric, overlap, both, grad_f, d, grad_hidden, grad_V,
    stride_b, stride_n, n, k, every, keeps,
    RAGGED: tl.constexpr, INITIAL: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Backwards: ∂z, d, the part β y of ∂f, and ∂V; `both` is S and `overlap` q after the last token."""
    b = tl.program_id(0).to(tl.int64)
    i, j, cell, square = places(k, K)
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    V0, V1 = over_columns(V, j, k, K), over_columns(V + k, j, k, K)
    V0_i, V1_i = tl.load(V + i, i < k, 0.0), tl.load(V + k + i, i < k, 0.0)
    grad_V0, grad_V1 = tl.zeros([K // 32, 32], tl.float32), tl.zeros([K // 32, 32], tl.float32)
    S = tl.load(both + b * k * k + cell, square, 0.0)
    q = tl.load(overlap + b)
    restarts = True
    if (
        INITIAL
    ):  # S knows the symmetric part of G alone; a memory that is not symmetric meets the other part too
        restarts = tl.load(symmetric + b) != 0
    final = tl.maximum(count - 1, 0)
    row = f + b * stride_b + (b * 0 + final) * stride_n
    read = rho + (b * n + final) * k
    written, reading = (
        tl.load(row + j, j < k, 0.0).to(tl.float32),
        tl.load(read + j, j < k, 0.0).to(tl.float32),
    )
    written_i, reading_i = (
        tl.load(row + i, i < k, 0.0).to(tl.float32),
        tl.load(read + i, i < k, 0.0).to(tl.float32),
    )
    segments = tl.cdiv(count, every)
    for behind in range(segments):
        start = (segments - 1 - behind) * every
        end = tl.minimum(start + every, count)
        if end < count:
            C = tl.load(kept + (b * keeps + end // every) * k * k + cell, square, 0.0)
            q = tl.where(restarts, tl.sum(tl.sum(tl.sum(S * C, 1), 0), 0) * 0.5, q)
        for back in range(end - start):
            token = b * n + end - 1 - back
            squashing, alpha, beta = (
                tl.load(phi + token),
                tl.load(gates + token * 2),
                tl.load(gates + token * 2 + 1),
            )
            step = tl.where(token > b * n, 1, 0)
            row -= step * stride_n
            read -= step * k
            next_written = tl.load(row + j, j < k, 0.0).to(tl.float32)
            next_reading = tl.load(read + j, j < k, 0.0).to(tl.float32)
            next_written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
            next_reading_i = tl.load(read + i, i < k, 0.0).to(tl.float32)
            rows, columns = written_i[None, :, None], written[:, None, :]
            read_columns = reading[:, None, :]
            y = tl.sum(S * rows, 1)
            w, rho_t = tl.sum(columns, 1), tl.sum(read_columns, 1)
            twice_e, along0, along1 = three_sums(y * w, rho_t * V0, rho_t * V1)
            e = twice_e * 0.5
            z0 = (q - beta * e) * (1 - alpha)
            z1 = e * beta * (1 - beta)
            along = along0 * z0 + along1 * z1
            q = q - beta * e + along * squashing * squashing
            z0_s, z1_s, kappa = z0 * squashing, z1 * squashing, squashing * along / k
            d_j = z0_s * V0 + z1_s * V1 - kappa * rho_t
            d_i = z0_s * V0_i + z1_s * V1_i - kappa * reading_i
            tl.store(grad_f + token * k + j, (beta * y).to(grad_f.dtype.element_ty), j < k)
            tl.store(d + token * k + j, d_j.to(d.dtype.element_ty), j < k)
            tl.store(grad_hidden + token * 2, z0)
            tl.store(grad_hidden + token * 2 + 1, z1)
            grad_V0 += z0 * reading
            grad_V1 += z1 * reading
            S = (
                S * alpha
                + d_i[None, :, None] * written[:, None, :]
                + written_i[None, :, None] * d_j[:, None, :]
            )
            written, reading, written_i, reading_i = (
                next_written,
                next_reading,
                next_written_i,
                next_reading_i,
            )
    tl.store(grad_V + b * 2 * k + j, grad_V0, j < k)
    tl.store(grad_V + b * 2 * k + k + j, grad_V1, j < k)


@triton.jit
def places(k, K: tl.constexpr):
    """Rows [K], columns [K / 32, 32], and a matrix's numbers in memory, [K / 32, K, 32], with which are real."""
    i = tl.arange(0, K)
    j = tl.arange(0, K // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    cell = i[None, :, None] * k + j[:, None, :]
    return i, j, cell, (i[None, :, None] < k) & (j[:, None, :] < k)


@triton.jit
def over_columns(x, j, k, K: tl.constexpr):
    """A vector over columns as a sum over a matrix's rows leaves it: whole in every warp, one place from its use.

    Loaded as it is, it would lie spread over all warps, and every sum over rows would be moved to meet it.
    """
    first = tl.arange(0, K)[None, :, None] == 0
    return tl.sum(tl.where(first, tl.load(x + j, j < k, 0.0)[:, None, :], 0.0), 1)


@triton.jit
def three_sums(x, y, z):
    """The sums of three vectors over columns, which every warp has whole: within a thread, then within the warp."""
    x, y, z = tl.reduce((x, y, z), 0, add_three)
    return tl.reduce((x, y, z), 0, add_three)


@triton.jit
def add_three(a0, a1, a2, b0, b1, b2):
    """Three sums in one pass."""
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def through_memory_kernel(
    f, gates, lengths, kept, d, grad_f,
    stride_b, stride_n, n, k, keeps,
    RAGGED: tl.constexpr, L: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂f_t += C_tᵀ d_t for the L tokens behind one kept memory C₀, held transposed.

    C_tᵀ d_t = a_t C₀ᵀ d_t + Σ_{s<t} w_s (f_s · d_t) f_s        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u
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
        F = tl.load(f + b * stride_b + t[:, None].to(tl.int64) * stride_n + i[None, :], inside, 0.0).to(
            tl.float32
        )
        D = tl.load(d + token[:, None] * k + i[None, :], inside, 0.0).to(tl.float32)
        alphas, betas = (
            tl.load(gates + token * 2, t < count, 1.0),
            tl.load(gates + token * 2 + 1, t < count, 0.0),
        )
        # A shut gate counts as 1e-37, so that logarithms subtract.
        log = tl.log(tl.maximum(alphas, 1e-37))
        logs = tl.cumsum(log, 0)
        before = logs - log
        earlier = tl.where(at[None, :] < at[:, None], before[:, None] - logs[None, :], -float("inf"))
        along = tl.exp(earlier) * betas[None, :] * tl.dot(D, tl.trans(F), input_precision=PRECISION)
        grad = tl.dot(D, tl.trans(T), input_precision=PRECISION) * tl.exp(before)[:, None]
        grad = tl.dot(along, F, grad, input_precision=PRECISION)
        place = grad_f + token[:, None] * k + i[None, :]
        grad += tl.load(place, inside, 0.0).to(tl.float32)
        tl.store(place, grad.to(grad_f.dtype.element_ty), inside)
