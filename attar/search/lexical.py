"""BM25 over word pieces, of documents that are added and removed at any time.

Word counts are those that the store keeps with each signature. Postings are two tables, sorted by piece: a large one,
made now and then, and one of the documents added since; removed documents are left out of all scores.
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
    """By piece, from `bounds[piece]` on, the rows that hold it, in order, and how often each does."""

    rows: NDArray[np.int32]
    counts: NDArray[Any]
    bounds: NDArray[np.int64]

    @classmethod
    def empty(cls, pieces: int) -> "Postings":
        return cls(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(pieces + 1, np.int64))

    def of(self, piece: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """The rows that hold a piece, and how often each does."""
        posted = slice(self.bounds[piece], self.bounds[piece + 1])
        return self.rows[posted], self.counts[posted]

    @property
    def pieces(self) -> NDArray[np.uint16]:
        """The piece of each entry."""
        return np.repeat(np.arange(len(self.bounds) - 1, dtype=np.uint16), np.diff(self.bounds))

    def followed_by(
        self, pieces: NDArray[np.uint16], rows: NDArray[np.int32], counts: NDArray[Any]
    ) -> "Postings":
        """With those of later rows. A stable order keeps the rows of a piece in order."""
        order = np.argsort(np.concatenate((self.pieces, pieces)), kind="stable")
        added = np.append(0, np.cumsum(np.bincount(pieces, minlength=len(self.bounds) - 1)))
        joined = np.concatenate((self.rows, rows)), np.concatenate((self.counts, counts))
        return Postings(joined[0][order], joined[1][order], self.bounds + added)


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
        # Of the first rows, and of the rows after them, which are few: what is added is sorted with these alone.
        self._posted = self._recent = Postings.empty(pieces)
        self._sorted = 0
        # How many pieces each document has that is a row from the next query on; the pieces, and their counts.
        self._waiting: list[tuple[list[int], NDArray[np.uint16], NDArray[Any]]] = []
        # Rows removed since `_frequencies` was counted.
        self._removed: list[int] = []
        # The documents and their length, until one is added or removed.
        self._totals: tuple[int, int] | None = None

    def append(self, documents: Sequence[Counts]) -> None:
        """Add documents as the next rows: the word pieces of each, and how often each occurs."""
        if documents:
            pieces, counts = (np.concatenate(part) for part in zip(*documents, strict=True))
            # A byte for each count where that is enough.
            counts = counts.astype(np.uint8 if counts.max(initial=0) < 256 else np.uint32)
            self._waiting.append(([len(own) for own, _ in documents], pieces.astype(np.uint16), counts))

    def _take_over(self) -> None:
        """Make rows of what was appended since the last query, all at once: a library is loaded in many parts."""
        if not self._waiting:
            return
        sizes = np.concatenate([part[0] for part in self._waiting]).astype(np.int64)
        pieces, counts = (np.concatenate([part[at] for part in self._waiting]) for at in (1, 2))
        self._waiting, self._totals = [], None
        first = len(self._lengths)
        rows = np.repeat(np.arange(first, first + len(sizes), dtype=np.int32), sizes)
        lengths = np.bincount(rows - first, counts, minlength=len(sizes)).astype(np.float32)
        self._lengths = np.concatenate((self._lengths, lengths))
        self._live = np.concatenate((self._live, np.ones(len(sizes), np.bool_)))
        self._frequencies += np.bincount(pieces, minlength=len(self._frequencies))
        if len(self._lengths) - self._sorted <= _UNSORTED:
            self._recent = self._recent.followed_by(pieces, rows, counts)
            return
        before, self._recent = self._recent, Postings.empty(len(self._frequencies))
        self._posted = self._posted.followed_by(
            np.concatenate((before.pieces, pieces)),
            np.concatenate((before.rows, rows)),
            np.concatenate((before.counts, counts)),
        )
        self._sorted = len(self._lengths)

    @property
    def lengths(self) -> Floats:
        """The length of each row, in pieces."""
        self._take_over()
        return self._lengths

    def postings(self) -> tuple[Postings, Postings]:
        """Those of most rows, one object until they are sorted again, and those of the rows after them."""
        self._take_over()
        return self._posted, self._recent

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
        for posted in self.postings():
            pieces = np.searchsorted(posted.bounds, np.flatnonzero(removed[posted.rows]), "right") - 1
            self._frequencies -= np.bincount(pieces, minlength=len(self._frequencies))

    def corpus(self, pieces: NDArray[Any]) -> Corpus:
        """What BM25 needs of these documents for a query's word pieces."""
        self._take_over()
        if self._removed:
            self._count_removed()
        if self._totals is None:
            self._totals = int(self._live.sum()), int(self._lengths[self._live].sum(dtype=np.float64))
        # np.unique would import numpy.ma, which takes 7 ms, here and wherever a question passes.
        wanted = np.flatnonzero(np.bincount(pieces)).astype(np.uint16)
        return Corpus(*self._totals, wanted, self._frequencies[wanted])

    def holding(self, groups: Sequence[NDArray[Any]]) -> list[NDArray[np.int32]]:
        """The rows that hold all word pieces of each group.

        >>> index = Lexical(pieces=5)
        >>> index.append([(np.array([1, 2]), np.array([1, 3])), (np.array([2, 4]), np.array([1, 1]))])
        >>> [rows.tolist() for rows in index.holding([np.array([2]), np.array([2, 4]), np.array([1, 4])])]
        [[0, 1], [1], []]
        """
        postings, found = self.postings(), []
        for group in groups:
            held = bool(len(group)) and bool(self._frequencies[group].all())
            # Those of the rarest piece first, which are the fewest.
            rows_of = [
                np.concatenate([posted.of(piece)[0] for posted in postings])
                for piece in (sorted(group.tolist(), key=self._frequencies.__getitem__) if held else ())
            ]
            common = rows_of[0][self._live[rows_of[0]]] if held else np.zeros(0, np.int32)
            for other in rows_of[1:]:  # rows ascend; `np.isin` takes a hundred times as long for some
                at = np.searchsorted(other, common)
                common = common[other[np.minimum(at, len(other) - 1)] == common]
            found.append(common)
        return found

    def scores(self, corpus: Corpus) -> Floats:
        """BM25 of each row for a query's word pieces; `corpus` is of all documents, also of those elsewhere."""
        postings, scores = self.postings(), np.zeros(len(self._lengths), np.float32)
        wanted, weights, mean = Terms.of(corpus)
        for piece, weight in zip(wanted.tolist(), weights, strict=True):
            for posted in postings:
                rows, counts = posted.of(piece)
                scores[rows] += bm25(weight, counts.astype(np.float32), self._lengths[rows], mean)
        scores[~self._live] = 0.0
        return scores
