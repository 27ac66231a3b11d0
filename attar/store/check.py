"""Checking a store: every page of its file, and every record."""

from collections.abc import Iterator
from pathlib import Path

from attar.errors import AttarError, RecordError, quoted
from attar.memory.memory import Buffer
from attar.store.lmdb_env import DATA, Environment, LmdbTransaction, store_errors
from attar.store.records import (
    HEADER_KEY,
    Fault,
    Header,
    Kind,
    Record,
    digest_of,
    name_in,
    read_header,
    unpack_parts,
    values_of,
)
from attar.store.transactions import (
    NUMBER_BYTES,
    SEARCH_KINDS,
    Reading,
    read_change,
    read_signature,
    read_statistics,
)


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
