"""Moving a library to another reader: every kept text is read again, then all memories are switched at once.

The new memories are staged in a store of their own, `reread/FINGERPRINT` inside the library's folder, while the library
answers and grows as before. What others add, change or remove meanwhile is read too: until little is left, and the
rest while nobody else can write. A killed reread is continued by the next one.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attar.errors import BusyError, OptionError, RecordError, UnknownDocumentError
from attar.library.adding import cut_to_budget
from attar.progress import Progress
from attar.reader.folders import ReaderFolder
from attar.results import Reread
from attar.store.maintenance import source_version
from attar.store.parquet import export_store
from attar.store.records import DocumentEntry, Fault, Record
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# Documents per batch: a kill loses some seconds of work.
_DOCUMENTS = 64
# Characters per batch.
_CHARACTERS = 2**19
# If others change no more documents than this while a pass lasts, the rest is read while they wait.
_FEW = 8
# After this many passes it is read in any case.
_PASSES = 5


def check_texts(store: Store, *, set_aside: bool) -> None:
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
    if without_text and not set_aside:
        message = f"library {store.path} has {without_text:,} documents without a kept text, which cannot be read again"
        remedy = "add them again with their texts, remove them, or put them into a file with --set-aside"
        raise OptionError(message, remedy)


def reread(store: Store, reader: "Reader | ReaderFolder", *, set_aside: bool, progress: Progress) -> Reread:
    """Read all documents with another reader, which is loaded if it is needed, and switch the library to it."""
    fingerprint = reader.fingerprint
    with _locked(store.path / "reread") as folder:
        aside = _clean(store, folder, fingerprint)
        if store.reader == fingerprint:
            return Reread(fingerprint, len(store), 0, aside)
        check_texts(store, set_aside=set_aside)
        with Store.open(folder / fingerprint, reader=fingerprint) as staged:
            work = _Rereading(store, staged, _loaded(reader), progress)
            for _ in range(_PASSES):
                if work.catch_up() <= _FEW:
                    break

            def finish() -> set[str]:
                work.catch_up()
                check_texts(store, set_aside=set_aside)
                names = {entry.name for entry in _entries(store) if entry.text_bytes is None}
                if names:
                    export_store(store, folder / fingerprint / "aside.parquet", only=names)
                return names

            header = store.switch_reader(fingerprint, staged, finish)
        return Reread(fingerprint, header.documents, work.read, _clean(store, folder, fingerprint) or aside)


def _loaded(reader: "Reader | ReaderFolder") -> "Reader":
    from attar.reader.reader import Reader

    return Reader.of(reader) if isinstance(reader, ReaderFolder) else reader


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """A folder that only one process works in; it is removed at the end unless something is left in it."""
    lock = _lock(folder)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
        os.close(lock)


def _lock(folder: Path) -> int:
    while True:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            message = f"another process is rereading library {folder.parent}"
            raise BusyError(message, "wait for it") from None
        # Whoever had it before may have removed the folder.
        if folder.exists() and os.path.samestat(os.fstat(lock), os.stat(folder)):
            return lock
        os.close(lock)


def _clean(store: Store, folder: Path, fingerprint: str) -> str | None:
    """Remove what earlier rereads have left, except one to the same reader that has yet to switch.

    After a switch, the documents that were set aside move into the library's folder; returns their file.
    """
    file = None
    for earlier in folder.iterdir():
        done = earlier.name == store.reader
        if done and (earlier / "aside.parquet").exists():
            number = 1
            while (target := store.path / f"aside-{number}.parquet").exists():
                number += 1
            os.replace(earlier / "aside.parquet", target)
            file = str(target)
        if done or earlier.name != fingerprint:
            shutil.rmtree(earlier)
    return file


@dataclass
class _Rereading:
    """Stages the memories of a store's documents."""

    store: Store
    staged: Store
    reader: "Reader"
    progress: Progress
    read: int = 0

    def catch_up(self) -> int:
        """Stage what is not staged in its present version, and forget what is gone; returns how many were read."""
        waiting = [entry for entry in _entries(self.store) if not self._is_staged(entry)]
        total, done = sum(entry.tokens for entry in waiting), 0
        for batch in _batches(waiting):
            self._read(batch, done, total)
            done += sum(entry.tokens for entry in batch)
            self.progress("rereading", done, total)
        gone = [entry.name for entry in _entries(self.staged) if entry.name not in self.store]
        with self.staged.transaction() as changes:
            for name in gone:
                changes.remove(name)
        self.read += len(waiting)
        return len(waiting)

    def _is_staged(self, entry: DocumentEntry) -> bool:
        if entry.text_bytes is None:
            return True
        try:
            return self.staged.entry(entry.name).applied == source_version(entry)
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

        memories = self.reader.read_many(texts, progress=part)
        with self.staged.transaction() as changes:
            for record, memory in zip(records, memories, strict=True):
                applied, budget = source_version(record.entry), record.entry.budget
                memory = cut_to_budget(memory, budget)
                staged = Record.of(record.name, memory, digest=record.entry.digest, applied=applied)
                changes.put(staged, reader=memory.reader, replacing=changes.find(record.name))


def _entries(store: Store) -> Iterator[DocumentEntry]:
    return (entry for entry in store.documents() if not isinstance(entry, Fault))


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
