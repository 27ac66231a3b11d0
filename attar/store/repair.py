"""Repairing a store: what can be read is kept, in a new file; the old one is put aside.

A child process copies the values that it can read (`salvage`). The documents are put together from these and checked as
`attar store check` does; then the new file replaces the old one, atomically.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lmdb
import msgspec

from attar.errors import AttarError, BusyError, RecordError, quoted
from attar.files import lock_file, sync_folder
from attar.memory.memory import Memory
from attar.store.lmdb_env import COPY, DATA, LmdbTransaction, damaged, no_store, store_errors
from attar.store.maintenance import check_record
from attar.store.records import (
    HEADER_KEY,
    LONGEST_PLAIN_KEY,
    Fault,
    Record,
    entry_or_fault,
    name_in,
    read_header,
    read_text,
    values_of,
)
from attar.store.salvage import copy_readable, page_faults
from attar.store.store import Store
from attar.store.transactions import Reading

# Documents that are written in one transaction.
_BATCH = 256
# Faults of pages that are reported one by one.
_SHOWN_PAGES = 50


@dataclass
class Repair:
    """What a repair did: how many documents are kept, and what became of the others, one line each."""

    documents: int = 0
    faults: list[Fault] = field(default_factory=list)
    folder: Path | None = None  # where the old file is; None if the store was intact


def repair_store(path: str | os.PathLike[str], timeout: float = 0.0) -> Repair:
    """Keep what can be read of a store, and put the old file aside; an intact store is not changed.

    No other process may have the store open. Waits at most `timeout` seconds for that.
    """
    folder = Path(path).absolute()
    if not (folder / DATA).is_file():
        raise no_store(folder)
    with store_errors(folder), _alone(folder, timeout):
        work = folder / "repair.partial"
        shutil.rmtree(work, ignore_errors=True)  # of a repair that was killed
        work.mkdir()
        try:
            repair = Repair(faults=[Fault(None, line) for line in _page_faults(folder / DATA)])
            copy_readable(_whole_file(folder, work), work / COPY, work)
            with contextlib.closing(_open(work / COPY)) as values, values.begin(buffers=True) as transaction:
                _assemble(transaction, work / "new", repair)
            if repair.faults:
                if not repair.documents:
                    raise RecordError(f"store {folder}: no document can be read", "restore a copy")
                repair.folder = _replace(folder, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return repair


@contextlib.contextmanager
def _alone(folder: Path, timeout: float) -> Iterator[None]:
    """Keep every other process away from a store."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        if not lock_file(lock, fcntl.LOCK_EX, time.monotonic() + timeout):
            raise BusyError(f"store {folder} is open, in this process or another", "close it first")
        yield
    finally:
        os.close(lock)


def _page_faults(file: Path) -> list[str]:
    lines = page_faults(file)
    more = len(lines) - _SHOWN_PAGES
    return [*lines[:_SHOWN_PAGES], f"{more:,} more faults of pages"] if more > 0 else lines


def _open(file: Path) -> lmdb.Environment:
    return lmdb.open(str(file), subdir=False, readonly=True, lock=False)


def _whole_file(folder: Path, work: Path) -> Path:
    """The store's file, or a copy of a truncated one that is long enough: LMDB then finds zeros in place of pages."""
    file = folder / DATA
    try:
        with contextlib.closing(_open(file)) as opened:
            length = (opened.info()["last_pgno"] + 1) * opened.stat()["psize"]
    except lmdb.Error as fault:
        raise damaged(folder, f"nothing can be read of it ({fault})") from fault
    if file.stat().st_size >= length:
        return file
    copy = work / "longer.mdb"
    shutil.copyfile(file, copy)
    os.truncate(copy, length)
    return copy


def _assemble(values: LmdbTransaction, folder: Path, repair: Repair) -> None:
    """Write the documents that are whole to a new store."""
    reading, header = Reading(values), None
    try:
        header = read_header(values.get(HEADER_KEY, b""), "the store")
    except RecordError as fault:
        repair.faults.append(Fault(None, str(fault)))
    kinds = ((kind, values_of(values, kind)) for kind in (b"f", b"m", b"t"))
    keys = sorted({key for _, pairs in kinds for key, _ in pairs})
    with Store.open(folder, reader=None if header is None else header.reader) as new:
        with contextlib.suppress(RecordError), new.transaction() as changes:
            statistics = reading.signatures.statistics
            if statistics is not None:
                changes.put_statistics(statistics)
        for first in range(0, len(keys), _BATCH):
            with new.transaction() as changes:
                for key in keys[first : first + _BATCH]:
                    try:
                        record = _record(values, key, repair)
                        check_record(record, changes.header.reader)
                        changes.put(record, reader=record.memory.reader)
                    except AttarError as fault:
                        line = f"document {quoted(name_in(key))} is lost: {fault}"
                        repair.faults.append(Fault(name_in(key), line))
        repair.documents = len(new)
    named = {fault.name for fault in repair.faults} - {None}
    if header is not None and (missing := header.documents - repair.documents - len(named)) > 0:
        repair.faults.append(Fault(None, f"{missing:,} documents cannot be found"))


def _record(values: LmdbTransaction, key: bytes, repair: Repair) -> Record:
    """A document of its values: without its text if that is lost, with a new entry if that is lost."""
    reading, name = Reading(values), name_in(key)
    data = bytes(values.get(b"m" + key, b""))
    memory = Memory.from_bytes(data, "its memory")
    value, text_value = values.get(b"f" + key), values.get(b"t" + key)
    text = None
    if text_value is not None:
        try:
            text = read_text(text_value, name)
        except RecordError as fault:
            repair.faults.append(Fault(name, f"{fault} (the rest is kept)"))
    entry = (
        Fault(name, f"entry of {quoted(name)} is missing") if value is None else entry_or_fault(key, value)
    )
    if isinstance(entry, Fault):
        if len(key) > LONGEST_PLAIN_KEY:
            raise RecordError(f"{entry.line}, and its key has only the beginning of its name")
        repair.faults.append(Fault(name, f"{entry.line} (made again, without title and dates)"))
        return Record.of(name, memory, text=text)
    if text is None and entry.text_bytes is not None:
        if text_value is None:
            repair.faults.append(Fault(name, f"text of {quoted(name)} is missing (the rest is kept)"))
        entry = msgspec.structs.replace(entry, text_bytes=None)
    text_data = None if text is None else bytes(text_value)
    return Record(entry, data, text_data, reading.signature(entry))


def _replace(folder: Path, work: Path) -> Path:
    """Put the old file aside, and the new file in its place; until then the store is as it was."""
    number = 1
    while (aside := folder / f"repair-{number}").exists():
        number += 1
    (work / "aside").mkdir()
    try:
        os.link(folder / DATA, work / "aside" / DATA)
    except OSError:  # a file system without hard links
        shutil.copyfile(folder / DATA, work / "aside" / DATA)
    sync_folder(work / "aside")
    os.rename(work / "aside", aside)
    os.chmod(work / "new" / DATA, (folder / DATA).stat().st_mode & 0o777)
    os.replace(work / "new" / DATA, folder / DATA)
    sync_folder(folder)
    return aside
