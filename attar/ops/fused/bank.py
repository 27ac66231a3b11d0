"""Lookups in a bank of folded memories: one program a question, each number of its memory read once."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from attar.ops.fused.gram_kernels import alignment

# Programs of one warp that fill a large GPU, and memories that each has under way; measured on an H200 at k = 128.
PROGRAMS, AHEAD = 132 * 8, 2


def lookup(
    values: Tensor,
    scales: Float[Tensor, "N k"] | None,
    documents: Int[Tensor, " Q"],
    queries: Float[Tensor, "Q k"],
) -> Float[Tensor, "Q k"]:
    """C q for each pair; the layout is `attar.ops.bank`'s, whose k is even."""
    questions, k = queries.shape
    queries = queries.contiguous()
    readouts = torch.empty(questions, k, dtype=torch.float32, device=queries.device)
    if questions:
        tile = max(2, triton.next_power_of_2(k // 2))
        aligned = alignment(k // 2)
        lookup_kernel[(min(questions, PROGRAMS),)](
            *(values, scales, documents, queries, readouts, questions, k // 2 // aligned, values.shape[1]),
            SCALED=scales is not None,
            ALIGNED=aligned,
            M=tile,
            AHEAD=AHEAD,
            num_warps=max(1, tile // 64),
        )
    return readouts


@triton.jit
def lookup_kernel(
    values, scales, documents, queries, readouts, questions, m, length,
    SCALED: tl.constexpr, ALIGNED: tl.constexpr, M: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Each stored C_ij answers twice: C_ij q_j goes to readout i, C_ij q_i to readout j.

    The query's halves are `low` and `high`; every sum over a tile's columns answers for its rows, and back. A
    program goes through many questions, with the memories of the next ones on their way.
    """
    m = m * ALIGNED
    r, c, i = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :], tl.arange(0, M)
    inside = (r < m) & (c < m)
    for question in tl.range(tl.program_id(0), questions, tl.num_programs(0), num_stages=AHEAD):
        document = tl.load(documents + question).to(tl.int64)
        memory = values + document * length
        query = queries + tl.cast(question, tl.int64) * 2 * m
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
        readout = readouts + tl.cast(question, tl.int64) * 2 * m
        tl.store(readout + i, of_low, i < m)
        tl.store(readout + m + i, of_high, i < m)
