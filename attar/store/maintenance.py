"""Maintenance of a store: checking every page and record, compacting the file, statistics, switching to another reader.

To switch, the new memories lie in a second store in its folder, the staged one, each with the version of the document
that it was read from. Processes that have the store open see the old memories until the transaction ends, and the new
ones from their next snapshot on; a killed process leaves the old ones.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import msgspec

from attar.errors import AttarError, RecordError, StoreError, quoted
from attar.files import sync_folder
from attar.memory.memory import VERSION, Buffer
from attar.store.lmdb_env import COPY, DATA, Environment, LmdbTransaction, damaged, store_errors
from attar.store.records import (
    HEADER_KEY,
    DocumentEntry,
    Fault,
    Header,
    Kind,
    Record,
    digest_of,
    name_in,
    now,
    read_entry,
    read_header,
    unpack_parts,
    values_of,
    write_entry,
    write_header,
)
from attar.store.transactions import (
    KEPT_CHANGES,
    NUMBER_BYTES,
    SEARCH_KINDS,
    STATISTICS_KEY,
    Reading,
    Snapshot,
    header_of,
    read_change,
    read_signature,
    read_statistics,
    signature_value,
    statistics_value,
    write_change,
)

if TYPE_CHECKING:
    from attar.store.store import Store


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


def open_file(file: Path, **options: Any) -> lmdb.Environment:
    """Open one LMDB file without its lock, for reading unless `options` say otherwise."""
    return lmdb.open(str(file), subdir=False, lock=False, **({"readonly": True} | options))


def compact(environment: Environment) -> int:
    """Copy the file without its free pages, put the copy in its place, and return the bytes saved.

    The old file is the store until the copy is whole and on the disk. What a killed process leaves of a copy is
    deleted when the store is next opened.
    """
    folder = environment.folder
    data, copy = folder / DATA, folder / COPY

    def with_mode(path: str, flags: int) -> int:
        return os.open(path, flags, before.st_mode & 0o777)

    with environment.replacing(), store_errors(folder):
        before = data.stat()
        try:
            with open_file(data) as source, open(copy, "wb", opener=with_mode) as file:
                source.copyfd(file.fileno(), compact=True)
                os.fsync(file.fileno())
                expected = source.stat()["entries"]
            with open_file(copy) as target:
                copied = target.stat()["entries"]
            if copied != expected:
                raise damaged(folder, f"a copy of the store file has {copied:,} of {expected:,} values")
            os.replace(copy, data)
        finally:
            copy.unlink(missing_ok=True)
        sync_folder(folder)
        return before.st_size - data.stat().st_size


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Counts, and sizes in bytes. New documents fill `free_bytes` first; `compact` returns them to the disk."""

    version: int
    reader: str | None
    documents: int
    tokens: int
    memory_bytes: int
    text_bytes: int
    file_bytes: int
    free_bytes: int
    changes: int
    readers: int


def stats_of(environment: Environment) -> Stats:
    """Statistics from the header and LMDB's counters, without reading any document."""
    with environment.transaction() as transaction:
        header = header_of(transaction, environment)
        info = environment.map.info()
        pages = transaction.stat(environment.map.open_db(None))
        file_bytes = environment.file_bytes()
    meta_pages = 2
    used = meta_pages + pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
    return Stats(
        version=VERSION,
        reader=header.reader,
        documents=header.documents,
        tokens=header.tokens,
        memory_bytes=header.memory_bytes,
        text_bytes=header.text_bytes,
        file_bytes=file_bytes,
        free_bytes=max(0, file_bytes - used * pages["psize"]),
        changes=info["last_txnid"],
        readers=info["num_readers"],
    )


def source_version(entry: DocumentEntry) -> tuple[bytes, ...]:
    """What the `applied` field of a staged document says: the version of the document that it was read from."""
    return entry.changed.to_bytes(8, "big"), entry.digest


def switch_reader(
    environment: Environment, reader: str, staged: "Store", catch_up: Callable[[], None]
) -> Header:
    """Replace all memories with the staged ones, and return the new header.

    `catch_up` is called when nobody else can write any more; it stages what has changed since. The staged store must
    have all documents, each of the version that is stored now.
    """
    with environment.writing(), store_errors(environment.folder):
        catch_up()
        with staged.snapshot() as memories, environment.transaction(write=True) as transaction:
            header = _replace_all(transaction, environment, reader, memories)
        environment.extend_file()
        return header


def _replace_all(
    transaction: LmdbTransaction,
    environment: Environment,
    reader: str,
    memories: Snapshot,
) -> Header:
    before = header_of(transaction, environment)
    # They are of the former reader; those of the new one were staged with its memories.
    forget_signatures(transaction)
    statistics = memories.statistics
    if statistics is not None:
        transaction.put(STATISTICS_KEY, statistics_value(statistics))
    header, moment = Header(reader=reader, created=before.created), now()
    for key in [key for key, _ in values_of(transaction, b"f")]:
        entry = read_entry(key, transaction.get(b"f" + key))
        staged = _staged(memories, entry)
        entry = msgspec.structs.replace(
            entry,
            # Later than before: caches of other processes know by it that the memory is another.
            changed=max(moment, entry.changed + 1),
            tokens=staged.tokens,
            memory_bytes=staged.memory_bytes,
        )
        transaction.put(b"f" + key, write_entry(entry))
        transaction.put(b"m" + key, memories.memory_data(staged))
        signature = memories.signature(staged)
        if signature is not None:
            transaction.put(b"s" + key, signature_value(entry.changed, signature))
        header = header.plus(entry)
    transaction.put(HEADER_KEY, write_header(header))
    return header


def forget_signatures(transaction: LmdbTransaction) -> None:
    """Delete all that search keeps; whoever has read signatures must read them all again."""
    number = Reading(transaction).last_change + KEPT_CHANGES + 1
    for kind in SEARCH_KINDS:
        for key in [key for key, _ in values_of(transaction, kind)]:
            transaction.delete(kind + key)
    write_change(transaction, number, ())


def _staged(memories: Snapshot, entry: DocumentEntry) -> DocumentEntry:
    """The staged entry of a document; raises for one of another version, or whose memory is damaged."""
    staged = memories.find(entry.name)
    if staged is None or staged.applied != source_version(entry):
        message = f"document {quoted(entry.name)} was not read with the new reader in its present version"
        raise StoreError(message, "run attar reread again")
    memories.check_bytes(staged)
    return staged
