"""All texts of a library read again: for another reader (reread), or for statistics of its own documents (refit).

To reread, new memories are staged in a store of their own, `reread/FINGERPRINT` inside the library's folder, while the
library answers and grows as before. What others add, change or remove meanwhile is read too: until little is left, and
the rest while nobody else can write. Then one transaction switches all memories. A killed reread is continued by the
next.

To refit, the statistics of search are fitted to all texts. Then all signatures are missing, and are made as others that
are. The shards of a library are fitted together: their statistics are one sum.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from attar.errors import BusyError, OptionError, RecordError, StoreError, UnknownDocumentError, quoted
from attar.files import lock_file
from attar.library.adding import cut_to_budget
from attar.library.drafts import encode_texts
from attar.library.searching import make_signer
from attar.progress import Progress
from attar.reader.folders import ReaderFolder
from attar.results import Refit, Reread
from attar.search.signatures import Signer
from attar.search.statistics import Statistics, default_statistics
from attar.store.records import DocumentEntry, Fault, Record, name_in, now
from attar.store.store import Store
from attar.store.transactions import Transaction

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.reader.reader import Reader

# Documents per batch: a kill loses some seconds of work.
_DOCUMENTS = 64
# Characters per batch.
_CHARACTERS = 2**19
# If others change no more documents than this while a pass lasts, the rest is read while they wait.
_FEW = 8
# After this many passes it is read in any case.
_PASSES = 5


def check_texts(store: Store) -> None:
    """Refuse a library whose documents cannot all be read again, before anything is done."""
    faults = without_text = 0
    for entry in store.documents():
        if isinstance(entry, Fault):
            faults += 1
        elif entry.text_bytes is None:
            without_text += 1
    if faults:
        remedy = f"repair it first: attar store repair {store.path}"
        raise RecordError(f"library {store.path} has {faults:,} damaged documents", remedy)
    if without_text:
        message = f"library {store.path} has {without_text:,} documents without a kept text, which cannot be read again"
        remedy = "add them again with their texts, or remove them"
        raise OptionError(message, remedy)


def reread(store: Store, reader: "Reader | ReaderFolder", *, progress: Progress) -> Reread:
    """Read all documents with another reader, which is loaded if it is needed, and switch the library to it."""
    from attar.reader.reader import Reader

    fingerprint = reader.fingerprint
    with _locked(store.path / "reread") as folder:
        _clean(store, folder, fingerprint)
        if store.reader == fingerprint:
            return Reread(fingerprint, len(store), 0)
        check_texts(store)
        with Store.open(folder / fingerprint, reader=fingerprint) as staged:
            new = Reader.of(reader) if isinstance(reader, ReaderFolder) else reader
            work = _Rereading(store, staged, new, make_signer(None, new), progress)
            for _ in range(_PASSES):
                if work.catch_up() <= _FEW:
                    break
            with store.transaction() as changes:  # nobody else can write any more
                work.catch_up()
                check_texts(store)
                _switch(changes, fingerprint, staged)
        _clean(store, folder, fingerprint)
        return Reread(fingerprint, len(store), work.read)


def _switch(changes: Transaction, fingerprint: str, staged: Store) -> None:
    """Replace all memories and signatures with the staged ones, which are of the documents' present versions."""
    with staged.snapshot() as memories:
        statistics = memories.statistics
        changes.change_reader(fingerprint)
        if statistics is not None:
            changes.put_statistics(statistics)
        moment = now()
        for key in list(changes.document_keys()):
            before, read = changes.find_key(key), memories.find_key(key)
            if before is None or read is None or read.applied != _version_of(before):
                message = (
                    f"document {quoted(name_in(key))} was not read with the new reader in its present version"
                )
                raise StoreError(message, "run attar reread again")
            memories.check_bytes(read)
            entry = replace(
                before,
                # Later than before: caches of other processes know by it that the memory is another.
                changed=max(moment, before.changed + 1),
                tokens=read.tokens,
                memory_bytes=read.memory_bytes,
            )
            memory, text = memories.memory_data(read), changes.text_data(before)
            record = Record(entry, memory, text, memories.signature(read))
            changes.put(record, reader=fingerprint, replacing=before)


def _version_of(entry: DocumentEntry) -> tuple[bytes, ...]:
    """What the `applied` field of a staged document says: the version of the document that it was read from."""
    return entry.changed.to_bytes(8, "big"), entry.digest


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """A folder that only one process works in; it is removed at the end unless something is left in it."""
    while True:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        if not lock_file(lock, fcntl.LOCK_EX, time.monotonic()):
            os.close(lock)
            raise BusyError(f"another process is rereading library {folder.parent}", "wait for it")
        # Whoever had it before may have removed the folder.
        if folder.exists() and os.path.samestat(os.fstat(lock), os.stat(folder)):
            break
        os.close(lock)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
        os.close(lock)


def _clean(store: Store, folder: Path, fingerprint: str) -> None:
    """Remove what earlier rereads have left, except one to the same reader that has yet to switch."""
    for earlier in folder.iterdir():
        if earlier.name != fingerprint or earlier.name == store.reader:
            shutil.rmtree(earlier)


@dataclass
class _Rereading:
    """Stages the memories and signatures of a store's documents."""

    store: Store
    staged: Store
    reader: "Reader"
    signer: Signer | None
    progress: Progress
    read: int = 0

    def catch_up(self) -> int:
        """Stage what is not staged in its present version, and forget what is gone; returns how many were read."""
        waiting = [entry for entry in _sound(self.store.documents()) if not self._is_staged(entry)]
        total, done = sum(entry.tokens for entry in waiting), 0
        for batch in _batches(waiting):
            self._read(batch, done, total)
            done += sum(entry.tokens for entry in batch)
            self.progress("rereading", done, total)
        gone = [entry.name for entry in _sound(self.staged.documents()) if entry.name not in self.store]
        with self.staged.transaction() as changes:
            for name in gone:
                changes.remove(name)
        self.read += len(waiting)
        return len(waiting)

    def _is_staged(self, entry: DocumentEntry) -> bool:
        if entry.text_bytes is None:
            return True
        try:
            return self.staged.entry(entry.name).applied == _version_of(entry)
        except (UnknownDocumentError, RecordError):
            return False

    def _read(self, batch: list[DocumentEntry], done: int, total: int) -> None:
        # A document may have been changed or removed since: it is staged as it is now.
        records = []
        for entry in batch:
            with contextlib.suppress(UnknownDocumentError):
                records.append(self.store.get(entry.name))
        texts = [record.text for record in records if record.text is not None]
        records = [record for record in records if record.text_data is not None]

        def part(what: str, now: int, of: int) -> None:
            # Of several texts a reader tells each one's progress.
            if len(batch) == 1:
                self.progress("rereading", done + batch[0].tokens * now // max(of, 1), total)

        signer = self.signer
        read = encode_texts(self.reader, None if signer is None else signer.projection, texts, progress=part)
        with self.staged.transaction() as changes:
            if signer is not None and changes.statistics is None:
                changes.put_statistics(signer.statistics.data)
            for record, encoded in zip(records, read, strict=True):
                memory, sums = cut_to_budget(encoded.memory, record.entry.budget), encoded.sums
                signature = None if signer is None or sums is None else signer.record(sums, text_kept=True)
                entry = DocumentEntry(name=record.name, applied=_version_of(record.entry))
                staged = Record.of(entry, memory, signature=signature)
                changes.put(staged, reader=memory.reader, replacing=changes.find(record.name))


def _sound(entries: Iterable[DocumentEntry | Fault]) -> Iterator[DocumentEntry]:
    return (entry for entry in entries if not isinstance(entry, Fault))


def _batches(entries: list[DocumentEntry]) -> Iterator[list[DocumentEntry]]:
    """Batches of documents of about equal work; a long one is a batch of its own."""
    batch: list[DocumentEntry] = []
    size = 0
    for entry in entries:
        # English has about five characters per token.
        if batch and (len(batch) >= _DOCUMENTS or size + 5 * entry.tokens > _CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += 5 * entry.tokens
    if batch:
        yield batch


def refit(libraries: Sequence["Library"], *, leave_out: bool, progress: Progress) -> Refit:
    """Fit statistics to the texts of libraries, and make all signatures again, as those that are missing are made."""
    stores = [library.store for library in libraries]
    for store in stores:
        _check_kept(store, store.documents(), leave_out)
    fitted = _fitted(stores, libraries[0].reader, progress)
    with contextlib.ExitStack() as stack:
        # All are written, or none: only a kill between two commits leaves shards that differ, and search says so.
        for store in stores:
            changes = stack.enter_context(store.transaction())
            # One that was added meanwhile would lose its signature as well.
            _check_kept(store, changes.documents(), leave_out)
            changes.put_statistics(fitted.data)
    made = sum(library.searching.make(progress) for library in libraries)
    return Refit(made, sum(map(len, stores)) - made)


def _check_kept(store: Store, entries: Iterable[DocumentEntry | Fault], leave_out: bool) -> None:
    """Refuse documents without a kept text, unless they may be left out."""
    names = [] if leave_out else [entry.name for entry in _sound(entries) if entry.text_bytes is None]
    if names:
        counted = f"{len(names):,} documents of {store.path} have no kept text, such as {quoted(names[0])}"
        remedy = "add them again with their texts, or go on without them: --leave-out"
        raise OptionError(f"{counted}: search would not find them any more", remedy)


def _fitted(stores: Sequence[Store], reader: "Reader", progress: Progress) -> Statistics:
    """The statistics of all texts that can be read."""
    encoder = reader.options.encoder
    # A learned map belongs to the reader, whichever the documents are.
    default = default_statistics(reader.fingerprint, reader.folder)
    statistics = Statistics.empty(
        reader.fingerprint,
        size=encoder.size,
        pieces=encoder.vocabulary,
        map=None if default is None else default.map,
    )
    listed = [(store, entry.name) for store in stores for entry in _sound(store.documents())]
    for at, (store, name) in enumerate(listed):
        progress("fitting", at, len(listed))
        with contextlib.suppress(UnknownDocumentError, RecordError):  # removed meanwhile, or damaged
            text = store.get(name).text
            if text is not None:
                statistics = _with_text(statistics, reader, text)
    if not statistics.tokens:
        raise OptionError("no document of the library has a text to fit statistics to", "add some first")
    return statistics


def _with_text(statistics: Statistics, reader: "Reader", text: str) -> Statistics:
    """Statistics continued by a text, window by window: the states of a long one would not fit into memory."""
    pieces: list[NDArray[np.int64]] = []

    def add(_: int, ids: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        nonlocal statistics
        pieces.append(np.unique(ids))
        statistics = statistics.with_states(ids, states)

    reader.token_states([text], add)
    return statistics.with_words(np.concatenate(pieces) if pieces else np.zeros(0, np.int64))
