"""The index of a library: signatures and word counts of all documents in memory, kept equal to the store.

The store is the truth: before each search the index takes over what changed since, by the store's list of changes,
or reads all signatures anew. A row is never used unless its document still is the version that it was made of.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.search import scan
from attar.search.lexical import Corpus, Lexical
from attar.search.moments import Moments
from attar.search.records import SignatureRecord, Signer
from attar.search.signatures import query_of
from attar.search.statistics import Floats
from attar.store import Signatures, Snapshot, key_of

# How much each voice counts, in standard deviations over the documents; chosen on questions of SQuAD's training set.
SIGNATURE_WEIGHT, WORDS_WEIGHT = 1.0, 1.0
# The best documents are ranked again by their phrases, whose match has this weight; chosen on the same questions.
RERANKED, PHRASES_WEIGHT = 20, 0.8
_GROWTH = 1.5
# Documents that are read from the store at a time.
_LOADED = 4_096
# Bytes of scores that are kept for the next round of a query.
_KEPT = 2**26


class Ranked(NamedTuple):
    """A document that search found: its score, in standard deviations above the mean document, its key and name."""

    score: float
    key: bytes
    name: str


@dataclass(frozen=True, eq=False)
class SearchQuery:
    """A query as voices need it: the triangle `[numbers]` for signatures, word pieces for BM25, and the text."""

    signature: Floats
    pieces: NDArray[Any]
    text: str
    # Of the statistics that the signature was made with.
    digest: bytes


@dataclass(frozen=True)
class Common:
    """What is known of all documents after each round of a query: frequencies, then moments of scores.

    `near` are moments of rounded scores, of exact ones after `least`, if the scan rounds: documents whose rounded score
    is at least `least` are compared exactly.
    """

    corpus: Corpus
    words: Moments | None = None
    near: Moments | None = None
    least: float | None = None
    exact: Moments | None = None

    @property
    def is_rounded(self) -> bool:
        """Whether the first scan rounds, as it does for many documents."""
        return scan.is_rounded(self.corpus.documents)


class _Voices(NamedTuple):
    """The scores of all rows, by words and by signatures, which rows are live, and the version of the index."""

    version: int
    words: Floats
    signatures: Floats
    live: NDArray[np.bool_]


class SearchIndex:
    """Signatures and word counts by row; one row per document, and rows of removed documents."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self._lock = threading.RLock()
        self._version = 0
        self._voices: OrderedDict[tuple[Any, ...], _Voices] = OrderedDict()
        self._clear()

    def _clear(self) -> None:
        self._change = -1
        self._version += 1
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
                # Some at a time: all records of a million documents would take more memory than the index.
                self._grow(now.header().documents)
                found_all = iter(stored)
                while some := list(islice(found_all, _LOADED)):
                    self._append(some, more=True)
                self._words.append([])
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

    def _append(self, found: Sequence[tuple[bytes, int, bytes]], more: bool = False) -> None:
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
        self._version += 1
        first = len(self._keys)
        self._grow(first + len(records))
        for row, (key, stamp, record) in enumerate(records, first):
            self._rows[key] = row
            self._keys.append(key)
            self._changed.append(stamp)
            self._packed[row] = np.frombuffer(record.signature, np.uint8)
            self._energies[row] = record.kept, record.whole
            self._live[row] = True
        self._words.append([record.word_counts for _, _, record in records], more=more)

    def _grow(self, rows: int) -> None:
        if rows > len(self._packed):
            room = max(rows, int(_GROWTH * len(self._packed))) - len(self._packed)
            self._packed = np.concatenate((self._packed, np.zeros((room, self._packed.shape[1]), np.uint8)))
            self._energies = np.concatenate((self._energies, np.zeros((room, 2))))
            self._live = np.concatenate((self._live, np.zeros(room, np.bool_)))

    def _remove(self, key: bytes) -> None:
        row = self._rows.pop(key, None)
        if row is not None:
            self._version += 1
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
        return SearchQuery(query_of(sums.signature()), sums.pieces, text, self.signer.projection.digest)

    # The rounds of a query, each with what the rounds before found of all documents, in all shards.

    def corpus(self, query: SearchQuery) -> Corpus:
        """The frequencies of a query's words."""
        with self._lock:
            return self._words.corpus(query.pieces)

    def moments(self, query: SearchQuery, common: Common) -> tuple[Moments, Moments]:
        """The moments of the scores by words, and of those by signatures."""
        found = self._scores(query, common)
        return Moments.of(found.words[found.live]), Moments.of(found.signatures[found.live])

    def nearest(self, query: SearchQuery, common: Common) -> Floats:
        """The highest rounded scores, to find out which documents are compared exactly."""
        found = self._scores(query, common)
        near = _total(found, common, common.near)[found.live]
        if not len(near):
            return near
        best: Floats = -np.partition(-near, min(scan.CANDIDATES, len(near)) - 1)[: scan.CANDIDATES]
        return best

    def exact(self, query: SearchQuery, common: Common) -> Moments:
        """The moments of the scores by signatures, of which those of the best documents are exact."""
        found = self._compared(query, common)
        return Moments.of(found.signatures[found.live])

    def best(self, now: Snapshot, query: SearchQuery, common: Common, count: int) -> list[Ranked]:
        """The best documents, best first, as of the last `refresh`; those that have changed since are left out.

        Of documents with the same score, the first by key are taken.
        """
        found = self._compared(query, common)
        total = _total(found, common, common.exact or common.near)
        rows = np.flatnonzero(found.live)
        chosen = min(len(rows), count + 8)
        if not chosen:
            return []
        own = total[rows]
        least = -np.partition(-own, chosen - 1)[chosen - 1]
        above, equal = rows[own > least], rows[own == least]
        with self._lock:
            keys, changed = self._keys, self._changed
            ties = nsmallest(chosen - len(above), equal.tolist(), key=keys.__getitem__)
            order = sorted([*above.tolist(), *ties], key=lambda row: (-total[row], keys[row]))
            best = [(keys[row], changed[row], float(total[row])) for row in order]
        stored, hits = Signatures(now), []
        for key, stamp, score in best:
            entry = stored.entry(key)
            if entry is not None and entry.changed == stamp:
                hits.append(Ranked(score, key, entry.name))
        return hits[:count]

    def _scores(self, query: SearchQuery, common: Common) -> _Voices:
        """The scores of all rows; those of the last queries are kept for their next round."""
        corpus = common.corpus
        name = (query.text, corpus.documents, corpus.length, corpus.frequencies.tobytes())
        with self._lock:
            kept = self._voices.get(name)
            if kept is not None and kept.version == self._version:
                self._voices.move_to_end(name)
                return kept
            live = self._live[: len(self._keys)].copy()
            words = self._words.scores(query.pieces, corpus)
            packed, dtype = self._packed[: len(live)], self.signer.options.dtype
            signatures = np.zeros(len(live), np.float32)
            if query.signature.any():
                (signatures,) = scan.near_scores(packed, dtype, query.signature[None], common.is_rounded)
            found = self._voices[name] = _Voices(self._version, words, signatures, live)
            while len(self._voices) > max(1, _KEPT // (9 * len(live) + 1)):
                self._voices.popitem(last=False)
            return found

    def _compared(self, query: SearchQuery, common: Common) -> _Voices:
        """The scores of all rows; if the scan rounds, those of the best are exact."""
        with self._lock:
            found = self._scores(query, common)
            if common.least is None:
                return found
            near = _total(found, common, common.near)
            rows = np.flatnonzero(found.live & (near >= common.least))
            signatures = found.signatures.copy()
            packed, dtype = self._packed, self.signer.options.dtype
            signatures[rows] = scan.scores(packed[rows], dtype, query.signature[None])[0]
            return found._replace(signatures=signatures)


def _total(found: _Voices, common: Common, near: Moments | None) -> Floats:
    """The mix of both voices."""
    assert common.words is not None
    assert near is not None
    words: Floats = WORDS_WEIGHT * common.words.standardised(found.words)
    return words + SIGNATURE_WEIGHT * near.standardised(found.signatures)


def rerank(scores: Sequence[float], matches: Sequence[float]) -> list[tuple[int, float]]:
    """Places and scores, best first: the first `len(matches)` are ranked again, the others stay behind them.

    >>> rerank([3.0, 2.0, 1.0], [0.0, 2.5])
    [(1, 4.0), (0, 3.0), (2, 1.0)]
    """
    again = [(at, scores[at] + PHRASES_WEIGHT * match) for at, match in enumerate(matches)]
    again.sort(key=lambda each: -each[1])
    lowest = again[-1][1] if again else 0.0
    return again + [(at, min(scores[at], lowest)) for at in range(len(matches), len(scores))]
