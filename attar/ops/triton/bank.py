"""Lookups in a bank: each value of a memory is read once. The layouts are those of `attar.ops.bank`."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from attar.ops.triton import Maybe, alignment


class Launch(NamedTuple):
    """How a kernel is launched: programs that fill a large GPU, memories that each loads ahead, values per warp."""

    programs: int
    ahead: int
    values_per_warp: int


# By the bytes of a value: the best of twelve on an H200.
LAUNCHES = {1: Launch(132 * 8, 2, 8192), 2: Launch(132 * 8, 2, 8192), 4: Launch(132 * 8, 2, 8192)}


def lookup(values: Tensor, scales: Maybe, documents: Tensor, queries: Tensor) -> Tensor:
    """C q `[Q, k]` for each pair of a folded symmetric memory, whose k is even, and a query."""
    count, k = queries.shape
    queries = queries.contiguous()
    readouts = torch.empty(count, k, dtype=torch.float32, device=queries.device)
    if count:
        tile = max(2, triton.next_power_of_2(k // 2))
        aligned, launch = alignment(k // 2), LAUNCHES[values.element_size()]
        lookup_kernel[(min(count, launch.programs),)](
            *(values, scales, documents, queries, readouts, count, k // 2 // aligned, values.shape[1]),
            SCALED=scales is not None,
            ALIGNED=aligned,
            M=tile,
            AHEAD=launch.ahead,
            num_warps=_warps(2 * tile * tile, launch),
        )
    return readouts


def lookup_pairs(values: Tensor, scales: Maybe, documents: Tensor, queries: Tensor) -> Tensor:
    """Cᵀ q `[Q, d]` for each pair of a memory `[k, d]`, row by row, and a query."""
    count, k = queries.shape
    d = values.shape[1] // k
    queries = queries.contiguous()
    readouts = torch.empty(count, d, dtype=torch.float32, device=queries.device)
    if count:
        K, aligned, launch = triton.next_power_of_2(k), alignment(d), LAUNCHES[values.element_size()]
        # A tile of 8,192 values at most; a wide memory is read in several.
        D = min(max(1, triton.next_power_of_2(d)), max(16, 8192 // K))
        # Small memories need more programs to keep as many bytes on their way: 691 for 530 M lookups/s at 4 kB (H200).
        programs = launch.programs * (2 if values.nbytes <= 4096 * len(values) else 1)
        grid = (min(count, programs), triton.cdiv(d, D))
        pairs_kernel[grid](
            *(values, scales, documents, queries, readouts, count, k, d // aligned),
            SCALED=scales is not None,
            ALIGNED=aligned,
            K=K,
            D=D,
            AHEAD=launch.ahead,
            num_warps=_warps(K * D, launch),
        )
    return readouts


def _warps(values: int, launch: Launch) -> int:
    """The warps of a program that holds so many values; a power of two up to 8."""
    return int(min(8, max(1, triton.next_power_of_2(values // launch.values_per_warp))))


@triton.jit
def pairs_kernel(
    values, scales, documents, queries, readouts, count, k, d,
    SCALED: tl.constexpr, ALIGNED: tl.constexpr, K: tl.constexpr, D: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Σ_i q_i C_ij for some of the columns j; a row's scale goes to its query's value, once for all columns."""
    d = d * ALIGNED
    i = tl.arange(0, K)
    j = tl.program_id(1) * D + tl.arange(0, D)
    inside = (i[:, None] < k) & (j[None, :] < d)
    for row in tl.range(tl.program_id(0), count, tl.num_programs(0), num_stages=AHEAD):
        document = tl.load(documents + row).to(tl.int64)
        matrix = tl.load(values + document * k * d + i[:, None] * d + j[None, :], inside, 0.0).to(tl.float32)
        query = tl.load(queries + tl.cast(row, tl.int64) * k + i, i < k, 0.0).to(tl.float32)
        if SCALED:
            query *= tl.load(scales + document * k + i, i < k, 0.0).to(tl.float32) / 127
        tl.store(readouts + tl.cast(row, tl.int64) * d + j, tl.sum(matrix * query[:, None], 0), j < d)


@triton.jit
def lookup_kernel(
    values, scales, documents, queries, readouts, count, m, length,
    SCALED: tl.constexpr, ALIGNED: tl.constexpr, M: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Each stored C_ij is used twice: C_ij q_j goes to readout i, C_ij q_i to readout j.

    The query's halves are `low` and `high`; a sum over a tile's columns goes to its rows, and one over its rows to its
    columns. A program goes through many queries, and loads the memories of the next ones ahead.
    """
    m = m * ALIGNED
    r, c, i = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :], tl.arange(0, M)
    inside = (r < m) & (c < m)
    for row in tl.range(tl.program_id(0), count, tl.num_programs(0), num_stages=AHEAD):
        document = tl.load(documents + row).to(tl.int64)
        memory = values + document * length
        query = queries + tl.cast(row, tl.int64) * 2 * m
        cross = tl.load(memory + m * m + r * m + c, inside, 0.0).to(tl.float32)
        folded = tl.load(memory + r * m + c, inside, 0.0).to(tl.float32)
        low = tl.load(query + i, i < m, 0.0).to(tl.float32)
        high = tl.load(query + m + i, i < m, 0.0).to(tl.float32)
        if SCALED:
            low_scale = tl.load(scales + document * 2 * m + i, i < m, 0.0).to(tl.float32)
            high_scale = tl.load(scales + document * 2 * m + m + i, i < m, 0.0).to(tl.float32)
            low *= low_scale
            high *= high_scale
        high_diagonal = tl.load(memory + 2 * m * m + i, i < m, 0.0).to(tl.float32)
        of_low = tl.sum(cross * high[:, None], 0)
        of_high = tl.sum(cross * low[None, :], 1) + high_diagonal * high
        first = tl.where(c <= r, folded, 0.0)
        second = folded - first
        of_low += tl.sum(first * low[None, :], 1) + tl.sum(tl.where(c < r, folded, 0.0) * low[:, None], 0)
        of_high += tl.sum(second * high[None, :], 1) + tl.sum(second * high[:, None], 0)
        if SCALED:
            of_low *= low_scale / 127
            of_high *= high_scale / 127
        readout = readouts + tl.cast(row, tl.int64) * 2 * m
        tl.store(readout + i, of_low, i < m)
        tl.store(readout + m + i, of_high, i < m)
