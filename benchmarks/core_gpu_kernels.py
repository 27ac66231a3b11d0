# ruff: noqa
# mypy: ignore-errors
"""Variants of the adaptive scan's forward kernel, to compare on a GPU."""

import triton
import triton.language as tl

from attar.ops.triton.scan_kernels import add_three, over_columns, places, three_sums


@triton.jit
def lazy_kernel(f, hidden, V, last, stride_b, stride_n, n, k, K: tl.constexpr):
    """C = a D: decay goes to the scalar a, so that a step is one product and sum per number and not two."""
    b = tl.program_id(0).to(tl.int64)
    i, j, cell, square = places(k, K)
    V0, V1 = over_columns(V, j, k, K), over_columns(V + k, j, k, K)
    D = tl.zeros([K // 32, K, 32], tl.float32)
    a = 1.0
    row = f + b * stride_b
    written = tl.load(row + j, j < k, 0.0).to(tl.float32)
    written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
    for t in range(0, n):
        token = b * n + t
        u0, u1 = tl.load(hidden + token * 2), tl.load(hidden + token * 2 + 1)
        row += tl.where(t + 1 < n, stride_n, 0)
        next_written = tl.load(row + j, j < k, 0.0).to(tl.float32)
        next_written_i = tl.load(row + i, i < k, 0.0).to(tl.float32)
        rows, columns = written_i[None, :, None], written[:, None, :]
        r = tl.sum(D * rows, 1)
        norm, along0, along1 = three_sums(r * r, r * V0, r * V1)
        squashing = a * tl.rsqrt(1 + a * a * norm / k)
        alpha = tl.sigmoid(u0 + squashing * along0)
        beta = tl.sigmoid(u1 + squashing * along1)
        a *= alpha
        if a < 1e-6:
            D = D * a
            a = 1.0
        D = D + rows * (columns * (beta / a))
        written, written_i = next_written, next_written_i
    tl.store(last + b * k * k + cell, D * a, square)


@triton.jit
def column_kernel(f, hidden, V, last, stride_b, stride_n, n, k, K: tl.constexpr, LAZY: tl.constexpr):
    """The matrix as [K, K / 32, 32], row × column block × lane: a thread has whole columns."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    j = tl.arange(0, K // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    first = i[:, None, None] == 0
    V0 = tl.sum(tl.where(first, tl.load(V + j)[None, :, :], 0.0), 0)
    V1 = tl.sum(tl.where(first, tl.load(V + k + j)[None, :, :], 0.0), 0)
    D = tl.zeros([K, K // 32, 32], tl.float32)
    a = 1.0
    row = f + b * stride_b
    written = tl.load(row + j).to(tl.float32)
    written_i = tl.load(row + i).to(tl.float32)
    for t in range(0, n):
        token = b * n + t
        u0, u1 = tl.load(hidden + token * 2), tl.load(hidden + token * 2 + 1)
        row += tl.where(t + 1 < n, stride_n, 0)
        next_written = tl.load(row + j).to(tl.float32)
        next_written_i = tl.load(row + i).to(tl.float32)
        rows, columns = written_i[:, None, None], written[None, :, :]
        r = tl.sum(D * rows, 0)
        norm, along0, along1 = tl.reduce((r * r, r * V0, r * V1), 1, add_three)
        norm, along0, along1 = tl.reduce((norm, along0, along1), 0, add_three)
        if LAZY:
            squashing = a * tl.rsqrt(1 + a * a * norm / k)
        else:
            squashing = tl.rsqrt(1 + norm / k)
        alpha = tl.sigmoid(u0 + squashing * along0)
        beta = tl.sigmoid(u1 + squashing * along1)
        if LAZY:
            a *= alpha
            if a < 1e-6:
                D = D * a
                a = 1.0
            D = D + rows * (columns * (beta / a))
        else:
            D = D * alpha + rows * (columns * beta)
        written, written_i = next_written, next_written_i
    cell = i[:, None, None] * k + j[None, :, :]
    tl.store(last + b * k * k + cell, D * a)


@triton.jit
def twice_kernel(f, hidden, V, last, stride_b, stride_n, n, k, K: tl.constexpr, BRANCH: tl.constexpr):
    """As `column_kernel`, lazy; rows are scaled before they are spread, so that they need no registers in between."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    j = tl.arange(0, K // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    first = i[:, None, None] == 0
    V0 = tl.sum(tl.where(first, tl.load(V + j)[None, :, :], 0.0), 0)
    V1 = tl.sum(tl.where(first, tl.load(V + k + j)[None, :, :], 0.0), 0)
    D = tl.zeros([K, K // 32, 32], tl.float32)
    a = 1.0
    row = f + b * stride_b
    written = tl.load(row + j).to(tl.float32)
    written_i = tl.load(row + i).to(tl.float32)
    for t in range(0, n):
        token = b * n + t
        u0, u1 = tl.load(hidden + token * 2), tl.load(hidden + token * 2 + 1)
        row += tl.where(t + 1 < n, stride_n, 0)
        next_written = tl.load(row + j).to(tl.float32)
        next_written_i = tl.load(row + i).to(tl.float32)
        r = tl.sum(D * written_i[:, None, None], 0)
        norm, along0, along1 = tl.reduce((r * r, r * V0, r * V1), 1, add_three)
        norm, along0, along1 = tl.reduce((norm, along0, along1), 0, add_three)
        if BRANCH:
            squashing = a * tl.rsqrt(1 + a * a * norm / k)
        else:
            squashing = tl.rsqrt(1 + norm / k)
        alpha = tl.sigmoid(u0 + squashing * along0)
        beta = tl.sigmoid(u1 + squashing * along1)
        if BRANCH:
            a *= alpha
            if a < 1e-6:
                D = D * a
                a = 1.0
            scaled = written_i * (beta / a)
            D = D + scaled[:, None, None] * written[None, :, :]
        else:
            scaled = written_i * beta
            D = D * alpha + scaled[:, None, None] * written[None, :, :]
        written, written_i = next_written, next_written_i
    cell = i[:, None, None] * k + j[None, :, :]
    tl.store(last + b * k * k + cell, D * a)
