"""The exact scan: scores of all signatures for queries, in blocks.

Scores do not depend on the order of additions, nor on which other signatures are scanned with them: shards of a
library rank like the whole. The query is rounded to whole numbers of 30 bits, whose sums float64 holds exactly.

With numba (the extra `fast`) many signatures are compared by `fast_scan` first, with the query in two bit planes; who
asks compares the best of them here with the query itself.
"""

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from attar.search.state_map import Floats

Packed = NDArray[np.uint8]
# Rows unpacked at a time, 8 MB: larger arrays are mapped anew each time, which takes longer than the products.
_BLOCK = 128
# From this many documents on, the first scan is by bit planes.
_MANY = 4_096
# At least this many of the best by bit planes are compared exactly.
CANDIDATES = 256
# What a query keeps of its largest number. Sums of up to 2^23 such numbers are exact in float64.
_BITS = 30


def scores(packed: Packed, queries: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
    """The score of each signature `[N, bytes]`, or of some rows, for each query `[m, numbers]`: `[m, N]`.

    >>> signatures = np.array([[0b101], [0b010]], np.uint8)
    >>> scores(signatures, np.array([[2.0, -1.0, 1.0]], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    count, numbers = len(packed) if rows is None else len(rows), queries.shape[1]
    products = np.empty((len(queries), count), np.float32)
    whole, steps = _whole_numbers(queries)
    columns, totals = np.ascontiguousarray(whole.T), whole.sum(1)
    bits = np.empty((min(_BLOCK, count), numbers))
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        signs = packed[block] if rows is None else packed[rows[block]]
        # Of signs 2 t − 1. The long side first, which BLAS is quicker at.
        bits[: len(signs)] = np.unpackbits(signs, axis=1, count=numbers, bitorder="little")
        products[:, block] = ((2 * (bits[: len(signs)] @ columns) - totals) * steps).T
    return products


def _whole_numbers(queries: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Queries as whole numbers `[m, numbers]`, and the steps `[m]`, powers of two, that they are multiples of.

    >>> whole, steps = _whole_numbers(np.array([[0.75, -1.0]], np.float32))
    >>> (whole * steps[:, None]).tolist()
    [[0.75, -1.0]]
    """
    _, exponents = np.frexp(np.abs(queries).max(1, initial=0.0))
    steps = np.ldexp(1.0, exponents.astype(np.int64) - _BITS)
    return np.rint(queries / steps[:, None]), steps


def is_rounded(documents: int) -> bool:
    """Whether the first scan of this many documents rounds scores, so that the best are compared again."""
    return documents >= _MANY and _compiled() is not None


def near_scores(
    packed: Packed, queries: Floats, rounded: bool, rows: NDArray[np.intp] | None = None
) -> Floats:
    """The scores of all signatures or of some rows; `rounded` ones differ a little, and are there sooner."""
    compiled = _compiled() if rounded else None
    if compiled is None:
        return scores(packed, queries, rows)
    rounded_scores: Floats = compiled.scores(packed, queries, rows)
    return rounded_scores


def _compiled() -> ModuleType | None:
    try:
        from attar.search import fast_scan  # numba takes a second to load
    except ImportError:  # not installed
        return None
    return fast_scan
