"""The exact scan: scores of all signatures for queries, in blocks.

Scores of 1-bit signatures do not depend on the order of additions, nor on which other signatures are scanned with
them: shards of a library rank like the whole. The query is rounded to whole numbers of 30 bits, whose sums float64
holds exactly.

1-bit signatures with numba (the extra `fast`): `fast_scan`, which compares bits with the query in two bit planes, and
here the best of those with the query itself.
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.search.signatures import unpack
from attar.search.state_map import Floats

# Rows unpacked at a time, 8 MB: larger arrays are mapped anew each time, which takes longer than the products.
_BLOCK = 128
# From this many rows on, the first scan is by bit planes, and at least this many of the best are compared exactly.
_MANY, CANDIDATES = 4_096, 256
# What a query keeps of its largest number. Sums of up to 2^23 such numbers are exact in float64.
_BITS = 30


def scores(packed: NDArray[Any], dtype: str, queries: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
    """The score of each signature `[N, bytes]`, or of some rows, for each query `[m, numbers]`: `[m, N]`.

    >>> signatures = np.array([[0b101], [0b010]], np.uint8)
    >>> scores(signatures, "1-bit", np.array([[2.0, -1.0, 1.0]], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    count = len(packed) if rows is None else len(rows)
    found = np.empty((len(queries), count), np.float32)
    numbers, is_signs = queries.shape[1], dtype == "1-bit"
    whole, steps = _whole_numbers(queries)
    columns: NDArray[Any] = np.ascontiguousarray((whole if is_signs else queries).T)
    totals = whole.sum(1)
    bits = np.empty((min(_BLOCK, count), numbers) if is_signs else 0)
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        own = packed[block] if rows is None else packed[rows[block]]
        if is_signs:
            # Of signs 2 t − 1. The long side first, which BLAS is quicker at.
            bits[: len(own)] = np.unpackbits(own, axis=1, count=numbers, bitorder="little")
            found[:, block] = ((2 * (bits[: len(own)] @ columns) - totals) * steps).T
        else:
            found[:, block] = (unpack(own, dtype, numbers) @ columns).T
    return found


def _whole_numbers(queries: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Queries as whole numbers `[m, numbers]`, and the steps `[m]`, powers of two, that they are multiples of.

    >>> whole, steps = _whole_numbers(np.array([[0.75, -1.0]], np.float32))
    >>> (whole * steps[:, None]).tolist()
    [[0.75, -1.0]]
    """
    _, exponents = np.frexp(np.abs(queries).max(1, initial=0.0))
    steps = np.ldexp(1.0, exponents.astype(np.int64) - _BITS)
    return np.rint(queries / steps[:, None]), steps


def is_rounded(count: int, dtype: str = "1-bit") -> bool:
    """Whether the first scan of this number of signatures rounds their scores, so that the best are compared again."""
    return dtype == "1-bit" and count >= _MANY and _fast() is not None


def near_scores(
    packed: NDArray[Any],
    dtype: str,
    queries: Floats,
    rounded: bool,
    rows: NDArray[np.intp] | None = None,
) -> Floats:
    """The scores of all signatures or of some rows, with `rounded` scores that are rounded a little, sooner."""
    fast = _fast() if rounded and dtype == "1-bit" else None
    if fast is None:
        return scores(packed, dtype, queries, rows)
    found: Floats = fast.scores(packed, queries, rows)
    return found


def best(
    packed: NDArray[Any], dtype: str, queries: Floats, count: int, among: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.intp], Floats]:
    """The rows `[m, count]`, of all or `among` some, with the highest scores for each query, best first, and these.

    The first scan may round; the best of it, many times as many as asked for, are compared exactly.
    """
    among = np.arange(len(packed)) if among is None else among
    count = min(count, len(among))
    rounded = is_rounded(len(packed), dtype)
    found = near_scores(packed, dtype, queries, rounded, among)
    places = _highest(found, min(len(among), max(CANDIDATES, 8 * count)) if rounded else count)
    rows = among[places]
    if not rounded:
        return rows, np.take_along_axis(found, places, 1)
    pairs = zip(rows, queries, strict=True)
    again = np.stack([scores(packed, dtype, query[None], own)[0] for own, query in pairs])
    order = _highest(again, count)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(again, order, 1)


def _highest(found: Floats, count: int) -> NDArray[np.intp]:
    """The places of the highest numbers of each row, highest first."""
    places = np.stack([_high_places(row, count) for row in found])
    order = np.argsort(-np.take_along_axis(found, places, 1), axis=1, kind="stable")
    return np.take_along_axis(places, order, 1)


def _high_places(row: Floats, count: int) -> NDArray[np.intp]:
    """The places of the highest numbers of a long row, in any order.

    They are in the blocks of 32 whose own highest number is among the highest of all blocks: most of the row is only
    looked at once, and no place is kept for each number, which would take 8 MB of new memory for a million.
    """
    blocks = len(row) // 32
    if blocks > count:
        tops = row[: 32 * blocks].reshape(blocks, 32).max(1)
        near = np.argpartition(tops, -count)[-count:]
        inside = (32 * near[:, None] + np.arange(32)).reshape(-1)
        places = np.concatenate((inside, np.arange(32 * blocks, len(row))))
    else:
        places = np.arange(len(row))
    if count < len(places):
        places = places[np.argpartition(row[places], -count)[-count:]]
    return places


def _fast() -> ModuleType | None:
    try:
        from attar.search import fast_scan
    except ImportError:  # without numba, the extra `fast`
        return None
    return fast_scan
