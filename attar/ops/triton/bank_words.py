# ruff: noqa
# mypy: ignore-errors
"""Lookups in an int8 bank by words of four bytes: a product of four pairs and their sum is one instruction (dp4a).

A memory is read as words of four columns, in tiles [m / 4, m / 4] of the rows 4 a + p. The query, times its rows'
scales, is rounded to 16 bits as 256 high + low, two words of four bytes. What a stored value gives to its column needs
words of four rows: the transposes of blocks of 4 × 4 bytes. Blocks off the diagonal of the folded triangles belong to
one of them as a whole; those on the diagonal are masked, and are read once more for that.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from attar.ops.triton import alignment

INTERPRETED = triton.knobs.runtime.interpret
PROGRAMS = 132 * 16


def lookup(
    values: Tensor,
    scales: Tensor,
    documents: Tensor,
    queries: Tensor,
    warps: int = 1,
    ahead: int = 2,
    bits: int = 16,
    registers: int = 255,
) -> Tensor:
    """C q `[Q, k]` for each pair of a folded symmetric memory in int8, whose k divides by 8, and a query."""
    count, k = queries.shape
    readouts = torch.empty(count, k, dtype=torch.float32, device=queries.device)
    words, queries = values.view(torch.int32), queries.contiguous()
    if count:
        aligned = alignment(k // 8)
        words_kernel[(min(count, PROGRAMS),)](
            *(words, scales, documents, queries, readouts, count, k // 8 // aligned, words.shape[1]),
            ALIGNED=aligned,
            M=max(2, triton.next_power_of_2(k // 8)),
            AHEAD=ahead,
            PLAIN=INTERPRETED,
            BITS=bits,
            num_warps=warps,
            maxnreg=registers,
        )
    return readouts


@triton.jit
def words_kernel(
    words, scales, documents, queries, readouts, count, m, length,
    ALIGNED: tl.constexpr, M: tl.constexpr, AHEAD: tl.constexpr, PLAIN: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """Here m counts words: k = 8 m."""
    m = m * ALIGNED
    a, c, i = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :], tl.arange(0, M)
    inside, valid = (a < m) & (c < m), i < m
    for row in tl.range(tl.program_id(0), count, tl.num_programs(0), num_stages=AHEAD):
        document = tl.load(documents + row).to(tl.int64)
        memory = words + document * length
        query, scale = queries + tl.cast(row, tl.int64) * 8 * m, scales + document * 8 * m
        place = memory + 4 * a * m + c
        F0, F1 = tl.load(place, inside, 0), tl.load(place + m, inside, 0)
        F2, F3 = tl.load(place + 2 * m, inside, 0), tl.load(place + 3 * m, inside, 0)
        place += 4 * m * m
        X0, X1 = tl.load(place, inside, 0), tl.load(place + m, inside, 0)
        X2, X3 = tl.load(place + 2 * m, inside, 0), tl.load(place + 3 * m, inside, 0)
        place = memory + 4 * i * m + i
        D0, D1 = tl.load(place, valid, 0), tl.load(place + m, valid, 0)
        D2, D3 = tl.load(place + 2 * m, valid, 0), tl.load(place + 3 * m, valid, 0)
        last = tl.load(memory + 8 * m * m + i, valid, 0)

        part = 4 * i[:, None] + tl.arange(0, 4)[None, :]
        low_scale = tl.load(scale + part, part < 4 * m, 0.0).to(tl.float32)
        high_scale = tl.load(scale + 4 * m + part, part < 4 * m, 0.0).to(tl.float32)
        low = tl.load(query + part, part < 4 * m, 0.0).to(tl.float32) * low_scale
        high = tl.load(query + 4 * m + part, part < 4 * m, 0.0).to(tl.float32) * high_scale
        largest = tl.max(tl.max(tl.maximum(tl.abs(low), tl.abs(high)), 1), 0)
        largest = tl.maximum(largest, 1e-30)
        low_high, low_low = rounded(low * (127 / largest))
        high_high, high_low = rounded(high * (127 / largest))

        # Off the diagonal: words of four columns for rows, their transposes for columns.
        below, above = a > c, a < c
        by_high = tl.where(below, low_high[None, :], tl.where(above, high_high[None, :], 0))
        by_low = tl.where(below, low_low[None, :], tl.where(above, high_low[None, :], 0))
        d0, d1 = dot4(F0, by_high, by_low, PLAIN, BITS), dot4(F1, by_high, by_low, PLAIN, BITS)
        d2, d3 = dot4(F2, by_high, by_low, PLAIN, BITS), dot4(F3, by_high, by_low, PLAIN, BITS)
        h, w = low_high[None, :], low_low[None, :]
        low0, low1 = tl.sum(tl.where(below, d0, 0), 1), tl.sum(tl.where(below, d1, 0), 1)
        low2, low3 = tl.sum(tl.where(below, d2, 0), 1), tl.sum(tl.where(below, d3, 0), 1)
        high0 = tl.sum(dot4(X0, h, w, PLAIN, BITS) + d0, 1) - low0
        high1 = tl.sum(dot4(X1, h, w, PLAIN, BITS) + d1, 1) - low1
        high2 = tl.sum(dot4(X2, h, w, PLAIN, BITS) + d2, 1) - low2
        high3 = tl.sum(dot4(X3, h, w, PLAIN, BITS) + d3, 1) - low3

        F0, F1, F2, F3 = transposed(F0, F1, F2, F3, PLAIN)
        X0, X1, X2, X3 = transposed(X0, X1, X2, X3, PLAIN)
        by_high = tl.where(below, low_high[:, None], tl.where(above, high_high[:, None], 0))
        by_low = tl.where(below, low_low[:, None], tl.where(above, high_low[:, None], 0))
        d0, d1 = dot4(F0, by_high, by_low, PLAIN, BITS), dot4(F1, by_high, by_low, PLAIN, BITS)
        d2, d3 = dot4(F2, by_high, by_low, PLAIN, BITS), dot4(F3, by_high, by_low, PLAIN, BITS)
        h, w = high_high[:, None], high_low[:, None]
        up0, up1 = tl.sum(tl.where(above, d0, 0), 0), tl.sum(tl.where(above, d1, 0), 0)
        up2, up3 = tl.sum(tl.where(above, d2, 0), 0), tl.sum(tl.where(above, d3, 0), 0)
        down0 = tl.sum(dot4(X0, h, w, PLAIN, BITS) + d0, 0) - up0
        down1 = tl.sum(dot4(X1, h, w, PLAIN, BITS) + d1, 0) - up1
        down2 = tl.sum(dot4(X2, h, w, PLAIN, BITS) + d2, 0) - up2
        down3 = tl.sum(dot4(X3, h, w, PLAIN, BITS) + d3, 0) - up3
        of_low = interleaved(low0, low1, low2, low3) + interleaved(down0, down1, down2, down3)
        of_high = interleaved(high0, high1, high2, high3) + interleaved(up0, up1, up2, up3)

        # Blocks on the diagonal: bytes up to p are the first triangle's, the others the second's.
        low0 = dot4(D0 & 0xFF, low_high, low_low, PLAIN, BITS)
        low1 = dot4(D1 & 0xFFFF, low_high, low_low, PLAIN, BITS)
        low2 = dot4(D2 & 0xFFFFFF, low_high, low_low, PLAIN, BITS)
        low3 = dot4(D3, low_high, low_low, PLAIN, BITS)
        high0 = dot4(D0 & -0x100, high_high, high_low, PLAIN, BITS) + dot4(
            last & 0xFF, high_high, high_low, PLAIN, BITS
        )
        high1 = dot4(D1 & -0x10000, high_high, high_low, PLAIN, BITS) + dot4(
            last & 0xFF00, high_high, high_low, PLAIN, BITS
        )
        high2 = dot4(D2 & -0x1000000, high_high, high_low, PLAIN, BITS) + dot4(
            last & 0xFF0000, high_high, high_low, PLAIN, BITS
        )
        high3 = dot4(last & -0x1000000, high_high, high_low, PLAIN, BITS)
        D0, D1, D2, D3 = transposed(D0, D1, D2, D3, PLAIN)
        low0 += dot4(D0 & -0x100, low_high, low_low, PLAIN, BITS)
        low1 += dot4(D1 & -0x10000, low_high, low_low, PLAIN, BITS)
        low2 += dot4(D2 & -0x1000000, low_high, low_low, PLAIN, BITS)
        high1 += dot4(D1 & 0xFF, high_high, high_low, PLAIN, BITS)
        high2 += dot4(D2 & 0xFFFF, high_high, high_low, PLAIN, BITS)
        high3 += dot4(D3 & 0xFFFFFF, high_high, high_low, PLAIN, BITS)
        of_low += interleaved(low0, low1, low2, low3)
        of_high += interleaved(high0, high1, high2, high3)

        unit = largest / (127.0 * 127 * (256 if BITS == 16 else 1))
        readout = readouts + tl.cast(row, tl.int64) * 8 * m + part
        tl.store(readout, of_low.to(tl.float32) * (low_scale * unit), part < 4 * m)
        tl.store(readout + 4 * m, of_high.to(tl.float32) * (high_scale * unit), part < 4 * m)


@triton.jit
def rounded(x):
    """256 x as words of high and of low bytes, both signed; adding 1.5 × 2²³ leaves a rounded number's bits last."""
    shifted = x + 12582912.0
    rest = (x - (shifted - 12582912.0)) * 254 + 12582912.0
    place = 8 * tl.arange(0, 4)[None, :]
    high, low = shifted.to(tl.int32, bitcast=True) & 0xFF, rest.to(tl.int32, bitcast=True) & 0xFF
    return tl.sum(high << place, 1), tl.sum(low << place, 1)


@triton.jit
def interleaved(x0, x1, x2, x3):
    """The numbers p of all blocks as [M, 4]."""
    return tl.reshape(tl.join(tl.join(x0, x2), tl.join(x1, x3)), [x0.shape[0], 4])


@triton.jit
def dot4(word, high, low, PLAIN: tl.constexpr, BITS: tl.constexpr):
    """256 Σ byte × high byte + Σ byte × low byte."""
    if PLAIN:
        word, high = tl.broadcast(word, high)
        word, low = tl.broadcast(word, low)
        total = word * 0
        for shift in tl.static_range(0, 32, 8):
            byte, high_byte, low_byte = (
                (word << (24 - shift)) >> 24,
                (high << (24 - shift)) >> 24,
                (low << (24 - shift)) >> 24,
            )
            total += byte * (256 * high_byte + low_byte) if BITS == 16 else byte * high_byte
        return total
    elif BITS == 8:
        return tl.inline_asm_elementwise(
            "dp4a.s32.s32 $0, $1, $2, 0;", "=r,r,r", [word, high], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        return tl.inline_asm_elementwise(
            "{ .reg .s32 t; dp4a.s32.s32 t, $1, $2, 0; shl.b32 t, t, 8; dp4a.s32.s32 $0, $1, $3, t; }",
            "=r,r,r,r", [word, high, low], dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@triton.jit
def transposed(w0, w1, w2, w3, PLAIN: tl.constexpr):
    """Words of four rows for words of four columns: byte j of word p is byte p of word j."""
    if PLAIN:
        t0 = (w0 & 0xFF) | ((w1 & 0xFF) << 8) | ((w2 & 0xFF) << 16) | (w3 << 24)
        t1 = ((w0 >> 8) & 0xFF) | (w1 & 0xFF00) | ((w2 << 8) & 0xFF0000) | ((w3 << 16) & -0x1000000)
        t2 = ((w0 >> 16) & 0xFF) | ((w1 >> 8) & 0xFF00) | (w2 & 0xFF0000) | ((w3 << 8) & -0x1000000)
        t3 = ((w0 >> 24) & 0xFF) | ((w1 >> 16) & 0xFF00) | ((w2 >> 8) & 0xFF0000) | (w3 & -0x1000000)
        return t0, t1, t2, t3
    else:
        return tl.inline_asm_elementwise(
            """{ .reg .b32 a, b, c, d;
            prmt.b32 a, $4, $5, 0x5140; prmt.b32 b, $6, $7, 0x5140;
            prmt.b32 c, $4, $5, 0x7362; prmt.b32 d, $6, $7, 0x7362;
            prmt.b32 $0, a, b, 0x5410; prmt.b32 $1, a, b, 0x7632;
            prmt.b32 $2, c, d, 0x5410; prmt.b32 $3, c, d, 0x7632; }""",
            "=&r,=&r,=&r,=&r,r,r,r,r", [w0, w1, w2, w3],
            dtype=(tl.int32, tl.int32, tl.int32, tl.int32), is_pure=True, pack=1,
        )  # fmt: skip
