"""The exact scan: scores of all signatures for queries, in blocks.

Scores of 1-bit signatures do not depend on the order of additions, nor on which other signatures are scanned with
them: shards of a library rank like the whole. The query is split into parts of a few bits, whose sums are whole numbers
that float32 holds exactly.

1-bit signatures with numba (the extra `fast`): `fast_scan`, which compares bits with the query in two bit planes, and
here the best of those with the query itself.
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.search.signatures import unpack
from attar.search.state_map import Floats

# Rows unpacked at a time: about what a core's cache holds.
_BLOCK = 1_024
# From this many rows on, the first scan is by bit planes, and at least this many of the best are compared exactly.
_MANY, CANDIDATES = 4_096, 256
# Whole numbers up to 2^24 are exact in float32; a query keeps at least this many bits of its largest number.
_WHOLE, _BITS = 24, 30


def scores(packed: NDArray[Any], dtype: str, queries: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
    """The score of each signature `[N, bytes]`, or of some rows, for each query `[m, numbers]`: `[m, N]`.

    >>> signatures = np.array([[0b101], [0b010]], np.uint8)
    >>> scores(signatures, "1-bit", np.array([[2.0, -1.0, 1.0]], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    count = len(packed) if rows is None else len(rows)
    found = np.empty((len(queries), count), np.float32)
    numbers, is_signs = queries.shape[1], dtype == "1-bit"
    parts, steps = _whole_parts(queries) if is_signs else (queries[None], np.ones((1, len(queries))))
    columns = np.ascontiguousarray(parts.reshape(-1, numbers).T)
    totals = columns.sum(0)
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        own = packed[block] if rows is None else packed[rows[block]]
        if is_signs:
            # Of signs 2 t − 1: whole numbers, as their sums are. The long side first, which BLAS is quicker at.
            bits = np.unpackbits(own, axis=1, count=numbers, bitorder="little").astype(np.float32)
            sums = 2 * (bits @ columns) - totals
        else:
            sums = unpack(own, dtype, numbers) @ columns
        found[:, block] = (sums.T.reshape(*parts.shape[:2], -1) * steps[:, :, None]).sum(0)
    return found


def _whole_parts(queries: Floats) -> tuple[Floats, NDArray[np.float64]]:
    """Queries as sums of parts `[p, m, numbers]` of whole numbers, times steps `[p, m]`, the largest first.

    >>> parts, steps = _whole_parts(np.array([[0.75, -1.0]], np.float32))
    >>> (parts * steps[:, :, None]).sum(0).tolist()
    [[0.75, -1.0]]
    """
    bits = _WHOLE - int(queries.shape[1]).bit_length()
    _, exponents = np.frexp(np.abs(queries).max(1, initial=0.0))
    steps = np.ldexp(1.0, exponents.astype(np.int64) - bits)
    left, parts, kept = queries.astype(np.float64), [], []
    for _ in range(-(-_BITS // bits)):
        part = np.rint(left / steps[:, None])
        left = left - part * steps[:, None]
        parts.append(part.astype(np.float32))
        kept.append(steps)
        steps = steps / 2.0**bits
    return np.stack(parts), np.stack(kept)


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
    if count < found.shape[1]:
        places = np.argpartition(found, -count, axis=1)[:, -count:]
    else:
        places = np.broadcast_to(np.arange(found.shape[1]), found.shape)
    order = np.argsort(-np.take_along_axis(found, places, 1), axis=1, kind="stable")
    return np.take_along_axis(places, order, 1)


def _fast() -> ModuleType | None:
    try:
        from attar.search import fast_scan
    except ImportError:  # without numba, the extra `fast`
        return None
    return fast_scan
