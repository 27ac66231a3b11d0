"""Maintenance of a store: checking every page and record, compacting the file, upgrading it, statistics."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lmdb
import msgspec

from attar.errors import AttarError, RecordError, quoted
from attar.files import sync_folder
from attar.store import format
from attar.store.format import DocumentEntry, Header, Record, key_of, unwrap
from attar.store.lmdb_env import COPY, DATA, Environment, LmdbTransaction, damaged, store_errors
from attar.store.pages import page_faults
from attar.store.signatures import SEARCH_KINDS, check_search_value
from attar.store.transactions import header_of
from attar.store.validation import Fault, check_record, name_in


def find_faults(environment: Environment) -> Iterator[Fault]:
    """Yield the faults of a store: those of LMDB's pages, or if there are none, those of its records."""
    with environment.writing(None), store_errors(environment.folder):
        faults = page_faults(environment.folder / DATA)
    if faults:
        # LMDB must not read such a file: it could crash the process.
        yield from (Fault(None, f"store {environment.folder}: {fault}") for fault in faults)
        return
    with environment.transaction() as transaction:
        yield from _record_faults(environment, transaction)


def _record_faults(environment: Environment, transaction: LmdbTransaction) -> Iterator[Fault]:
    what = f"store {environment.folder}"
    try:
        header = header_of(transaction, environment)
    except AttarError as fault:
        yield Fault(None, str(fault))
        return
    counted, values = Header(header.reader, header.dtype, header.created), 1
    for key, value in format.values_of(transaction, b"f"):
        name = name_in(key)
        try:
            entry = format.read_entry(value, name)
            memory, text = transaction.get(b"m" + key, b""), transaction.get(b"t" + key)
            values += 2 + (text is not None)
            counted = counted.plus(entry)
            _check_record(key, entry, memory, text, header.reader)
        except AttarError as fault:
            yield Fault(name, str(fault))
    search = 0
    for kind in SEARCH_KINDS:
        for key, value in format.values_of(transaction, kind):
            search += 1
            is_signature = kind == b"s" and key != b""  # without a name: the statistics
            try:
                of = transaction.get(b"f" + key) if is_signature else None
                check_search_value(
                    kind, key, value, None if of is None else format.read_entry(of, "").changed
                )
            except AttarError as fault:
                yield Fault(name_in(key) if is_signature else None, str(fault))
    if counted != header:
        yield Fault(None, f"{what}: expected {header}, got {counted}")
    elif values != (count := transaction.stat(environment.map.open_db(None))["entries"] - search):
        yield Fault(None, f"{what}: expected {values:,} values for its documents, got {count:,}")


def _check_record(
    key: bytes, entry: DocumentEntry, memory: memoryview, text: memoryview | None, reader: str | None
) -> None:
    """Compare a document's entry with its key, its memory and its text."""
    name = entry.name
    if key_of(name) != key:
        raise RecordError.expected(
            f"key of {quoted(name)}", repr(key_of(name)), repr(key), "add the document again"
        )
    text_data = None if text is None else unwrap(b"t", text, name)
    check_record(Record(entry, unwrap(b"m", memory, name), text_data), reader)


def compact(environment: Environment, timeout: float) -> int:
    """Copy the file without its free pages, put the copy in its place, and return the bytes saved.

    The old file is the store until the copy is whole and on the disk. What a killed process leaves of a copy is
    deleted when the store is next opened.
    """
    folder = environment.folder
    data, copy = folder / DATA, folder / COPY

    def with_mode(path: str, flags: int) -> int:
        return os.open(path, flags, before.st_mode & 0o777)

    with environment.replacing(timeout), store_errors(folder):
        before = data.stat()
        try:
            with _read_only(data) as source, open(copy, "wb", opener=with_mode) as file:
                source.copyfd(file.fileno(), compact=True)
                os.fsync(file.fileno())
                expected = source.stat()["entries"]
            with _read_only(copy) as target:
                copied = target.stat()["entries"]
            if copied != expected:
                raise damaged(folder, f"{copied:,} of {expected:,} values in a copy of it")
            os.replace(copy, data)
        finally:
            copy.unlink(missing_ok=True)
        sync_folder(folder)
        return before.st_size - data.stat().st_size


def _read_only(file: Path) -> contextlib.closing[lmdb.Environment]:
    return contextlib.closing(lmdb.open(str(file), subdir=False, readonly=True, lock=False))


# By the version that each starts from. It gets LMDB's transaction, and rewrites every value for the next version.
# It decodes the older values by itself: the functions of `format` know the newest version only. Version 1 is the first,
# so there is none yet. `tests/store/versions` keeps a small store of every version.
MIGRATIONS: dict[int, Callable[[LmdbTransaction], None]] = {}


def migrate(
    transaction: LmdbTransaction,
    version: int,
    newest: int = format.VERSION,
    migrations: Mapping[int, Callable[[LmdbTransaction], None]] = MIGRATIONS,
) -> list[int]:
    """Upgrade a store from `version` to the newest, step by step; returns the steps.

    >>> steps = {1: lambda transaction: None, 2: lambda transaction: None}
    >>> migrate(None, 1, newest=3, migrations=steps)
    [1, 2]
    """
    steps = list(range(version, newest))
    for step in steps:
        if step not in migrations:
            remedy = "open it with an earlier attar"
            raise RecordError.expected("store", f"version {newest}", f"version {version}", remedy)
        migrations[step](transaction)
    return steps


@dataclass(frozen=True)
class Stats:
    """Counts, and sizes in bytes. New documents fill `free_bytes` first; `compact` returns them to the disk."""

    version: int
    reader: str | None
    dtype: str
    documents: int
    tokens: int
    memory_bytes: int
    text_bytes: int
    file_bytes: int
    free_bytes: int
    map_bytes: int
    changes: int
    readers: int


def stats_of(environment: Environment) -> Stats:
    """Return statistics from the header and LMDB's counters, without reading any document."""
    with environment.transaction() as transaction:
        totals = msgspec.structs.asdict(header_of(transaction, environment))
        info = environment.map.info()
        pages = transaction.stat(environment.map.open_db(None))
        file_bytes = environment.file_bytes()
    meta_pages = 2
    used = meta_pages + pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
    del totals["created"]
    return Stats(
        version=format.VERSION,
        **totals,
        file_bytes=file_bytes,
        free_bytes=max(0, file_bytes - used * pages["psize"]),
        map_bytes=info["map_size"],
        changes=info["last_txnid"],
        readers=info["num_readers"],
    )
