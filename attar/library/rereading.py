"""All texts of a library read again: for another reader (reread), or for statistics of its own documents (refit).

To reread, the texts are added to a library of their own, `reread/FINGERPRINT` inside the library's folder, while this
one answers and grows as before. What others add or change meanwhile is read too: until little is left, and the rest
while nobody else can write. Then one transaction switches all memories. A killed reread is continued by the next.

To refit, the statistics of search are fitted to all texts. Then all signatures are missing, and are made as others that
are. The shards of a library are fitted together: their statistics are one sum.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import BusyError, OptionError, RecordError, StoreError, UnknownDocumentError, quoted
from attar.files import lock_file
from attar.library.drafts import Draft
from attar.progress import Progress
from attar.reader.folders import ReaderFolder
from attar.results import Change, Refit, Reread
from attar.search.statistics import Fitting, Statistics, default_statistics
from attar.store.records import DocumentEntry, Fault, name_in, now
from attar.store.store import Store
from attar.store.transactions import Reading, Transaction

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.reader.reader import Reader

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
    from attar.library.library import Library  # it imports this

    fingerprint = reader.fingerprint
    with _locked(store.path / "reread") as folder:
        _clean(store, folder, fingerprint)
        if store.reader == fingerprint:
            return Reread(fingerprint, len(store), 0)
        check_texts(store)
        read = 0
        with Library(
            folder / fingerprint, reader.path if isinstance(reader, ReaderFolder) else reader
        ) as staged:
            for _ in range(_PASSES):
                few = _catch_up(store, staged, progress)
                read += few
                if few <= _FEW:
                    break
            with store.transaction() as changes:  # nobody else can write any more
                read += _catch_up(store, staged, progress)
                check_texts(store)
                _switch(changes, fingerprint, staged.store)
        _clean(store, folder, fingerprint)
        return Reread(fingerprint, len(store), read)


def _catch_up(store: Store, staged: "Library", progress: Progress) -> int:
    """Read what is not staged in its present version; returns how many documents that were."""
    with staged.store.transaction() as changes:
        waiting = [entry for entry in _sound(store.documents()) if not _is_staged(changes, entry)]
        for entry in waiting:
            if entry.name in changes:
                changes.remove(entry.name)
    total, done = sum(entry.tokens for entry in waiting), 0

    def drafts() -> Iterator[Draft]:
        for entry in waiting:
            # It may have been changed or removed since: it is staged as it is now.
            with contextlib.suppress(UnknownDocumentError):
                record = store.get(entry.name)
                if record.text is not None:
                    yield Draft(record.entry, record.text, record.text.encode())

    def count(change: Change) -> None:
        nonlocal done
        done += change.tokens
        progress("rereading", min(done, total), total)

    staged.add_many(drafts(), replace=True, on_change=count, progress=progress)
    return len(waiting)


def _is_staged(staged: Reading, entry: DocumentEntry) -> bool:
    """Whether the text of a document is staged as it is now."""
    found = staged.find(entry.name)
    return found is not None and (found.digest, found.budget) == (entry.digest, entry.budget)


def _switch(changes: Transaction, fingerprint: str, staged: Store) -> None:
    """Replace all memories and signatures with the staged ones, which are of the present texts."""
    with staged.snapshot() as memories:
        statistics = memories.statistics
        changes.change_reader(fingerprint)
        if statistics is not None:
            changes.put_statistics(statistics)
        moment = now()
        for key in list(changes.document_keys()):
            before, read = changes.find_key(key), memories.find_key(key)
            if before is None or read is None or not _is_staged(memories, before):
                message = (
                    f"document {quoted(name_in(key))} was not read with the new reader in its present version"
                )
                raise StoreError(message, "run attar reread again")
            memories.check_bytes(read)
            entry = msgspec.structs.replace(
                before,
                # Later than before: caches of other processes know by it that the memory is another.
                changed=max(moment, before.changed + 1),
                tokens=read.tokens,
                memory_bytes=read.memory_bytes,
                text_bytes=read.text_bytes,
            )
            changes.put(replace(memories.record(read), entry=entry), reader=fingerprint, replacing=before)


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


def _sound(entries: Iterable[DocumentEntry | Fault]) -> Iterator[DocumentEntry]:
    return (entry for entry in entries if not isinstance(entry, Fault))


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
    fitting = Fitting(
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
                _add_text(fitting, reader, text)
    return fitting.statistics()


def _add_text(fitting: Fitting, reader: "Reader", text: str) -> None:
    """Continue the sums by a text, window by window: the states of a long one would not fit into memory."""
    pieces: list[NDArray[np.int64]] = []

    def add(_: int, ids: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        pieces.append(np.unique(ids))
        fitting.add_states(ids, states)

    reader.token_states([text], add)
    fitting.add_words(np.concatenate(pieces) if pieces else np.zeros(0, np.int64))
