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
from attar.store import Signatures, Snapshot

# How much each voice counts, in standard deviations over the documents; chosen on questions of SQuAD's training set.
SIGNATURE_WEIGHT, WORDS_WEIGHT = 1.0, 1.0
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
            self._change = stored.change
            if now.header().documents == len(self._rows):
                return []
            missing = [stored.entry(key) for key in stored.document_keys() if key not in self._rows]
            return [entry.name for entry in missing if entry is not None]

    def add(self, found: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Add signatures that the store does not have: key, time of change and record of each document."""
        with self._lock:
            for key, _, _ in found:
                self._remove(key)
            self._append(found)

    def _append(self, found: Sequence[tuple[bytes, int, bytes]]) -> None:
        records = []
        for key, stamp, data in found:
            try:
                record = SignatureRecord.from_bytes(data, self.signer.options)
            except RecordError:  # of other options or an older version: it is made again
                continue
            if record.statistics == self.signer.projection.digest:
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

    def rank(self, now: Snapshot, query: SearchQuery, count: int) -> list[Hit]:
        """The best documents, best first, as of the last `refresh`; those that have changed since are left out."""
        with self._lock:
            rows = len(self._keys)
            live = self._live[:rows]
            if not live.any():
                return []
            total = np.zeros(rows, np.float32)
            if query.signature.any():
                found = scan.scores(self._packed[:rows], self.signer.options.dtype, query.signature[None])[0]
                total += SIGNATURE_WEIGHT * standardised(found, live)
            total += WORDS_WEIGHT * standardised(self._words.scores(query.pieces), live)
            total[~live] = -np.inf
            best = np.argsort(-total, kind="stable")[: count + 8]
            keys = [(self._keys[row], self._changed[row], float(total[row])) for row in best if live[row]]
        stored, hits = Signatures(now), []
        for key, stamp, score in keys:
            entry = stored.entry(key)
            if entry is not None and entry.changed == stamp:
                hits.append(Hit(entry.name, score))
        return hits[:count]


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
