"""Searching a library: signatures are written with their documents, made from texts where they are missing."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from attar.errors import FormatError, OptionError, RecordError, UnknownDocumentError
from attar.library.documents import MemoryCache, SubsetCache
from attar.library.drafts import Encoded
from attar.library.shard import OpenedShard, RecentScores
from attar.progress import Progress, check_stopped, ignore_progress
from attar.search.index import SearchIndex
from attar.search.signatures import LONG_DOCUMENT, Collector, SignatureRecord, Signer
from attar.search.statistics import Projection, Statistics, default_statistics
from attar.store.records import Record, key_of
from attar.store.store import Store
from attar.store.transactions import Snapshot, StampedSignature, Transaction

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# Documents whose missing signatures are made and written together.
_BATCH = 64


def make_signer(stored: bytes | None, reader: "Reader") -> Signer | None:
    """Makes signatures with the statistics of a store, or else the reader's own; None without any that fit."""
    if stored is not None:
        statistics: Statistics | None = Statistics.from_bytes(stored)
    else:
        statistics = default_statistics(reader.fingerprint, reader.folder)
    encoder = reader.options.encoder
    if statistics is None or not statistics.fit_states(encoder.size, encoder.vocabulary):
        return None
    return Signer.of(reader, statistics)


class Searching:
    """The signatures and the index of a library; the reader is loaded only if there is something to read."""

    def __init__(self, store: Store, reader_of: "Callable[[str | None], Reader]") -> None:
        self._store, self._reader_of = store, reader_of
        self._lock = threading.Lock()
        self._signer: Signer | None = None
        # The digest of the statistics in the store when the signer was made.
        self._known: bytes | None = None
        self._index: SearchIndex | None = None
        # What is kept with the index.
        self._recent: RecentScores
        self._subsets: SubsetCache
        # Documents that cannot be found: they have neither a signature nor a text.
        self.left_out: list[str] = []
        # Searches do not wait for signatures that are missing: `make` makes them.
        self.deferred = False
        # The documents that are found by words until then.
        self._by_words: set[str] = set()

    @contextmanager
    def opened(self, cache: MemoryCache, progress: Progress) -> Iterator[OpenedShard]:
        """One state of the library, and the index as of it; missing signatures are made from texts first."""
        with self._store.snapshot() as now:
            index, missing = self._refreshed(now)
            if self.deferred or missing in ([], self.left_out):
                self.left_out = self.left_out if self.deferred else missing
                yield self._shard(now, index, cache)
                return
        self.make(progress)
        with self._store.snapshot() as now:
            index, _ = self._refreshed(now)
            yield self._shard(now, index, cache)

    def make(self, progress: Progress = ignore_progress) -> int:
        """Make the signatures that are missing from texts; returns how many documents have one."""
        with self._store.snapshot() as now:
            index, missing = self._refreshed(now)
        names = [*(name for name in missing if name not in self.left_out), *self._by_words]
        if self.deferred:
            # Several processes of a server share the work: each begins with other documents.
            random.shuffle(names)
            self._rank_by_words(names, index)
        left_out = self._make(names, index, progress)
        index.rank_by_words(bool(self._by_words))
        self.left_out = sorted({*left_out, *(name for name in self.left_out if name in missing)})
        return len(index)

    def _shard(self, now: Snapshot, index: SearchIndex, cache: MemoryCache) -> OpenedShard:
        return OpenedShard(now, index, cache, self._recent, self._subsets)

    def _refreshed(self, now: Snapshot) -> tuple[SearchIndex, list[str]]:
        """The index as of a snapshot, and the names of documents without a signature."""
        signer = self._signer_in(now, self._reader_of(now.header.reader))
        if signer is None:
            remedy = "fit them to its documents: attar store refit STORE"
            raise OptionError("this library's reader has no statistics for search", remedy)
        with self._lock:
            if self._index is None or self._index.signer is not signer:
                self._index, self._recent, self._subsets = SearchIndex(signer), RecentScores(), SubsetCache()
            index = self._index
        return index, index.refresh(now)

    def projection(self, reader: "Reader") -> Projection | None:
        """What signatures are made with; None without statistics."""
        signer = self.signer(reader)
        return None if signer is None else signer.projection

    def signer(self, reader: "Reader") -> Signer | None:
        """Makes signatures with the store's statistics, or the reader's own; None if there are none."""
        with self._store.snapshot() as now:
            return self._signer_in(now, reader)

    def _signer_in(self, now: Snapshot, reader: "Reader") -> Signer | None:
        try:
            stored = now.statistics_digest
            with self._lock:
                if self._signer is None or self._signer.reader is not reader or stored != self._known:
                    self._signer = make_signer(now.statistics, reader)
                    self._known = stored
                return self._signer
        except FormatError as fault:
            remedy = "fit them again: attar store refit STORE"
            raise OptionError("the library's statistics for search are damaged", remedy) from fault

    def record(self, changes: Transaction, encoded: Encoded, *, text_kept: bool) -> bytes | None:
        """Signature bytes for this transaction; also writes the statistics if the store has none."""
        signer, sums = self._signer, encoded.sums
        if sums is None or signer is None or encoded.statistics != signer.projection.digest:
            return None
        # If others have fitted new statistics, the signature is made from the text when it is needed.
        return signer.record(sums, text_kept=text_kept) if _agree(changes, signer) else None

    def extend(self, reader: "Reader", before: Record, text: str, progress: Progress) -> Encoded:
        """A document continued: the memory of both texts, and their sums.

        The last window is read again with what follows, so its sums are subtracted first: the result is exact.
        """
        memory = before.memory
        signer = self.signer(reader)
        if signer is None:
            return Encoded(reader.extend(memory, text, progress=progress), None, b"")
        collector = Collector(signer.projection)
        longer = signer.reader.extend(memory, text, progress=progress, on_states=collector)
        kept, sums = _kept_signature(before, signer), None
        # The signature of a forged record is made from the text when it is needed.
        with suppress(RecordError):
            earlier = None if kept is None else kept.sums()
            # Not of a long one: to read it for one more sentence would take minutes; `opened` does it when needed.
            if earlier is None and before.text is not None and memory.tokens <= LONG_DOCUMENT:
                earlier = signer.sums(before.text)
            if earlier is not None:
                sums = earlier - signer.sums(memory.phrases.tail) + collector.of()
        return Encoded(longer, sums, signer.projection.digest)

    def _texts(self, names: Sequence[str]) -> Iterator[tuple[Record, str | None]]:
        """Yield documents and their texts; not those that were removed meanwhile, or are damaged."""
        for name in names:
            check_stopped()
            with suppress(UnknownDocumentError, RecordError):
                record = self._store.get(name)
                yield record, record.text

    def _rank_by_words(self, names: Sequence[str], index: SearchIndex) -> None:
        """Let documents be found by their words, which takes a hundredth of the time of a signature."""
        signer = index.signer
        for first in range(0, len(names), _BATCH):
            batch, ranked = names[first : first + _BATCH], []
            for record, text in self._texts([name for name in batch if name not in self._by_words]):
                if text is not None:
                    data = signer.record(signer.words(text), text_kept=True)
                    ranked.append(StampedSignature(key_of(record.name), record.entry.changed, data))
                    self._by_words.add(record.name)
            index.add(ranked)
        index.rank_by_words(bool(self._by_words))

    def _make(self, names: Sequence[str], index: SearchIndex, progress: Progress) -> list[str]:
        """Make signatures from texts, and write them if the store can be written; returns the names without a text."""
        signer = index.signer
        left_out = []
        for first in range(0, len(names), _BATCH):
            progress("signatures", first, len(names))
            batch, made = names[first : first + _BATCH], list[tuple[Record, bytes]]()
            for record, text in self._texts(batch):
                if text is None:
                    left_out.append(record.name)
                elif _kept_signature(record, signer) is None:
                    made.append((record, signer.record(signer.sums(text), text_kept=True)))
            if not self._store.read_only and made:
                with self._store.transaction() as changes:
                    for record, data in made:
                        same = changes.find(record.name) == record.entry
                        if same and _agree(changes, signer):
                            changes.put_signature(record.entry, data)
            index.add(
                [StampedSignature(key_of(record.name), record.entry.changed, data) for record, data in made]
            )
            self._by_words.difference_update(batch)
        return left_out


def _agree(changes: Transaction, signer: Signer) -> bool:
    """Whether a store's statistics are the signer's; if it has none yet, they become so."""
    stored = changes.statistics_digest
    if stored is None:
        changes.put_statistics(signer.statistics.data)
    return stored in (None, signer.projection.digest)


def _kept_signature(record: Record, signer: Signer) -> SignatureRecord | None:
    """The signature that a document has, if it is one of the signer's statistics."""
    try:
        signature = SignatureRecord.from_bytes(record.signature or b"", signer.size)
    except RecordError:
        return None
    return signature if signature.statistics == signer.projection.digest else None
