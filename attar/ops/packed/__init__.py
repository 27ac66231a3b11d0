"""Symmetric memories as their triangle alone: k(k+1)/2 numbers, read and written in place.

    packed  [p]   C_00  C_10 C_11  C_20 C_21 C_22  …        p = k(k+1)/2, C_ij at i(i+1)/2 + j for j ≤ i

This is the lower triangle row by row, and, C being symmetric, BLAS's own packed type: the upper triangle
column by column (`uplo = 'U'`). So a lookup is `?spmv` and an update `?spr`, on the stored bytes. Where numba is
installed (`attar[fast]`) and many lookups are made, a product of our own takes `?spmv`'s place (`compiled`).
"""

from attar.ops.packed.access import packed_lookup, packed_lookup_many, packed_update
from attar.ops.packed.int8 import dequantize, quantize
from attar.ops.packed.triangle import pack, unpack

__all__ = [
    "dequantize",
    "pack",
    "packed_lookup",
    "packed_lookup_many",
    "packed_update",
    "quantize",
    "unpack",
]
