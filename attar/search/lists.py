"""Inverted lists over signatures: a query is compared with those in the nearest lists, in place of all.

Signatures are clustered by k-means of their signs; a list holds the rows that are nearest to one centre. FAISS (the
extra `search`) finds the nearest centres by Hamming distance. The signatures stay where they are: lists are numbers of
rows. They are a cache in memory, never changed once made; the lists of an index that has grown are made by extending.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from attar.search import scan
from attar.search.scan import Packed
from attar.search.state_map import Floats

# Rows per list that k-means is trained on.
_TRAINED = 16
# Steps of k-means.
_STEPS = 4
# Rows compared with all centres at a time: a second of work at most, between which building can be stopped.
_BLOCK = 8_192
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
        (scores,) = scan.near_scores(self.centres, query[None], scan.is_rounded(len(self)))
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
    for first in range(0, len(packed), _BLOCK):
        check()
        block = slice(first, first + _BLOCK)
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
