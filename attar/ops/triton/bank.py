"""Lookups in a bank of folded memories: each value of a memory is read once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from attar.ops.triton import Maybe, alignment

# Programs of one warp that fill a large GPU, and memories that each loads ahead; measured on an H200 at k = 128.
PROGRAMS, AHEAD = 132 * 8, 2


def lookup(values: Tensor, scales: Maybe, documents: Tensor, queries: Tensor) -> Tensor:
    """C q `[Q, k]` for each pair; the layout is that of `attar.ops.bank`, whose k is even."""
    count, k = queries.shape
    queries = queries.contiguous()
    readouts = torch.empty(count, k, dtype=torch.float32, device=queries.device)
    if count:
        tile = max(2, triton.next_power_of_2(k // 2))
        aligned = alignment(k // 2)
        lookup_kernel[(min(count, PROGRAMS),)](
            *(values, scales, documents, queries, readouts, count, k // 2 // aligned, values.shape[1]),
            SCALED=scales is not None,
            ALIGNED=aligned,
            M=tile,
            AHEAD=AHEAD,
            num_warps=max(1, tile // 64),
        )
    return readouts


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
