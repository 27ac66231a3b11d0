"""BM25 over word pieces, with documents added and removed at any time.

Documents are counts of word pieces, which the store keeps with each signature. Postings are one table, sorted by
piece, made now and then; documents added since are searched from end to end; removed ones are left out of all scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.search.statistics import Floats, inverse_frequencies

# Robertson's usual constants; not tuned.
_K1, _B = 1.2, 0.75
# A word piece that most documents hold does not change their order, and has the longest postings.
_COMMON = 0.5
# Documents that may be added before the postings are sorted again: at 100,000 documents that takes half a second.
_UNSORTED = 2_048

Counts = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Corpus:
    """What BM25 needs of all documents: how many, their length in word pieces, and how many hold each of some pieces.

    Those of shards are added up.
    """

    documents: int
    length: int
    pieces: NDArray[np.uint16]
    frequencies: NDArray[np.int64]

    def __add__(self, other: "Corpus") -> "Corpus":
        return Corpus(
            self.documents + other.documents,
            self.length + other.length,
            self.pieces,
            self.frequencies + other.frequencies,
        )


class _Postings(NamedTuple):
    """Documents that hold a word piece: piece, row, and how often."""

    pieces: NDArray[np.uint16]
    rows: NDArray[np.int32]
    counts: Floats

    @classmethod
    def of(cls, documents: Sequence[Counts], first: int) -> "_Postings":
        """The postings of documents whose rows begin with `first`."""
        if not documents:
            return cls(np.zeros(0, np.uint16), np.zeros(0, np.int32), np.zeros(0, np.float32))
        sizes = [len(pieces) for pieces, _ in documents]
        rows = np.repeat(np.arange(first, first + len(sizes), dtype=np.int32), sizes)
        pieces, counts = (np.concatenate([each[part] for each in documents]) for part in (0, 1))
        return cls(pieces.astype(np.uint16), rows, counts.astype(np.float32))

    def joined(self, other: "_Postings") -> "_Postings":
        """Both."""
        return _Postings(
            np.concatenate((self.pieces, other.pieces)),
            np.concatenate((self.rows, other.rows)),
            np.concatenate((self.counts, other.counts)),
        )

    def take(self, where: Any) -> "_Postings":
        """Some of the postings."""
        return _Postings(self.pieces[where], self.rows[where], self.counts[where])


class Lexical:
    """BM25 of documents by row. The rows of removed documents stay, with the score 0.

    >>> index = Lexical(pieces=5)
    >>> index.append([(np.array([1, 2]), np.array([1, 3])), (np.array([2, 4]), np.array([1, 1]))])
    >>> [f"{score:.2f}" for score in index.scores(np.array([1, 4]))]
    ['0.61', '0.80']
    >>> index.remove(0)
    >>> index.scores(np.array([1])).tolist()
    [0.0, 0.0]
    """

    def __init__(self, pieces: int) -> None:
        self.frequencies = np.zeros(pieces, np.int64)
        self._lengths, self._live = np.zeros(0, np.float32), np.zeros(0, np.bool_)
        self._documents: list[Counts] = []
        # Rows before `_first` are in the sorted postings, the others in the recent ones.
        self._sorted, self._recent, self._first = _Postings.of([], 0), _Postings.of([], 0), 0

    def append(self, documents: Sequence[Counts]) -> None:
        """Add documents as the next rows: the word pieces of each, and how often each occurs."""
        lengths = np.array([counts.sum() for _, counts in documents], np.float32)
        self._lengths = np.concatenate((self._lengths, lengths))
        self._live = np.concatenate((self._live, np.ones(len(documents), np.bool_)))
        self._documents += documents
        added = _Postings.of(documents, len(self._documents) - len(documents))
        self.frequencies += np.bincount(added.pieces, minlength=len(self.frequencies))
        self._recent = self._recent.joined(added)
        if len(self._documents) - self._first > _UNSORTED:
            whole = _Postings.of(self._documents, 0)
            self._sorted = whole.take(np.argsort(whole.pieces, kind="stable"))
            self._recent, self._first = _Postings.of([], 0), len(self._documents)

    def remove(self, row: int) -> None:
        """Leave a document out of all scores from now on."""
        self._live[row] = False
        self.frequencies[self._documents[row][0]] -= 1

    def corpus(self, pieces: NDArray[Any]) -> Corpus:
        """What BM25 needs of these documents for a query's word pieces."""
        wanted = np.unique(pieces).astype(np.uint16)
        length = int(self._lengths[self._live].sum(dtype=np.float64))
        return Corpus(int(self._live.sum()), length, wanted, self.frequencies[wanted])

    def scores(self, pieces: NDArray[Any], corpus: Corpus | None = None) -> Floats:
        """BM25 of each row for a query's word pieces; `corpus` is of all documents, if there are others elsewhere."""
        corpus = corpus or self.corpus(pieces)
        scores = np.zeros(len(self._lengths), np.float32)
        documents, found = corpus.documents, corpus.frequencies
        used = (found > 0) & ((found <= _COMMON * documents) | (documents < 8))
        wanted = corpus.pieces[used]
        if not len(wanted):
            return scores
        weights = (_K1 + 1) * inverse_frequencies(found[used], documents)
        mean = corpus.length / documents
        starts = np.searchsorted(self._sorted.pieces, wanted)
        ends = np.searchsorted(self._sorted.pieces, wanted, side="right")
        recent = self._recent.take(np.isin(self._recent.pieces, wanted))
        for piece, weight, start, end in zip(wanted, weights, starts, ends, strict=True):
            for _, rows, counts in (
                self._sorted.take(slice(start, end)),
                recent.take(recent.pieces == piece),
            ):
                slowed = _K1 * (1 - _B + _B / mean * self._lengths[rows])
                scores[rows] += weight * counts / (counts + slowed)
        scores[~self._live] = 0.0
        return scores
