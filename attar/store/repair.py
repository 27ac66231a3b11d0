"""Checking a store, every page and record, and repairing it: what can be read is kept, the old file is put aside.

A child process copies the values that it can read: LMDB trusts its file, and a damaged one may end the process. The
documents are put together from these values and checked; then the new file replaces the
old one, atomically. The child's commands:

    python -m attar.store.repair read FILE         read every value
    python -m attar.store.repair copy FILE NEW     make the probes that come on stdin, and copy what they find to NEW

A probe reads values from the first one of a kind on, until it comes to a damaged page, or one value. The parent begins
again after the probe that ended the child.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lmdb
import msgspec

from attar.errors import AttarError, BusyError, RecordError, quoted
from attar.files import lock_file, sync_folder
from attar.memory.memory import Buffer, Memory
from attar.store.lmdb_env import (
    COPY,
    DATA,
    Environment,
    LmdbTransaction,
    damaged,
    no_store,
    open_file,
    store_errors,
)
from attar.store.records import (
    DOCUMENT_KINDS,
    HEADER_KEY,
    LONGEST_PLAIN_KEY,
    DocumentEntry,
    Fault,
    Header,
    Kind,
    Record,
    digest_of,
    entry_or_fault,
    name_in,
    read_header,
    read_text,
    unpack_parts,
    values_of,
)
from attar.store.store import Store
from attar.store.transactions import (
    NUMBER_BYTES,
    SEARCH_KINDS,
    Reading,
    read_change,
    read_signature,
    read_statistics,
)

# Documents that are written in one transaction.
_BATCH = 256
# A damaged page hides what comes after it: these kinds are read from their beginning, and then by the names of others.
_KINDS = (b"a", b"f", b"m", b"s", b"t")


def find_faults(environment: Environment) -> Iterator[Fault]:
    """Yield the faults of a store: those of LMDB's pages, or if there are none, those of its records."""
    with environment.writing(), store_errors(environment.folder):
        faults = page_faults(environment.folder / DATA)
    if faults:
        # LMDB must not read such a file: it could crash the process.
        yield from (Fault(None, f"store {environment.folder}: {fault}") for fault in faults)
        return
    with environment.transaction() as transaction:
        yield from record_faults(transaction, environment.folder)


def page_faults(file: Path) -> list[str]:
    """Describe what is wrong with the pages of a file; nobody may write meanwhile.

    The first two pages, of which the later one counts, have no checksum: a flipped bit in the number of the last
    transaction there undoes it, and this cannot be detected.
    """
    from lmdb.verify import VerifyError, verify

    try:
        return [str(fault) for fault in verify(str(file), subdir=False)]  # type: ignore[no-untyped-call]
    except VerifyError as fault:
        return [str(fault)]


def record_faults(transaction: LmdbTransaction, folder: Path) -> Iterator[Fault]:
    """Yield the faults of a store's values: documents, what search keeps, totals, and values that nothing refers to."""
    reading = Reading(transaction)
    try:
        header = read_header(transaction.get(HEADER_KEY, b""), str(folder))
    except AttarError as fault:
        yield Fault(None, str(fault))
        return
    counted, values, damaged_entries = Header(reader=header.reader, created=header.created), 1, set[str]()
    for entry in reading.documents():
        if isinstance(entry, Fault):
            damaged_entries.add(entry.name or "")
            yield entry
            continue
        counted = counted.plus(entry)
        record = reading.record(entry)
        values += 2 + (record.text_data is not None)
        try:
            check_record(record, header.reader)
        except AttarError as fault:
            yield Fault(entry.name, str(fault))
    for kind in SEARCH_KINDS:
        for key, value in values_of(transaction, kind):
            values += 1
            document = reading.find_key(key)
            if name_in(key) in damaged_entries:
                continue
            try:
                _check_search_value(kind, key, value, None if document is None else document.changed)
            except AttarError as fault:
                yield Fault(name_in(key) if kind == b"s" and key else None, str(fault))
    if damaged_entries:
        return  # nobody knows what they add to the totals
    with transaction.cursor() as cursor:
        count = sum(1 for _ in cursor.iternext(values=False))
    if counted != header:
        yield Fault(None, f"store {folder}: expected {header}, got {counted}")
    elif count != values:
        yield Fault(None, f"store {folder}: expected {values:,} values, got {count:,}")


def _check_search_value(kind: Kind, key: bytes, value: Buffer, changed: int | None) -> None:
    """Refuse a value of search that cannot be read, or a signature that is not of its document.

    `changed` is the time of change of the document under `key`; None if there is none.
    """
    if kind == b"j":
        read_change(value)
        if len(key) != NUMBER_BYTES:
            raise RecordError.expected(
                "the changes of the store", f"a number of {NUMBER_BYTES} bytes", repr(key[:60])
            )
    elif not key:
        read_statistics(value)
    elif read_signature(key, value).changed != changed:
        owner = "a document that is gone" if changed is None else "an earlier version of the document"
        raise RecordError(f"signature of {quoted(name_in(key))} is of {owner}", "add the document again")


def check_record(record: Record, reader: str | None) -> None:
    """Decode all that a record holds and compare its parts; raises for what does not match."""
    entry, memory = record.entry, record.memory
    text = record.text
    facts = {
        "memory's bytes": (entry.memory_bytes, len(record.memory_data)),
        "reader": (reader or memory.reader, memory.reader),
        "tokens": (entry.tokens, memory.tokens),
        "text's bytes": (entry.text_bytes, None if record.text_data is None else len(record.text_data)),
        "digest": (entry.digest, digest_of(text) if text is not None and entry.digest else entry.digest),
    }
    for what, (expected, got) in facts.items():
        if expected != got:
            message = f"{what} of {quoted(record.name)}"
            raise RecordError.expected(message, repr(expected), repr(got), "add the document again")
    unpack_parts(entry.parts, record.name)


@dataclass
class Repair:
    """What a repair did: how many documents are kept, and what became of the others, one line each."""

    documents: int = 0
    faults: list[Fault] = field(default_factory=list)
    folder: Path | None = None  # where the old file is; None if the store was intact


def repair_store(path: str | os.PathLike[str]) -> Repair:
    """Keep what can be read of a store, and put the old file aside; an intact store is not changed.

    No other process may have the store open.
    """
    folder = Path(path).absolute()
    if not (folder / DATA).is_file():
        raise no_store(folder)
    with store_errors(folder), _alone(folder):
        work = folder / "repair.partial"
        shutil.rmtree(work, ignore_errors=True)  # of a repair that was killed
        work.mkdir()
        try:
            _copy_readable(_whole_file(folder, work), work / COPY)
            with open_file(work / COPY) as values, values.begin(buffers=True) as transaction:
                repair = _assemble(transaction, work / "new", folder)
            repair.faults += [Fault(None, line) for line in page_faults(folder / DATA)]
            if repair.faults:
                if not repair.documents:
                    raise RecordError(f"store {folder}: no document can be read", "restore a copy")
                repair.folder = _replace(folder, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return repair


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep every other process away from a store."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        if not lock_file(lock, fcntl.LOCK_EX, time.monotonic()):
            raise BusyError(f"store {folder} is open, in this process or another", "close it first")
        yield
    finally:
        os.close(lock)


def _whole_file(folder: Path, work: Path) -> Path:
    """The store's file, or a copy of a truncated one that is long enough: LMDB then finds zeros in place of pages."""
    file = folder / DATA
    try:
        with open_file(file) as opened:
            length = (opened.info()["last_pgno"] + 1) * opened.stat()["psize"]
    except lmdb.Error as fault:
        raise damaged(folder, f"nothing can be read of it ({fault})") from fault
    if file.stat().st_size >= length:
        return file
    copy = work / "longer.mdb"
    shutil.copyfile(file, copy)
    os.truncate(copy, length)
    return copy


def _assemble(values: LmdbTransaction, new: Path, folder: Path) -> Repair:
    """Write the documents that can be read to a new store, and tell what is wrong with the others."""
    reading, lost, reader = Reading(values), set[str](), None
    keys = sorted({key for kind in DOCUMENT_KINDS for key, _ in values_of(values, kind) if key})
    with contextlib.suppress(RecordError):
        reader = read_header(values.get(HEADER_KEY, b""), str(folder)).reader
    with Store.open(new, reader=reader) as store:
        for first in range(0, len(keys), _BATCH):
            with store.transaction() as changes:
                for key in keys[first : first + _BATCH]:
                    try:
                        record = _record(values, key)
                        changes.put(record, reader=record.memory.reader)
                    except AttarError:
                        lost.add(name_in(key))
        with contextlib.suppress(RecordError), store.transaction() as changes:
            statistics = reading.statistics
            if statistics is not None:
                changes.put_statistics(statistics)
        repair = Repair(len(store))
    for fault in record_faults(values, folder):
        outcome = "" if fault.name is None else " (lost)" if fault.name in lost else " (the rest is kept)"
        repair.faults.append(Fault(fault.name, fault.line + outcome))
    return repair


def _record(values: LmdbTransaction, key: bytes) -> Record:
    """A document of its values: without its text if that is lost, with a new entry if that is lost."""
    reading = Reading(values)
    entry = entry_or_fault(key, values.get(b"f" + key, b""))
    data, text_value = bytes(values.get(b"m" + key, b"")), values.get(b"t" + key)
    text = None
    with contextlib.suppress(RecordError):
        text = None if text_value is None else read_text(text_value, name_in(key))
    if isinstance(entry, Fault):
        if len(key) > LONGEST_PLAIN_KEY:
            raise RecordError(f"{entry.line}, and its key has only the beginning of its name")
        return Record.of(DocumentEntry(name=name_in(key)), Memory.from_bytes(data), text=text)
    entry = msgspec.structs.replace(entry, text_bytes=None if text is None else entry.text_bytes)
    record = Record(entry, data, None if text is None else bytes(text_value), reading.signature(entry))
    check_record(record, None)
    return record


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


class _Probe(msgspec.Struct, frozen=True):
    """Values to read: of all keys that begin with `key`, or of this key alone."""

    key: bytes
    alone: bool = False


def is_readable(file: Path) -> bool:
    """Return whether every page and every value of a file is there; nobody may write meanwhile."""
    return not page_faults(file) and _run("read", file)[0] == 0


def _copy_readable(source: Path, target: Path) -> None:
    """Copy the values that can be read to a new LMDB file, as they are."""
    _make_probes([_Probe(b"")], source, target)
    with open_file(source) as old, open_file(target) as new:
        if old.stat()["entries"] == new.stat()["entries"]:
            return
    _make_probes([_Probe(kind) for kind in _KINDS], source, target)
    with open_file(target) as new, new.begin() as transaction, transaction.cursor() as cursor:
        keys = {bytes(key) for key in cursor.iternext(values=False)}
    names = {key[1:] for key in keys if key[1:] and key[:1] in _KINDS}
    missing = {kind + name for kind in _KINDS[1:] for name in names} - keys
    _make_probes([_Probe(key, alone=True) for key in sorted(missing)], source, target)


def _make_probes(probes: list[_Probe], source: Path, target: Path) -> None:
    while probes:
        status, begun = _run("copy", source, target, sent=msgspec.msgpack.encode(probes))
        if status == 0:
            return
        probes = probes[max(1, begun) :]


def _run(task: str, *paths: Path, sent: bytes = b"") -> tuple[int, int]:
    """Run a task in a child; returns its exit status, and how many probes it has begun."""
    command = [sys.executable, "-m", "attar.store.repair", task, *map(str, paths)]
    # The child finds the package where this process has found it.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(command, input=sent, env=environment, capture_output=True, check=False)
    return ran.returncode, ran.stdout.count(b"\n")


def _read(file: Path) -> None:
    with open_file(file) as opened, opened.begin(buffers=True) as transaction, transaction.cursor() as cursor:
        for _, value in cursor:
            zlib.crc32(value)


def _copy(source: Path, target: Path) -> None:
    probes = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[_Probe])
    size = 2 * source.stat().st_size + 2**24
    with open_file(source) as old, open_file(target, readonly=False, map_size=size, sync=False) as new:
        for probe in probes:
            os.write(1, b"\n")
            try:
                with old.begin(buffers=True) as transaction:
                    for key, value in _values(transaction, probe):
                        # Committed one by one: the next one may end this process.
                        with new.begin(write=True) as writing:
                            writing.put(key, bytes(value), overwrite=False)
            except lmdb.Error:
                continue


def _values(transaction: LmdbTransaction, probe: _Probe) -> Iterator[tuple[bytes, memoryview]]:
    with transaction.cursor() as cursor:
        more = cursor.set_key(probe.key) if probe.alone else cursor.set_range(probe.key)
        while more and bytes(cursor.key()).startswith(probe.key):
            yield bytes(cursor.key()), cursor.value()
            more = not probe.alone and cursor.next()


if __name__ == "__main__":
    task, *paths = sys.argv[1:]
    if task == "read":
        _read(*map(Path, paths))
    else:
        _copy(*map(Path, paths))
