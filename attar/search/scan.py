"""The exact scan: scores of all signatures for queries, in blocks.

1-bit signatures with numba (the extra `fast`): `fast_scan`, which compares bits with the query in six bit planes, and
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
# From so many rows on the first scan is by bit planes, and so many of the best, at least, are compared exactly.
_MANY, _CANDIDATES = 4_096, 256


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


def best(packed: NDArray[Any], dtype: str, queries: Floats, count: int) -> tuple[NDArray[np.intp], Floats]:
    """The rows `[m, count]` with the highest scores for each query, best first, and these scores."""
    count = min(count, len(packed))
    fast = _fast() if dtype == "1-bit" and len(packed) >= _MANY else None
    if fast is None:
        found = scores(packed, dtype, queries)
        rows = _highest(found, count)
        return rows, np.take_along_axis(found, rows, 1)
    near = _highest(fast.scores(packed, queries), min(len(packed), max(_CANDIDATES, 8 * count)))
    exact = np.stack(
        [scores(packed[own], dtype, query[None])[0] for own, query in zip(near, queries, strict=True)]
    )
    order = _highest(exact, count)
    return np.take_along_axis(near, order, 1), np.take_along_axis(exact, order, 1)


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
