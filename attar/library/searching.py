"""Searching a library: signatures are written with their documents, made from texts where they are missing."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attar.errors import FormatError, OptionError, RecordError, UnknownDocumentError
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.results import Refit
from attar.search.index import LISTS_FROM, SearchIndex
from attar.search.records import Collector, ReaderEncoder, SignatureRecord, Signer, merged, stored_options
from attar.search.signatures import SignatureOptions, Sums
from attar.search.statistics import Statistics, default_statistics
from attar.store.records import Record, key_of
from attar.store.store import Store
from attar.store.transactions import Transaction

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# Documents whose missing signatures are made and written together.
_BATCH = 64
# A projection that keeps this much less of the documents' variance than of what it was fitted on is worth refitting.
_DRIFTED, _ENOUGH = 0.1, 100


class SearchState(NamedTuple):
    """Documents that search cannot find, because they have neither signature nor text, and the drift of statistics."""

    left_out: list[str]
    drift: float

    def lines(self) -> list[str]:
        """What a person should know, one line each."""
        lines = []
        if self.left_out:
            first = f"{len(self.left_out):,} documents are left out, such as {self.left_out[0][:72]!r}"
            lines.append(f"{first}: they have neither a signature nor a text; add them again")
        if self.drift > _DRIFTED:
            share = f"its statistics keep {self.drift:.0%} less of these documents than of their own"
            lines.append(f"search may be better after attar store refit: {share}")
        return lines


class Searching:
    """The signatures and the index of a library; the reader is loaded only if there is something to read."""

    def __init__(
        self,
        store: Store,
        reader: "Callable[[], Reader]",
        lists_from: int | None = None,
        options: SignatureOptions | None = None,
    ) -> None:
        # Those of a new library; another must have them already.
        self.options = options
        self._store, self._reader = store, reader
        self._lists_from = LISTS_FROM if lists_from is None else lists_from
        self._lock = threading.Lock()
        self._signer: Signer | None = None
        self._known: bytes | None = None
        self._index: SearchIndex | None = None
        self._left_out: list[str] = []

    def state(self) -> SearchState:
        """What the last search found out."""
        index = self._index
        drift = index.drift if index is not None and len(index) >= _ENOUGH else 0.0
        return SearchState(list(self._left_out), drift)

    @property
    def index(self) -> SearchIndex:
        """The index as of the last `refresh`."""
        return self.refresh() if self._index is None else self._index

    def phrase_reader(self) -> "Reader":
        """The library's reader."""
        return self._reader()

    def signer(self, reader: "Reader") -> Signer | None:
        """Makes signatures with the store's statistics, or the reader's own; None if there are none."""
        with self._store.snapshot() as now:
            try:
                stored = now.signatures.statistics
            except RecordError as fault:
                raise _damaged_statistics() from fault
        with self._lock:
            known = self._signer is not None and self._signer.encoder.reader is reader
            if not known or stored != self._known:
                encoder = ReaderEncoder(reader)
                statistics, options = (None, self.options) if stored is None else _stored(stored)
                if statistics is None:
                    statistics = default_statistics(reader.fingerprint, reader.folder)
                fits = statistics is not None and statistics.fit_states(encoder.size, encoder.pieces)
                signer = Signer.of(encoder, statistics, options) if statistics is not None and fits else None
                if signer is not None and self.options not in (None, signer.options):
                    raise _other_options(signer.options)
                self._known, self._signer = stored, signer
            return self._signer

    def record(self, changes: Transaction, sums: Sums | None, *, text_kept: bool) -> bytes | None:
        """A signature to write within a transaction, of which the statistics become part if there are none yet."""
        signer = self._signer
        if sums is None or signer is None:
            return None
        # If another process has fitted new statistics, the signature is made from the text when it is needed.
        return signer.record(sums, text_kept=text_kept) if self._agree(changes, signer) else None

    def _agree(self, changes: Transaction, signer: Signer) -> bool:
        """Whether a store's statistics are the signer's; if it has none yet, or another reader's, they become so."""
        stored = changes.signatures.statistics
        if stored != signer.data and stored == self._known:
            changes.put_statistics(signer.data)
        return stored in (signer.data, self._known)

    def extend(
        self, reader: "Reader", before: Record, text: str, progress: Progress
    ) -> tuple[Memory, Sums | None]:
        """A document continued: the memory of both texts, and their sums.

        The last window is read again with what follows, so its sums are subtracted first: the result is exact.
        """
        memory = before.memory
        signer = self.signer(reader)
        if signer is None or memory.phrases is None:
            return reader.extend(memory, text, progress=progress), None
        collector = Collector(signer.projection)
        longer = signer.encoder.reader.extend(memory, text, progress=progress, on_states=collector)
        earlier = self._kept_sums(before, signer)
        if earlier is None and before.text is not None:
            earlier = signer.sums(before.text)
        if earlier is None:
            return longer, None
        try:
            return longer, earlier - signer.sums(memory.phrases.tail) + collector.of()
        except RecordError:  # of a forged record: the signature is made from the text when it is needed
            return longer, None

    def _kept_sums(self, record: Record, signer: Signer) -> Sums | None:
        if record.signature is None:
            return None
        try:
            written = SignatureRecord.from_bytes(record.signature, signer.options)
            return written.sums() if written.statistics == signer.projection.digest else None
        except RecordError:
            return None

    def merged(self, records: Sequence[Record]) -> bytes | None:
        """The signature of documents joined, if all of them keep their sums; needs no reader."""
        signatures = [record.signature for record in records if record.signature is not None]
        if len(signatures) < len(records):
            return None
        try:
            return merged(signatures)
        except RecordError:
            return None

    def refresh(self, progress: Progress = ignore_progress) -> SearchIndex:
        """The index, equal to the store as it is now; missing signatures are made from texts."""
        index, missing = self.load()
        if missing and missing != self._left_out:
            self._left_out = self._make(missing, index.signer, index, progress)
        elif not missing:
            self._left_out = []
        return index

    def load(self) -> tuple[SearchIndex, list[str]]:
        """The index with all signatures that the store has, and the names of documents without one."""
        signer = self.signer(self.phrase_reader())
        if signer is None:
            expected = "one whose reader has statistics for search"
            remedy = "fit them to its documents: attar store refit STORE"
            raise OptionError.expected("library", expected, "one without", remedy)
        if self._index is None or self._index.signer is not signer:
            self._index = SearchIndex(signer, self._lists_from)
        index = self._index
        with self._store.snapshot() as now:
            return index, index.refresh(now)

    def _make(
        self, names: Sequence[str], signer: Signer, index: SearchIndex, progress: Progress
    ) -> list[str]:
        """Make signatures from texts, write them if the store can be written; returns the names of those without."""
        left_out = []
        for first in range(0, len(names), _BATCH):
            progress("signatures", first, len(names))
            made: list[tuple[Record, bytes]] = []
            for name in names[first : first + _BATCH]:
                try:
                    record = self._store.get(name)
                    text = record.text
                except (UnknownDocumentError, RecordError):  # removed meanwhile, or damaged
                    continue
                if text is None:
                    left_out.append(name)
                else:
                    made.append((record, signer.record(signer.sums(text), text_kept=True)))
            if not self._store.read_only and made:
                with self._store.transaction() as changes:
                    for record, data in made:
                        same = changes.find(record.name) == record.entry
                        if same and self._agree(changes, signer):
                            changes.put_signature(record.entry, data)
            index.add([(key_of(record.name), record.entry.changed, data) for record, data in made])
        return left_out

    def refit(self, size: int | None, dtype: str | None, leave_out: bool, progress: Progress) -> Refit:
        """Fit statistics to the library's own documents, with the options given, those of this object or of before."""
        from attar.library.refitting import calls_here, refit

        own = self.options
        if own is not None:
            size, dtype = own.size if size is None else size, own.dtype if dtype is None else dtype
        given: Any = {"size": size, "dtype": dtype, "leave_out": leave_out, "progress": progress}
        done = refit([self._store], calls_here(self._reader()), **given)
        self.options = None  # the store has them now
        return done


def _stored(data: bytes) -> tuple[Statistics | None, SignatureOptions | None]:
    """The statistics and options that a store has.

    Statistics of an earlier version are None: the reader's own replace them, and signatures are made again.
    """
    try:
        statistics, options = stored_options(data)
        return None if Statistics.is_older(statistics) else Statistics.from_bytes(statistics), options
    except FormatError as fault:
        raise _damaged_statistics() from fault


def _other_options(options: SignatureOptions) -> OptionError:
    expected = f"size {options.size}, {options.dtype}, as the library has"
    remedy = "open it without any, or change them: attar store refit STORE --size --dtype"
    return OptionError.expected("signatures", expected, "other options", remedy)


def _damaged_statistics() -> OptionError:
    remedy = "fit them again: attar store refit STORE"
    return OptionError.expected("statistics of the library", "whole ones", "damaged ones", remedy)
