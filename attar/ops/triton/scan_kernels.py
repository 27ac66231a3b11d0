"""The kernels of the adaptive scan: see `attar.ops.triton.scan` for their mathematics.

The layout of a matrix in registers decides the speed. As [K / 32, K, 32], column block × row × lane, a thread has K / 4
rows of K / 32 columns: it sums over rows by itself in independent chains, and needs few values of a vector.
Vectors over columns are [K / 32, 32]. Sums run over rows, so matrices are stored transposed.
"""

import triton
import triton.language as tl


@triton.jit
def read_kernel(
    f, hidden, V, w, powers, lengths, initial, last, gates, rho, phi, kept,
    stride_b, stride_n, n, k, every, keeps,
    RAGGED: tl.constexpr, INITIAL: tl.constexpr, TRAINING: tl.constexpr, ENERGY: tl.constexpr, OWN: tl.constexpr,
    K: tl.constexpr,
):  # fmt: skip
    """Forward: the last memory; for training also the gates, ρ, φ and the kept memories."""
    b = tl.program_id(0).to(tl.int64)
    i, j, cell, square = places(k, K)
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    if OWN:  # V and w of this document
        V += b * 2 * k
    V0, V1 = over_columns(V, j, k, K), over_columns(V + k, j, k, K)
    if ENERGY:
        w += b * 2 * OWN
        w0, w1 = tl.load(w), tl.load(w + 1)
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
            # The next token's row is loaded ahead.
            row += tl.where(t + 1 < count, stride_n, 0)
            next_written = tl.load(row + j, j < k, 0.0).to(tl.float32)
            next_written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
            rows, columns = written_i[None, :, None], written[:, None, :]
            r = tl.sum(C * rows, 1)
            if ENERGY:
                norm, along0, along1, u = four_sums(r * r, r * V0, r * V1, r * tl.sum(columns, 1))
                u = tl.maximum(u, 0.0)
                present = u / (tl.load(powers + token) + u + 1e-30)
                u0 += w0 * present
                u1 += w1 * present
            else:
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
    f, rho, phi, gates, V, w, powers, lengths, kept, symmetric, overlap, both, grad_f, d, grad_hidden, grad_V, grad_w,
    stride_b, stride_n, n, k, every, keeps,
    RAGGED: tl.constexpr, INITIAL: tl.constexpr, ENERGY: tl.constexpr, OWN: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Backward: ∂z, d, ∂f but for Cᵀ d, ∂V and ∂w; `both` is S and `overlap` q after the last token."""
    b = tl.program_id(0).to(tl.int64)
    i, j, cell, square = places(k, K)
    count = n
    if RAGGED:
        count = tl.load(lengths + b)
    if OWN:
        V += b * 2 * k
    if ENERGY:
        w += b * 2 * OWN
        w0, w1 = tl.load(w), tl.load(w + 1)
    grad_w0, grad_w1 = 0.0, 0.0
    V0, V1 = over_columns(V, j, k, K), over_columns(V + k, j, k, K)
    V0_i, V1_i = tl.load(V + i, i < k, 0.0), tl.load(V + k + i, i < k, 0.0)
    grad_V0, grad_V1 = tl.zeros([K // 32, 32], tl.float32), tl.zeros([K // 32, 32], tl.float32)
    S = tl.load(both + b * k * k + cell, square, 0.0)
    q = tl.load(overlap + b)
    restarts = True
    if INITIAL:  # S has only the symmetric part of G; a memory that is not symmetric needs the other part too
        restarts = tl.load(symmetric + b) != 0
    final = tl.maximum(count - 1, 0)
    row = f + b * stride_b + (b * 0 + final) * stride_n
    read = rho + (b * n + final) * k
    written = tl.load(row + j, j < k, 0.0).to(tl.float32)
    reading = tl.load(read + j, j < k, 0.0).to(tl.float32)
    written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
    reading_i = tl.load(read + i, i < k, 0.0).to(tl.float32)
    segments = tl.cdiv(count, every)
    for done in range(segments):
        start = (segments - 1 - done) * every
        end = tl.minimum(start + every, count)
        if end < count:
            C = tl.load(kept + (b * keeps + end // every) * k * k + cell, square, 0.0)
            q = tl.where(restarts, tl.sum(tl.sum(tl.sum(S * C, 1), 0), 0) * 0.5, q)
        for back in range(end - start):
            token = b * n + end - 1 - back
            alpha, beta = tl.load(gates + token * 2), tl.load(gates + token * 2 + 1)
            squashing = tl.load(phi + token)
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
            f_t, rho_t = tl.sum(columns, 1), tl.sum(read_columns, 1)
            if ENERGY:
                twice_e, along0, along1, u = four_sums(y * f_t, rho_t * V0, rho_t * V1, rho_t * f_t)
                u = tl.maximum(u / squashing, 0.0)
                power = tl.load(powers + token)
                whole = power + u + 1e-30
            else:
                twice_e, along0, along1 = three_sums(y * f_t, rho_t * V0, rho_t * V1)
            e = twice_e * 0.5
            z0 = (q - beta * e) * (1 - alpha)
            z1 = e * beta * (1 - beta)
            along = along0 * z0 + along1 * z1
            q = q - beta * e + along * squashing * squashing
            z0_s, z1_s, kappa = z0 * squashing, z1 * squashing, squashing * along / k
            d_j = z0_s * V0 + z1_s * V1 - kappa * rho_t
            d_i = z0_s * V0_i + z1_s * V1_i - kappa * reading_i
            direct = beta * y
            if ENERGY:
                c = tl.where(u > 0, (w0 * z0 + w1 * z1) * (power / whole) / whole, 0.0)
                q += c * u
                d_j += c * f_t
                d_i += c * written_i
                direct += c * (rho_t / squashing - 4 * u / tl.sqrt(power + 1e-30) * f_t)
                grad_w0 += z0 * u / whole
                grad_w1 += z1 * u / whole
            tl.store(grad_f + token * k + j, direct.to(grad_f.dtype.element_ty), j < k)
            tl.store(d + token * k + j, d_j.to(d.dtype.element_ty), j < k)
            tl.store(grad_hidden + token * 2, z0)
            tl.store(grad_hidden + token * 2 + 1, z1)
            grad_V0 += z0 * reading
            grad_V1 += z1 * reading
            crossed = d_i[None, :, None] * written[:, None, :]
            S = S * alpha + crossed + written_i[None, :, None] * d_j[:, None, :]
            written, reading = next_written, next_reading
            written_i, reading_i = next_written_i, next_reading_i
    tl.store(grad_V + b * 2 * k + j, grad_V0, j < k)
    tl.store(grad_V + b * 2 * k + k + j, grad_V1, j < k)
    tl.store(grad_w + b * 2, grad_w0)
    tl.store(grad_w + b * 2 + 1, grad_w1)


@triton.jit
def places(k, K: tl.constexpr):
    """Rows [K], columns [K / 32, 32], and a matrix's offsets in memory, [K / 32, K, 32], with a mask of valid ones."""
    i = tl.arange(0, K)
    j = tl.arange(0, K // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    cell = i[None, :, None] * k + j[:, None, :]
    return i, j, cell, (i[None, :, None] < k) & (j[:, None, :] < k)


@triton.jit
def over_columns(x, j, k, K: tl.constexpr):
    """A vector over columns in the layout of a sum over a matrix's rows: whole in every warp.

    Loaded directly, it would be spread over all warps, and every sum over rows would be moved to match it.
    """
    first = tl.arange(0, K)[None, :, None] == 0
    return tl.sum(tl.where(first, tl.load(x + j, j < k, 0.0)[:, None, :], 0.0), 1)


@triton.jit
def three_sums(x, y, z):
    """The sums of three vectors over columns: within a thread, then within the warp."""
    x, y, z = tl.reduce((x, y, z), 0, add_three)
    return tl.reduce((x, y, z), 0, add_three)


@triton.jit
def four_sums(x, y, z, u):
    """The sums of four vectors over columns."""
    x, y, z, u = tl.reduce((x, y, z, u), 0, add_four)
    return tl.reduce((x, y, z, u), 0, add_four)


@triton.jit
def through_memory_kernel(
    f, gates, lengths, kept, d, grad_f,
    stride_b, stride_n, n, k, keeps,
    RAGGED: tl.constexpr, L: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂f_t += C_tᵀ d_t for the L tokens after one kept memory C₀, stored transposed.

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
        alphas = tl.load(gates + token * 2, t < count, 1.0)
        betas = tl.load(gates + token * 2 + 1, t < count, 0.0)
        # A gate of 0 counts as 1e-37, so that logarithms can be subtracted.
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


@triton.jit
def add_three(a0, a1, a2, b0, b1, b2):
    """Three sums in one pass, so that a program's warps synchronise once and not three times."""
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def add_four(a0, a1, a2, a3, b0, b1, b2, b3):
    """Four sums in one pass."""
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3
