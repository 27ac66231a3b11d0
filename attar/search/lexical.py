"""BM25 over word pieces, of documents that are added and removed at any time.

Word counts are those that the store keeps with each signature. Postings are one table, sorted by piece, made now and
then; documents added since are searched from end to end; removed ones are left out of all scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.search.statistics import Floats, inverse_frequencies

# Robertson's usual constants; not tuned. How soon a word that comes again counts less,
_K1 = 1.2
# and how much longer documents are discounted.
_B = 0.75
# A word piece that most documents hold does not change their order, and has the longest postings.
_COMMON = 0.5
# Documents that may be added before the postings are sorted again: at 100,000 documents that takes half a second.
_UNSORTED = 2_048

Counts = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Corpus:
    """What BM25 needs of all documents: how many, their length in pieces, and how many hold each piece of a query."""

    documents: int
    length: int
    pieces: NDArray[np.uint16]
    frequencies: NDArray[np.int64]

    def __add__(self, other: "Corpus") -> "Corpus":
        """The corpus of two shards, for the same pieces."""
        return Corpus(
            self.documents + other.documents,
            self.length + other.length,
            self.pieces,
            self.frequencies + other.frequencies,
        )

    def equals(self, other: "Corpus") -> bool:
        """Whether both give the same scores to documents, for the same pieces."""
        same = (self.documents, self.length) == (other.documents, other.length)
        return same and np.array_equal(self.frequencies, other.frequencies)


class Terms(NamedTuple):
    """What a query looks for: word pieces and the weight of each, and the mean length of all documents."""

    pieces: NDArray[np.uint16]
    weights: Floats
    mean: float

    @classmethod
    def of(cls, corpus: Corpus) -> "Terms":
        documents, frequencies = corpus.documents, corpus.frequencies
        used = (frequencies > 0) & ((frequencies <= _COMMON * documents) | (documents < 8))
        weights = (_K1 + 1) * inverse_frequencies(frequencies[used], documents)
        return cls(corpus.pieces[used], weights, corpus.length / max(documents, 1))


def bm25(weights: Any, counts: Any, lengths: Any, mean: Any) -> Any:
    """What pieces of these weights that occur `counts` times add to documents of these lengths: arrays or tensors."""
    return weights * counts / (counts + _K1 * (1 - _B + _B / mean * lengths))


class Postings(NamedTuple):
    """By piece, from `bounds[piece]` on, the rows that hold it and how often each does."""

    rows: NDArray[np.int32]
    counts: NDArray[Any]
    bounds: NDArray[np.int64]


class _Documents(NamedTuple):
    """The word pieces of documents one after the other, how often each occurs, and where each document begins."""

    pieces: NDArray[np.uint16]
    counts: NDArray[Any]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, documents: Sequence[Counts]) -> "_Documents":
        """Counts take a byte each where that is enough."""
        sizes = [len(pieces) for pieces, _ in documents]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        if not documents:
            return cls(np.zeros(0, np.uint16), np.zeros(0, np.uint8), starts)
        pieces = np.concatenate([pieces for pieces, _ in documents])
        counts = np.concatenate([counts for _, counts in documents])
        small = counts.max(initial=0) < 256
        return cls(pieces.astype(np.uint16), counts.astype(np.uint8 if small else np.uint32), starts)

    @classmethod
    def joined(cls, parts: "Sequence[_Documents]") -> "_Documents":
        sizes = [np.diff(part.starts) for part in parts]
        return cls(
            np.concatenate([part.pieces for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64),
        )

    @property
    def lengths(self) -> Floats:
        before = np.concatenate(([0], np.cumsum(self.counts, dtype=np.int64)))
        return np.diff(before[self.starts]).astype(np.float32)

    def rows(self, first: int) -> NDArray[np.int32]:
        """The document of each piece, from `first` on."""
        numbers = np.arange(first, first + len(self.starts) - 1, dtype=np.int32)
        return np.repeat(numbers, np.diff(self.starts))


class Lexical:
    """BM25 of documents by row. The rows of removed documents stay, with the score 0.

    >>> index = Lexical(pieces=5)
    >>> index.append([(np.array([1, 2]), np.array([1, 3])), (np.array([2, 4]), np.array([1, 1]))])
    >>> [f"{score:.2f}" for score in index.scores(index.corpus(np.array([1, 4])))]
    ['0.61', '0.80']
    >>> index.remove(0)
    >>> index.scores(index.corpus(np.array([1]))).tolist()
    [0.0, 0.0]
    """

    def __init__(self, pieces: int) -> None:
        self._frequencies = np.zeros(pieces, np.int64)
        self._lengths, self._live = np.zeros(0, np.float32), np.zeros(0, np.bool_)
        # Of the first rows.
        self._sorted = 0
        self._posted = Postings(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(pieces + 1, np.int64))
        # The rows after them, by document; documents that are rows from the next query on.
        self._recent = _Documents.of([])
        self._waiting: list[_Documents] = []
        # Rows removed since `_frequencies` was counted.
        self._removed: list[int] = []
        # The documents and their length, until one is added or removed.
        self._totals: tuple[int, int] | None = None

    def append(self, documents: Sequence[Counts]) -> None:
        """Add documents as the next rows: the word pieces of each, and how often each occurs."""
        self._waiting.append(_Documents.of(documents))

    def _take_over(self) -> None:
        """Make rows of what was appended since the last query, all at once: a library is loaded in many parts."""
        if not self._waiting:
            return
        added, self._waiting, self._totals = _Documents.joined(self._waiting), [], None
        self._lengths = np.concatenate((self._lengths, added.lengths))
        self._live = np.concatenate((self._live, np.ones(len(added.starts) - 1, np.bool_)))
        self._frequencies += np.bincount(added.pieces, minlength=len(self._frequencies))
        self._recent = _Documents.joined((self._recent, added))
        if len(self._recent.starts) - 1 > _UNSORTED:
            self._sort()

    def _sort(self) -> None:
        """Make postings of all rows. A stable order keeps the rows of a piece in order."""
        recent, self._recent = self._recent, _Documents.of([])
        rows, counts, bounds = self._posted
        sizes = np.diff(bounds)
        pieces = np.concatenate((np.repeat(np.arange(len(sizes), dtype=np.uint16), sizes), recent.pieces))
        order = np.argsort(pieces, kind="stable")
        rows = np.concatenate((rows, recent.rows(self._sorted)))[order]
        counts = np.concatenate((counts, recent.counts))[order]
        sizes += np.bincount(recent.pieces, minlength=len(sizes))
        self._posted = Postings(rows, counts, np.concatenate(([0], np.cumsum(sizes))))
        self._sorted = len(self._lengths)

    @property
    def lengths(self) -> Floats:
        """The length of each row, in pieces."""
        self._take_over()
        return self._lengths

    def postings(self) -> tuple[Postings, Postings]:
        """Those of most rows, one object until they are sorted again, and those of the rows after them."""
        self._take_over()
        recent, pieces = self._recent, np.arange(len(self._frequencies) + 1)
        order = np.argsort(recent.pieces, kind="stable")
        bounds = np.searchsorted(recent.pieces[order], pieces)
        return self._posted, Postings(recent.rows(self._sorted)[order], recent.counts[order], bounds)

    def remove(self, row: int) -> None:
        """Leave a document out of all scores from now on."""
        self._take_over()
        self._live[row], self._totals = False, None
        self._removed.append(row)

    def _count_removed(self) -> None:
        """Take removed documents out of the frequencies: one pass over all postings, however many they are."""
        removed = np.zeros(len(self._live), np.bool_)
        removed[self._removed] = True
        self._removed = []
        pieces = np.searchsorted(self._posted.bounds, np.flatnonzero(removed[self._posted.rows]), "right") - 1
        recent = self._recent.pieces[removed[self._recent.rows(self._sorted)]]
        self._frequencies -= np.bincount(np.concatenate((pieces, recent)), minlength=len(self._frequencies))

    def corpus(self, pieces: NDArray[Any]) -> Corpus:
        """What BM25 needs of these documents for a query's word pieces."""
        self._take_over()
        if self._removed:
            self._count_removed()
        if self._totals is None:
            self._totals = int(self._live.sum()), int(self._lengths[self._live].sum(dtype=np.float64))
        wanted = np.unique(pieces).astype(np.uint16)
        return Corpus(*self._totals, wanted, self._frequencies[wanted])

    def holding(self, groups: Sequence[NDArray[Any]]) -> list[NDArray[np.int32]]:
        """The rows that hold all word pieces of each group.

        >>> index = Lexical(pieces=5)
        >>> index.append([(np.array([1, 2]), np.array([1, 3])), (np.array([2, 4]), np.array([1, 1]))])
        >>> [rows.tolist() for rows in index.holding([np.array([2]), np.array([2, 4]), np.array([1, 4])])]
        [[0, 1], [1], []]
        """
        self._take_over()
        held = [bool(len(group)) and bool(self._frequencies[group].all()) for group in groups]
        wanted = {
            piece for group, is_held in zip(groups, held, strict=True) if is_held for piece in group.tolist()
        }
        recent = np.flatnonzero(np.isin(self._recent.pieces, sorted(wanted)))
        recent = recent[np.argsort(self._recent.pieces[recent], kind="stable")]
        pieces, rows = self._recent.pieces[recent], self._recent.rows(self._sorted)[recent]
        rows_of = {}
        for piece in wanted:
            first, last = np.searchsorted(pieces, (piece, piece + 1))
            posted = self._posted.rows[self._posted.bounds[piece] : self._posted.bounds[piece + 1]]
            rows_of[piece] = np.concatenate((posted, rows[first:last]))
        found = []
        for group, is_held in zip(groups, held, strict=True):
            rarest, *others = (
                sorted((rows_of[piece] for piece in group.tolist()), key=len) if is_held else [rows[:0]]
            )
            common = rarest[self._live[rarest]]
            for other in others:  # rows ascend; `np.isin` takes a hundred times as long for some
                at = np.searchsorted(other, common)
                common = common[other[np.minimum(at, len(other) - 1)] == common]
            found.append(common)
        return found

    def scores(self, corpus: Corpus) -> Floats:
        """BM25 of each row for a query's word pieces; `corpus` is of all documents, also of those elsewhere."""
        self._take_over()
        scores = np.zeros(len(self._lengths), np.float32)
        wanted, weights, mean = Terms.of(corpus)
        if not len(wanted):
            return scores
        recent = np.flatnonzero(np.isin(self._recent.pieces, wanted))
        recent_pieces, recent_counts = self._recent.pieces[recent], self._recent.counts[recent]
        recent_rows, bounds = self._recent.rows(self._sorted)[recent], self._posted.bounds
        for piece, weight in zip(wanted.tolist(), weights, strict=True):
            posted, unposted = slice(bounds[piece], bounds[piece + 1]), recent_pieces == piece
            for rows, counts in (
                (self._posted.rows[posted], self._posted.counts[posted]),
                (recent_rows[unposted], recent_counts[unposted]),
            ):
                scores[rows] += bm25(weight, counts.astype(np.float32), self._lengths[rows], mean)
        scores[~self._live] = 0.0
        return scores
