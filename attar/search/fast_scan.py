"""`ranking.count_bits`, compiled by numba: in about a tenth of the time, with two cores."""

from typing import no_type_check

from numba import njit, prange, types
from numba.extending import intrinsic

# Rows that a thread compares with all bits before the next: 66 kB of signs stay in the second cache.
ROWS = 64


@intrinsic
def popcount(context, value):
    """The bits of an unsigned integer that are 1."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@no_type_check
@njit(parallel=True, cache=True)
def count_bits(signs, rows, bits, counts):
    """Fill `counts [b, N]`: how many bits each row has in common with each of `bits [b, words]`."""
    words, count = signs.shape[1], rows.shape[0]
    for block in prange((count + ROWS - 1) // ROWS):
        first = block * ROWS
        for mask in range(bits.shape[0]):
            for at in range(first, min(first + ROWS, count)):
                row, common = signs[rows[at]], 0
                for word in range(words):
                    common += popcount(row[word] & bits[mask, word])
                counts[mask, at] = common
