"""Comparing a query with signatures: with all of them, exactly, in blocks, or with those in the nearest inverted lists.

Scores do not depend on the order of additions, nor on which other signatures are scanned with them: shards of a
library rank like the whole. The query is rounded to whole numbers of 30 bits, whose sums float64 holds exactly.
With numba (the extra `fast`) many signatures are compared by `fast_scan` first, with the query in two bit planes; who
asks compares the best of them here with the query itself.

Lists: signatures are clustered by k-means of their signs; a list holds the rows that are nearest to one centre. FAISS
(the extra `search`) finds the nearest centres by Hamming distance. The signatures stay where they are: lists are
numbers of rows. They are a cache in memory, never changed once made; those of an index that has grown are extended.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from attar.search.statistics import Floats

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


# Rows per list that k-means is trained on.
_TRAINED = 16
# Steps of k-means.
_STEPS = 4
# Rows compared with all centres at a time: a second of work at most, between which building can be stopped.
_COMPARED = 8_192
# Lists per √N documents. With fewer and longer lists, a cluster is more often spread over many (benchmarks/LOG.md).
_LISTS = 4
# Lists that a query looks into: of a million documents the nearest 4 %.
PROBED = 160
# Rows that may follow those in the lists before these are extended.
_TAIL = 4_096


class _StoppedError(Exception):
    """Nobody waits for the lists any more."""


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """The lists of the first rows of an index: `centres [lists, bytes]`, and the list of each row, `owners [rows]`."""

    centres: Packed
    owners: NDArray[np.int32]
    order: NDArray[np.int32]
    bounds: NDArray[np.int64]
    # Rows when the centres were found.
    trained: int

    @classmethod
    def of(
        cls, packed: Packed, *, check: Callable[[], None] = lambda: None, seed: int = 0
    ) -> "InvertedLists":
        """Cluster signatures `[N, bytes]` into about 4 √N lists; `check` is called now and then, and may raise."""
        random = np.random.default_rng(seed)
        count = max(1, int(_LISTS * len(packed) ** 0.5))
        sample = packed[np.sort(random.permutation(len(packed))[: _TRAINED * count])]
        centres = sample[random.permutation(len(sample))[:count]]
        for _ in range(_STEPS):
            centres = _moved(centres, sample, _nearest(centres, sample, check))
        return cls._grouped(centres, _nearest(centres, packed, check), len(packed))

    @classmethod
    def _grouped(cls, centres: Packed, owners: NDArray[np.int32], trained: int) -> "InvertedLists":
        order = np.argsort(owners, kind="stable").astype(np.int32)
        bounds = np.searchsorted(owners[order], np.arange(len(centres) + 1)).astype(np.int64)
        return cls(centres, owners, order, bounds, trained)

    def __len__(self) -> int:
        """The rows in the lists."""
        return len(self.owners)

    def extended(self, packed: Packed, *, check: Callable[[], None] = lambda: None) -> "InvertedLists":
        """The lists of these and of the rows after them, by the same centres; by new ones of twice as many rows."""
        if len(packed) > 2 * self.trained:
            return self.of(packed, check=check)
        added = _nearest(self.centres, packed[len(self) :], check)
        return self._grouped(self.centres, np.concatenate((self.owners, added)), self.trained)

    def near(self, query: Floats, probed: int | None = None) -> NDArray[np.intp]:
        """The rows of the lists whose centres score highest for a query `[numbers]`, in the order of rows."""
        (scores,) = near_scores(self.centres, query[None], is_rounded(len(self)))
        count = min(probed or PROBED, len(scores))
        lists = np.argpartition(-scores, count - 1)[:count]
        parts = [self.order[self.bounds[at] : self.bounds[at + 1]] for at in lists.tolist()]
        rows: NDArray[np.intp] = np.sort(np.concatenate(parts)).astype(np.intp)
        return rows


def _nearest(centres: Packed, packed: Packed, check: Callable[[], None]) -> NDArray[np.int32]:
    """The nearest centre of each signature."""
    import faiss

    index = faiss.IndexBinaryFlat(8 * centres.shape[1])
    index.add(np.ascontiguousarray(centres))
    nearest = np.empty(len(packed), np.int32)
    for first in range(0, len(packed), _COMPARED):
        check()
        block = slice(first, first + _COMPARED)
        nearest[block] = index.search(np.ascontiguousarray(packed[block]), 1)[1][:, 0]
    return nearest


def _moved(centres: Packed, packed: Packed, owners: NDArray[np.int32]) -> Packed:
    """Each centre moved to the signs of most of its members; a centre that has none stays."""
    moved = centres.copy()
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(len(centres) + 1))
    for at in np.flatnonzero(np.diff(bounds)).tolist():
        members = packed[order[bounds[at] : bounds[at + 1]]]
        share = np.unpackbits(members, axis=1, bitorder="little").mean(0, dtype=np.float32)
        moved[at] = np.packbits(share > 0.5, bitorder="little")
    return moved


class ListKeeper:
    """The lists of one index, made and extended by a thread of its own, so that no query waits for them."""

    def __init__(self) -> None:
        self.lists: InvertedLists | None = None
        self._lock = threading.Lock()
        # One that has failed stays, so that not every query tries again.
        self._current: _Building | None = None

    def keep(self, packed: Packed) -> None:
        """Begin to make lists of these rows, or to extend those that there are, unless only few rows are missing.

        Rows of the array must not change from now on; later calls may have more. Without FAISS nothing is done.
        """
        with self._lock:
            enough = self.lists is not None and len(packed) - len(self.lists) <= _TAIL
            if enough or self._current is not None or find_spec("faiss") is None:
                return
            self._current = _Building(self, packed, self.lists)
            self._current.start()

    def finish(self, building: "_Building", lists: InvertedLists) -> None:
        """Take over what a thread has made, unless the index was cleared meanwhile."""
        with self._lock:
            if self._current is building:
                self._current, self.lists = None, lists

    def clear(self) -> None:
        """Forget the lists: rows get new numbers."""
        with self._lock:
            if self._current is not None:
                self._current.stopped.set()
            self._current, self.lists = None, None

    def wait(self) -> None:
        """Wait until no lists are being made."""
        current = self._current
        if current is not None:
            current.join()


class _Building(threading.Thread):
    """Makes lists once. It ends at a stop, at the end of the process, or when the keeper is garbage-collected."""

    def __init__(self, keeper: ListKeeper, packed: Packed, before: InvertedLists | None) -> None:
        super().__init__(name="attar-lists", daemon=True)
        self.stopped = threading.Event()
        self._keeper, self._packed, self._before = weakref.ref(keeper), packed, before

    def run(self) -> None:
        atexit.register(self._end)
        try:
            import faiss

            # Of this thread only: half of the cores stay for queries.
            faiss.omp_set_num_threads(max(1, (os.cpu_count() or 1) // 2))
            if self._before is None:
                lists = InvertedLists.of(self._packed, check=self._check)
            else:
                lists = self._before.extended(self._packed, check=self._check)
        except (_StoppedError, ImportError, MemoryError):
            return  # all signatures are compared, as before
        finally:
            atexit.unregister(self._end)
        keeper = self._keeper()
        if keeper is not None:
            keeper.finish(self, lists)

    def _check(self) -> None:
        if self.stopped.is_set() or self._keeper() is None:
            raise _StoppedError

    def _end(self) -> None:
        # A thread within FAISS while the process takes its libraries down could crash it.
        self.stopped.set()
        self.join()
