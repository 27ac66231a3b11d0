"""The exact scan: scores of all signatures for queries, in blocks.

1-bit signatures with numba (the extra `fast`): `fast_scan`, which compares bits with the query in three bit planes, and
here the best of those with the query itself.
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.search.signatures import unpack
from attar.search.statistics import Floats

# Rows unpacked at a time: about what a core's cache holds.
_BLOCK = 1_024
# From this many rows on, the first scan is by bit planes, and at least this many of the best are compared exactly.
_MANY, CANDIDATES = 4_096, 256


def scores(packed: NDArray[Any], dtype: str, queries: Floats) -> Floats:
    """The score of each signature `[N, bytes]` for each query `[m, numbers]`: `[m, N]`.

    >>> signatures = np.array([[0b101], [0b010]], np.uint8)
    >>> scores(signatures, "1-bit", np.array([[2.0, -1.0, 1.0]], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    found = np.empty((len(queries), len(packed)), np.float32)
    for first in range(0, len(packed), _BLOCK):
        block = slice(first, first + _BLOCK)
        found[:, block] = queries @ unpack(packed[block], dtype, queries.shape[1]).T
    return found


def near_scores(packed: NDArray[Any], dtype: str, queries: Floats) -> tuple[Floats, bool]:
    """The scores of all signatures, and whether they are exact: those of many 1-bit ones are rounded a little."""
    fast = _fast() if dtype == "1-bit" and len(packed) >= _MANY else None
    if fast is None:
        return scores(packed, dtype, queries), True
    return fast.scores(packed, queries), False


def best(packed: NDArray[Any], dtype: str, queries: Floats, count: int) -> tuple[NDArray[np.intp], Floats]:
    """The rows `[m, count]` with the highest scores for each query, best first, and these scores.

    The first scan may round; the best of it, many times as many as asked for, are compared exactly.
    """
    count = min(count, len(packed))
    found, exact = near_scores(packed, dtype, queries)
    rows = _highest(found, count if exact else min(len(packed), max(CANDIDATES, 8 * count)))
    if exact:
        return rows, np.take_along_axis(found, rows, 1)
    pairs = zip(rows, queries, strict=True)
    again = np.stack([scores(packed[own], dtype, query[None])[0] for own, query in pairs])
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
