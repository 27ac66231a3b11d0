"""`ranking.count_bits`, compiled by numba: in about a tenth of the time, with two cores."""

from typing import no_type_check

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic

# Rows that a thread compares with all queries before the next: 66 kB of signs stay in the second cache.
ROWS = 64


@intrinsic
def popcount(context, value):
    """The bits of an unsigned integer that are 1."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@no_type_check
@njit(parallel=True, cache=True, fastmath=True)
def count_bits(packed, rows, planes, ones, products, totals, low, step, numbers):
    """Fill `products [m, N]`: 2 Σ q_i t_i − Σ q_i of each row, of the rounded query."""
    words, count = packed.shape[1], rows.shape[0]
    for block in prange((count + ROWS - 1) // ROWS):
        first = block * ROWS
        end = min(first + ROWS, count)
        positive = np.zeros(ROWS, np.int64)
        for at in range(first, end):
            row = packed[rows[at]]
            in_row = 0
            for word in range(words):
                in_row += popcount(row[word] & ones[word])
            positive[at - first] = in_row
        for query in range(planes.shape[0]):
            low_bits, high_bits = planes[query, 0], planes[query, 1]
            for at in range(first, end):
                row = packed[rows[at]]
                ones_in_low, ones_in_high = 0, 0
                for word in range(words):
                    bits = row[word]
                    ones_in_low += popcount(bits & low_bits[word])
                    ones_in_high += popcount(bits & high_bits[word])
                inner = ones_in_low + 2 * ones_in_high
                signed = step[query] * (2 * inner - totals[query])
                products[query, at] = signed + low[query] * (2 * positive[at - first] - numbers)
