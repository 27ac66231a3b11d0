"""The index of a library: signatures and word counts of all documents in memory, kept equal to the store.

The store is the truth: before each search the index takes over what changed since, by the store's list of changes,
or reads all signatures again. A row is never used unless its document still is the version that it was made of.

Up to some 100,000 documents, a query is compared with the signatures of all. Above, with those in the nearest of
`InvertedLists`, with those whose words fit best, and with those added since the lists were made.
"""

import contextlib
import ctypes
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.search import scan
from attar.search.lexical import Corpus, Lexical
from attar.search.lists import ListKeeper
from attar.search.moments import Moments
from attar.search.ranking import Common, Compared, Ranked, SearchQuery, total
from attar.search.records import SignatureRecord, Signer
from attar.search.signatures import query_of
from attar.search.state_map import Floats
from attar.store.records import key_of
from attar.store.signatures import Signatures
from attar.store.transactions import Snapshot

_GROWTH = 1.5
# Documents that are read from the store at a time.
_LOADED = 4_096
# Bytes of scores that are kept for the next round of a query, and of each row that was compared.
_KEPT, _ROW = 2**27, 8
# Documents from which on inverted lists pay (docs/search.md).
LISTS_FROM = 200_000
# With lists: documents that are compared because their words fit, and those that moments are of.
_BY_WORDS, _SAMPLE = 1_000, 4_096


class SearchIndex:
    """Signatures and word counts by row; one row per document, and rows of removed documents.

    `lists_from` is the number of documents from which on not all are compared (0: always all).
    """

    def __init__(self, signer: Signer, lists_from: int = LISTS_FROM) -> None:
        self.signer = signer
        # Only signs are clustered.
        self._lists_from = lists_from if signer.options.dtype == "1-bit" else 0
        self._lists = ListKeeper()
        self._asked = 0
        self._lock = threading.RLock()
        self._version = 0
        self._recent: OrderedDict[tuple[Any, ...], Compared] = OrderedDict()
        # Queries that were compared together last: their scores are kept in any case.
        self._together = 1
        self._clear()

    def _clear(self) -> None:
        self._change = -1
        self._version += 1
        self._lists.clear()
        self._missing: list[str] = []
        self._rows: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._changed = np.zeros(0, np.int64)
        self._packed = np.zeros((0, self.signer.options.bytes), np.uint8)
        self._energies = np.zeros((0, 2))
        self._live = np.zeros(0, np.bool_)
        self._all_rows = -1, np.zeros(0, np.intp)
        self._words = Lexical(self.signer.encoder.pieces)

    def __len__(self) -> int:
        return len(self._rows)

    def refresh(self, now: Snapshot) -> list[str]:
        """Take over what changed in the store; returns the names of documents that have no signature."""
        stored = now.signatures
        with self._lock:
            changed = stored.changed_since(self._change) if self._change >= 0 else None
            if changed is None or len(self._keys) > 2 * len(self._rows) + 1_024:
                self._clear()
                # Some at a time: all records of a million documents would take more memory than the index.
                self._grow(now.header.documents)
                found_all = iter(stored)
                while some := list(islice(found_all, _LOADED)):
                    self._append(_of_now(stored, some), more=True)
                self._words.append([])
                _return_memory()
            else:
                found = [(key, stored.get(key)) for key in sorted(changed)]
                for key in changed:
                    self._remove(key)
                self._append(_of_now(stored, [each for _, each in found if each is not None]))
            if self._change != stored.change or changed is None:
                self._change = stored.change
                self._missing = []
                # Numbers alone do not tell after an earlier version has written, which knows no signatures.
                if changed is None or now.header.documents != len(self._rows):
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
        read = []
        for key, stamp, data in found:
            try:
                record = SignatureRecord.from_bytes(data, self.signer.options)
            except RecordError:  # of other options or an older version: it is made again
                continue
            pieces, counts = record.word_counts
            if self._is_of_now(record, pieces):
                read.append((key, stamp, record, (pieces, counts)))
        if not read:
            return
        keys, stamps, records, words = zip(*read, strict=True)
        self._version += 1
        first, last = len(self._keys), len(self._keys) + len(read)
        self._grow(last)
        self._rows |= zip(keys, range(first, last), strict=True)
        self._keys += keys
        self._changed[first:last] = stamps
        joined = b"".join(record.signature for record in records)
        self._packed[first:last] = np.frombuffer(joined, np.uint8).reshape(len(read), -1)
        self._energies[first:last] = [(record.kept, record.whole) for record in records]
        self._live[first:last] = True
        self._words.append(words, more=more)

    def _is_of_now(self, record: SignatureRecord, pieces: NDArray[np.uint16]) -> bool:
        """Whether a record was made with these statistics, and has word pieces that the encoder knows."""
        known = not len(pieces) or pieces.max() < self.signer.encoder.pieces
        return bool(known) and record.statistics == self.signer.projection.digest

    def _grow(self, rows: int) -> None:
        if rows > len(self._packed):
            room = max(rows, int(_GROWTH * len(self._packed))) - len(self._packed)
            self._packed = np.concatenate((self._packed, np.zeros((room, self._packed.shape[1]), np.uint8)))
            self._changed = np.concatenate((self._changed, np.zeros(room, np.int64)))
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

    def wait_for_lists(self) -> None:
        """Wait until no lists are being made; queries do not."""
        self._lists.wait()

    def query(self, text: str) -> SearchQuery:
        """A query's signature and word pieces."""
        sums = self.signer.query(text)
        return SearchQuery(query_of(sums.signature()), sums.pieces, text, self.signer.projection.digest)

    # The rounds of a query, each with what the rounds before found of all documents, in all shards.

    def corpus(self, query: SearchQuery) -> Corpus:
        """The frequencies of a query's words."""
        with self._lock:
            self._asked += 1
            # Not for a process that asks once, as a command does.
            if self._asked > 1 and 0 < self._lists_from <= len(self):
                self._lists.keep(self._packed[: len(self._keys)])
            return self._words.corpus(query.pieces)

    def moments(self, query: SearchQuery, common: Common) -> tuple[Moments, Moments]:
        """The moments of the scores by words, and of those by signatures."""
        return self._scores(query, common).moments

    def nearest(self, query: SearchQuery, common: Common) -> Floats:
        """The highest rounded scores, to find out which documents are compared exactly."""
        near = total(self._scores(query, common), common, common.near)
        if not len(near):
            return near
        best: Floats = -np.partition(-near, min(scan.CANDIDATES, len(near)) - 1)[: scan.CANDIDATES]
        return best

    def exact(self, query: SearchQuery, common: Common) -> Moments:
        """The moments of the scores by signatures, of which those of the best documents are exact."""
        found = self._compared(query, common)
        return found.moments[1] if found.sampled else Moments.of(found.signatures)

    def best(self, now: Snapshot, query: SearchQuery, common: Common, count: int) -> list[Ranked]:
        """The best documents, best first, as of the last `refresh`; those that have changed since are left out.

        Of documents with the same score, the first by key are taken.
        """
        found = self._compared(query, common)
        mixed = total(found, common, common.exact or common.near)
        chosen = min(len(mixed), count + 8)
        if not chosen:
            return []
        least = -np.partition(-mixed, chosen - 1)[chosen - 1]
        above, equal = np.flatnonzero(mixed > least), np.flatnonzero(mixed == least)
        with self._lock:
            keys, changed = self._keys, self._changed
            at_least = [(keys[found.rows[at]], at) for at in equal.tolist()]
            ties = [at for _, at in nsmallest(chosen - len(above), at_least)]
            order = sorted([*above.tolist(), *ties], key=lambda at: (-mixed[at], keys[found.rows[at]]))
            best = [(keys[found.rows[at]], changed[found.rows[at]], float(mixed[at])) for at in order]
        stored, hits = now.signatures, []
        for key, stamp, score in best:
            entry = stored.entry(key)
            if entry is not None and entry.changed == stamp:
                hits.append(Ranked(score, key, entry.name))
        return hits[:count]

    def scan(self, asked: Sequence[tuple[SearchQuery, Common]]) -> None:
        """Compare several queries with the signatures together, before the first round that needs their scores.

        The scores are bit for bit those of one query after the other: of 1-bit signatures, which alone are compared
        together, they are sums of whole numbers. But the signatures are read once, and not once per query.
        """
        with self._lock:
            self._together = len(asked)
            new = [each for each in asked if self._kept(*each) is None]
            words = [self._words.scores(query.pieces, common.corpus) for query, common in new]
            near = [self._near(query, own) for (query, _), own in zip(new, words, strict=True)]
            together = [
                at
                for at, (query, _) in enumerate(new)
                if near[at] is None and query.signature.any() and self.signer.options.dtype == "1-bit"
            ]
            found: dict[int, Floats] = {}
            for rounded in {new[at][1].is_rounded for at in together}:
                own = [at for at in together if new[at][1].is_rounded == rounded]
                queries = np.stack([new[at][0].signature for at in own])
                scores = scan.near_scores(self._packed, "1-bit", queries, rounded, self._live_rows())
                found |= zip(own, scores, strict=True)
            for at, (query, common) in enumerate(new):
                self._keep(query, common, words[at], near[at], found.get(at))

    def _scores(self, query: SearchQuery, common: Common) -> Compared:
        """The scores of the rows that are compared; those of the last queries are kept for their next round."""
        with self._lock:
            kept = self._kept(query, common)
            if kept is not None:
                return kept
            words = self._words.scores(query.pieces, common.corpus)
            return self._keep(query, common, words, self._near(query, words))

    def _kept(self, query: SearchQuery, common: Common) -> Compared | None:
        name = _name_of(query, common)
        kept = self._recent.get(name)
        if kept is None or kept.version != self._version:
            return None
        self._recent.move_to_end(name)
        return kept

    def _keep(
        self,
        query: SearchQuery,
        common: Common,
        words: Floats,
        near: NDArray[np.intp] | None,
        signatures: Floats | None = None,
    ) -> Compared:
        """Keep the scores by words of all rows, and those by signatures of the rows that are near, or of all."""
        # Those of removed documents, and of most others, are 0.
        of_words = replace(Moments.of(words[words > 0]), count=len(self))
        rows = self._live_rows() if near is None else near
        if signatures is None:
            signatures = self._by_signatures(query, common, rows)
        moments = of_words, Moments.of(signatures) if near is None else self._sampled(query, common)
        found = Compared(self._version, rows, words[rows], signatures, moments, near is not None)
        self._recent[_name_of(query, common)] = found
        while len(self._recent) > max(self._together, _KEPT // (_ROW * len(rows) + 1)):
            self._recent.popitem(last=False)
        return found

    def _live_rows(self) -> NDArray[np.intp]:
        """The rows of all documents; one array for all queries until something changes."""
        version, rows = self._all_rows
        if version != self._version:
            rows = np.flatnonzero(self._live[: len(self._keys)])
            self._all_rows = self._version, rows
        return rows

    def _by_signatures(self, query: SearchQuery, common: Common, rows: NDArray[np.intp]) -> Floats:
        """The scores of rows by their signatures; rounded if there are many documents."""
        if not query.signature.any():
            return np.zeros(len(rows), np.float32)
        packed, dtype = self._packed, self.signer.options.dtype
        found = scan.near_scores(packed, dtype, query.signature[None], common.is_rounded, rows)
        return found.reshape(-1)

    def _near(self, query: SearchQuery, words: Floats) -> NDArray[np.intp] | None:
        """The rows that are worth comparing with a query, given the scores by words; None: all."""
        lists = self._lists.lists
        if lists is None or len(self) < self._lists_from or not query.signature.any():
            return None
        wanted = np.zeros(len(words), np.bool_)
        wanted[lists.near(query.signature)] = True
        wanted[len(lists) :] = True
        fitting = np.flatnonzero(words > 0)
        if len(fitting) > _BY_WORDS:
            fitting = fitting[np.argpartition(words[fitting], -_BY_WORDS)[-_BY_WORDS:]]
        wanted[fitting] = True
        rows = np.flatnonzero(wanted & self._live[: len(words)])
        # Perhaps most documents of these lists were removed.
        return rows if len(rows) >= scan.CANDIDATES else None

    def _sampled(self, query: SearchQuery, common: Common) -> Moments:
        """About the moments that the scores by signatures of all documents have."""
        rows = self._live_rows()
        rows = rows[:: max(1, len(rows) // _SAMPLE)]
        own = Moments.of(self._by_signatures(query, common, rows))
        times = max(1, round(len(self) / len(rows)))
        return Moments(times * own.count, times * own.total, times * own.squares)

    def _compared(self, query: SearchQuery, common: Common) -> Compared:
        """The scores of the rows that are compared; if the scan rounds, those of the best are exact."""
        with self._lock:
            found = self._scores(query, common)
            if common.least is None:
                return found
            again = np.flatnonzero(total(found, common, common.near) >= common.least)
            signatures = found.signatures.copy()
            packed, dtype = self._packed, self.signer.options.dtype
            signatures[again] = scan.scores(packed, dtype, query.signature[None], found.rows[again])[0]
            return found._replace(signatures=signatures)


def _name_of(query: SearchQuery, common: Common) -> tuple[Any, ...]:
    corpus = common.corpus
    return query.text, corpus.documents, corpus.length, corpus.frequencies.tobytes()


def _of_now(stored: Signatures, found: Sequence[tuple[bytes, int, bytes]]) -> list[tuple[bytes, int, bytes]]:
    """Those of the documents as they are now: an earlier version of this package changes documents only."""
    entries = ((each, stored.entry(each[0])) for each in found)
    return [each for each, entry in entries if entry is not None and entry.changed == each[1]]


def _return_memory() -> None:
    """Give freed memory back to the system: glibc keeps what the records of many documents have taken."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
