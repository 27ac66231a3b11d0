"""The index of a library: signatures and word counts of all documents in memory, kept equal to the store.

The store is the truth: before each search the index takes over what changed since, by the store's list of changes,
or reads all signatures anew. A row is never used unless its document still is the version that it was made of.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.search import scan
from attar.search.lexical import Lexical
from attar.search.records import SignatureRecord, Signer
from attar.search.signatures import query_of
from attar.search.statistics import Floats
from attar.store import Signatures, Snapshot, key_of

# How much each voice counts, in standard deviations over the documents; chosen on questions of SQuAD's training set.
SIGNATURE_WEIGHT, WORDS_WEIGHT = 1.0, 1.0
# The best documents are ranked again by their phrases, whose match counts so much; chosen on the same questions.
RERANKED, PHRASES_WEIGHT = 20, 0.8
_GROWTH = 1.5


class Hit(NamedTuple):
    """A document that search found: its name, and its score, in standard deviations above the mean document."""

    name: str
    score: float


@dataclass(frozen=True)
class SearchQuery:
    """A query as voices need it: the triangle `[numbers]` for signatures, word pieces for BM25."""

    signature: Floats
    pieces: NDArray[Any]


class SearchIndex:
    """Signatures and word counts by row; one row per document, and rows of removed documents."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self._change = -1
        self._missing: list[str] = []
        self._rows: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._changed: list[int] = []
        self._packed = np.zeros((0, self.signer.options.bytes), np.uint8)
        self._energies = np.zeros((0, 2))
        self._live = np.zeros(0, np.bool_)
        self._words = Lexical(self.signer.encoder.pieces)

    def __len__(self) -> int:
        return len(self._rows)

    def refresh(self, now: Snapshot) -> list[str]:
        """Take over what changed in the store; returns the names of documents that have no signature."""
        stored = Signatures(now)
        with self._lock:
            changed = stored.changed_since(self._change) if self._change >= 0 else None
            if changed is None or len(self._keys) > 2 * len(self._rows) + 1_024:
                self._clear()
                self._append([(key, stamp, data) for key, stamp, data in stored])
            else:
                found = [(key, stored.get(key)) for key in sorted(changed)]
                for key in changed:
                    self._remove(key)
                self._append([(key, *each) for key, each in found if each is not None])
            if self._change != stored.change or changed is None:
                self._change = stored.change
                self._missing = []
                if now.header().documents != len(self._rows):
                    entries = map(stored.entry, (set(stored.document_keys()) - self._rows.keys()))
                    self._missing = sorted(entry.name for entry in entries if entry is not None)
            return self._missing

    def add(self, found: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Add signatures that the store does not have: key, time of change and record of each document."""
        with self._lock:
            for key, _, _ in found:
                self._remove(key)
            self._append(found)
            made = {key for key, _, _ in found}
            self._missing = [name for name in self._missing if key_of(name) not in made]

    def _append(self, found: Sequence[tuple[bytes, int, bytes]]) -> None:
        records = []
        for key, stamp, data in found:
            try:
                record = SignatureRecord.from_bytes(data, self.signer.options)
            except RecordError:  # of other options or an older version: it is made again
                continue
            known = record.word_counts[0].max(initial=0) < self.signer.encoder.pieces
            if known and record.statistics == self.signer.projection.digest:
                records.append((key, stamp, record))
        if not records:
            return
        first = len(self._keys)
        self._grow(first + len(records))
        for row, (key, stamp, record) in enumerate(records, first):
            self._rows[key] = row
            self._keys.append(key)
            self._changed.append(stamp)
            self._packed[row] = np.frombuffer(record.signature, np.uint8)
            self._energies[row] = record.kept, record.whole
            self._live[row] = True
        self._words.append([record.word_counts for _, _, record in records])

    def _grow(self, rows: int) -> None:
        if rows > len(self._packed):
            room = max(rows, int(_GROWTH * len(self._packed))) - len(self._packed)
            self._packed = np.concatenate((self._packed, np.zeros((room, self._packed.shape[1]), np.uint8)))
            self._energies = np.concatenate((self._energies, np.zeros((room, 2))))
            self._live = np.concatenate((self._live, np.zeros(room, np.bool_)))

    def _remove(self, key: bytes) -> None:
        row = self._rows.pop(key, None)
        if row is not None:
            self._live[row] = False
            self._words.remove(row)

    @property
    def drift(self) -> float:
        """How much less of the documents' variance the projection keeps than of what it was fitted on, 0 to 1."""
        with self._lock:
            kept, whole = self._energies[self._live].sum(0)
        share = float(kept) / max(float(whole), 1e-30)
        return max(0.0, 1.0 - share / self.signer.projection.kept) if len(self) else 0.0

    def query(self, text: str) -> SearchQuery:
        """A query's signature and word pieces."""
        sums = self.signer.sums(text)
        return SearchQuery(query_of(sums.signature()), sums.pieces)

    def _by_signatures(self, query: Floats, live: NDArray[np.bool_], words: Floats) -> Floats:
        """Standardised scores of signatures; if the scan rounds, those of the best, with their words, are exact."""
        packed, dtype = self._packed[: len(live)], self.signer.options.dtype
        (found,), exact = scan.near_scores(packed, dtype, query[None])
        if not exact:
            near = np.where(live, words + standardised(found, live), -np.inf)
            rows = np.argpartition(-near, scan.CANDIDATES)[: scan.CANDIDATES]
            found[rows] = scan.scores(packed[rows], dtype, query[None])[0]
        return standardised(found, live)

    def rank(self, now: Snapshot, query: SearchQuery, count: int) -> list[Hit]:
        """The best documents, best first, as of the last `refresh`; those that have changed since are left out."""
        with self._lock:
            rows = len(self._keys)
            live = self._live[:rows]
            if not live.any():
                return []
            total = WORDS_WEIGHT * standardised(self._words.scores(query.pieces), live)
            if query.signature.any():
                total += SIGNATURE_WEIGHT * self._by_signatures(query.signature, live, total)
            total[~live] = -np.inf
            chosen = min(rows, count + 8)
            best = np.argpartition(-total, chosen - 1)[:chosen]
            best = best[np.argsort(-total[best], kind="stable")]
            keys = [(self._keys[row], self._changed[row], float(total[row])) for row in best if live[row]]
        stored, hits = Signatures(now), []
        for key, stamp, score in keys:
            entry = stored.entry(key)
            if entry is not None and entry.changed == stamp:
                hits.append(Hit(entry.name, score))
        return hits[:count]


def rerank(scores: Sequence[float], matches: Sequence[float]) -> list[tuple[int, float]]:
    """Places and scores, best first: the first `len(matches)` are ranked again, the others stay behind them.

    >>> rerank([3.0, 2.0, 1.0], [0.0, 2.5])
    [(1, 4.0), (0, 3.0), (2, 1.0)]
    """
    again = [(at, scores[at] + PHRASES_WEIGHT * match) for at, match in enumerate(matches)]
    again.sort(key=lambda each: -each[1])
    lowest = again[-1][1] if again else 0.0
    return again + [(at, min(scores[at], lowest)) for at in range(len(matches), len(scores))]


def standardised(scores: Floats, live: NDArray[np.bool_]) -> Floats:
    """Scores with mean 0 and standard deviation 1 over the live documents; zeros where all are equal.

    >>> standardised(np.array([1, 3, 9], np.float32), np.array([True, True, False])).tolist()
    [-1.0, 1.0, 7.0]
    """
    own = scores[live]
    deviation = float(own.std())
    if deviation < 1e-9:
        return np.zeros_like(scores)
    result: Floats = (scores - own.mean()) / np.float32(deviation)
    return result
