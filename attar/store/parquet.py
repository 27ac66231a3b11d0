"""A store's documents as a Parquet file: one row per document, written and read as a stream, byte for byte."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from attar.errors import (
    AttarError,
    FormatError,
    OptionError,
    ReaderMismatchError,
    RecordError,
    UnknownDocumentError,
    quoted,
)
from attar.files import MAX_DECOMPRESSED, atomic_file
from attar.store.format import VERSION, DocumentEntry, Record, compress
from attar.store.lmdb_env import store_errors
from attar.store.store import Store
from attar.store.transactions import Snapshot, Transaction
from attar.store.validation import Fault, check_record, entry_data, explain_invalid

if TYPE_CHECKING:
    import pyarrow as pa

# Rows are written in groups of at most this many rows, and of about this many bytes; so are transactions.
_ROWS = 256
# Rows that are decoded at once, and about how many bytes: a value that a file holds once can stand in every row.
_DECODED_ROWS, _DECODED_BYTES = 32, 2**27
_BYTES = 2**25

# The fields of a `DocumentEntry` that are columns; the sizes follow from the memory and the text.
_FIELDS = ("name", "title", "digest", "created", "changed", "tokens", "form", "dtype")
# Columns that exports of version 0.1.0 do not have.
_LATER_FIELDS = ("source", "date", "parts", "budget")


class _Row(msgspec.Struct, frozen=True):
    """A row as it must be; `DocumentEntry` says which values are valid."""

    name: str
    title: str
    digest: bytes
    created: int
    changed: int
    tokens: int
    form: str
    dtype: str
    memory: bytes
    text: str | None
    source: str = ""
    date: str = ""
    parts: bytes = b""
    budget: int = 0


class ExportInfo(msgspec.Struct, frozen=True):
    """What an exported file says of itself."""

    version: int
    reader: str | None
    dtype: str
    documents: int


def _schema(info: ExportInfo) -> "pa.Schema":
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    types = (pa.string(), pa.string(), pa.binary(), time, time, pa.int64(), pa.string(), pa.string())
    columns: dict[str, Any] = dict(zip(_FIELDS, types, strict=True))
    columns |= {"memory": pa.large_binary(), "text": pa.large_string()}
    columns |= {"source": pa.string(), "date": pa.string(), "parts": pa.binary(), "budget": pa.int64()}
    return pa.schema(columns, metadata={"attar": msgspec.json.encode(info)})


def _table(records: list[Record], schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    rows = [
        {field: getattr(record.entry, field) for field in (*_FIELDS, *_LATER_FIELDS)}
        | {"memory": bytes(record.memory_data), "text": record.text}
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _record(row: dict[str, Any], path: Path) -> tuple[Record, str]:
    """Return the record of a row, all of it checked, and the reader that wrote the memory."""
    what, expected = f"export {path}, document {quoted(str(row['name']))}", "a document as it was exported"
    try:
        checked = msgspec.convert(row, _Row, builtin_types=(bytes,))
        text_data = None if checked.text is None else compress(checked.text)
        text_bytes = None if text_data is None else len(text_data)
        fields = {field: getattr(checked, field) for field in (*_FIELDS, *_LATER_FIELDS)}
        entry = DocumentEntry(**fields, memory_bytes=len(checked.memory), text_bytes=text_bytes)
        entry_data(entry)
        record = Record(entry, checked.memory, text_data)
        return record, check_record(record).reader
    except msgspec.ValidationError as fault:
        type_expected, came, field = explain_invalid(fault)
        raise FormatError.expected(f"{what}, {field}", type_expected, came, "export it again") from fault
    except AttarError as fault:
        raise FormatError.expected(what, expected, str(fault), "export it again") from fault


def export_store(
    store: Store,
    path: str | os.PathLike[str],
    *,
    on_fault: Callable[[Fault], None] | None = None,
    only: Collection[str] | None = None,
) -> int:
    """Write a snapshot of the store to a Parquet file, atomically; returns the number of documents.

    A document that cannot be read is left out and `on_fault` is called with it; without `on_fault` it raises. With
    `only`, the documents of these names are written.
    """
    import pyarrow.parquet as pq

    count, path = 0, Path(path)
    with store_errors(path), atomic_file(path) as partial, store.snapshot() as snapshot:
        header = snapshot.header()
        documents = header.documents if only is None else len(only)
        schema = _schema(ExportInfo(VERSION, header.reader, header.dtype, documents))
        with pq.ParquetWriter(partial, schema, compression="zstd") as file:
            for group in _groups(_readable(snapshot, on_fault, only)):
                file.write_table(_table(group, schema))
                count += len(group)
    return count


def _readable(
    snapshot: Snapshot, on_fault: Callable[[Fault], None] | None, only: Collection[str] | None
) -> Iterator[Record]:
    for entry in snapshot.documents():
        if only is not None and entry.name not in only:
            continue
        try:
            if isinstance(entry, Fault):
                raise RecordError.expected(
                    f"document {quoted(entry.name or '')}", "one that can be read", entry.line
                )
            record = snapshot.get(entry.name)
            check_record(record)
        except AttarError as fault:
            if on_fault is None:
                raise
            on_fault(Fault(entry.name, entry.line if isinstance(entry, Fault) else str(fault)))
        else:
            yield record


def _groups(records: Iterator[Record]) -> Iterator[list[Record]]:
    group: list[Record] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.memory_data) + len(record.text_data or b"")
        if len(group) >= _ROWS or size >= _BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def read_export_info(path: str | os.PathLike[str]) -> ExportInfo:
    """Return what an exported file says of itself, such as the dtype that a store for it should have."""
    with _open_export(Path(path)) as (_, info):
        return info


def import_store(
    store: Store,
    path: str | os.PathLike[str],
    *,
    replace: bool = False,
    max_bytes: int = MAX_DECOMPRESSED,
    convert: bool = False,
) -> int:
    """Write the documents of an exported file into a store; returns how many it did not have already.

    Each group of rows is one transaction; run again after an interruption, it continues. A name that the store
    has for another document is refused unless `replace`. A file with a row group of more than `max_bytes`,
    decompressed, is refused. With `convert`, memories get the store's dtype, as those that are put do.
    """
    count, path = 0, Path(path)
    with _open_export(path) as (file, info):
        if None not in (info.reader, store.reader) and info.reader != store.reader:
            expected, came = f"memories of the store's reader {store.reader!r}", f"those of {info.reader!r}"
            raise ReaderMismatchError.expected(
                f"export {path}", expected, came, "import it into another store"
            )
        readers: dict[str, str] = {}
        for group in _groups(_records(file, path, max_bytes, readers)):
            with store.transaction() as changes:
                for record in (_converted(each, store.dtype) for each in group) if convert else group:
                    earlier = _sound(changes, record.name)
                    if earlier == record:
                        continue
                    if earlier is not None and not replace:
                        what, came = f"document {quoted(record.name)}", "the name of another document"
                        remedy = "replace it, or import into another store"
                        raise OptionError.expected(what, "a new name", came, remedy)
                    changes.put_record(record, readers[record.name])
                    count += 1
            readers.clear()
    return count


def _converted(record: Record, dtype: str) -> Record:
    try:
        memory = record.memory.astype(dtype)
    except OptionError:  # float16 does not hold all that float32 does
        return record
    data = memory.to_bytes()
    entry = msgspec.structs.replace(record.entry, dtype=memory.dtype, memory_bytes=len(data))
    return Record(entry, data, record.text_data)


def _sound(changes: Transaction, name: str) -> Record | None:
    """A document of the store; None also for a damaged one, which may be replaced."""
    try:
        return changes.get(name)
    except (UnknownDocumentError, RecordError):
        return None


def _records(file: Any, path: Path, max_bytes: int, readers: dict[str, str]) -> Iterator[Record]:
    """Yield the checked records of an export; `readers` gets the reader of each one's memory."""
    import pyarrow as pa

    try:
        for group in range(file.num_row_groups):
            # Not the columns' own sizes: pyarrow aborts the process where their metadata is malformed.
            size = file.metadata.row_group(group).total_byte_size
            if not 0 <= size <= max_bytes:
                expected, came = f"row groups of at most {max_bytes:,} bytes", f"one of {size:,}"
                remedy = "raise the limit (--max-decompressed-mb) if you trust it"
                raise FormatError.expected(f"export {path}", expected, came, remedy)
            rows = max(1, min(_DECODED_ROWS, _DECODED_BYTES // max(1, size)))
            for batch in file.iter_batches(rows, row_groups=[group]):
                for row in _with_numeric_times(pa.Table.from_batches([batch])).to_pylist():
                    record, readers[record.name] = _record(row, path)
                    yield record
    except UnicodeDecodeError as fault:
        raise FormatError.expected(
            f"export {path}", "names and texts in UTF-8", str(fault), "export it again"
        ) from fault
    except (pa.ArrowException, OSError) as fault:
        if isinstance(fault, AttarError):
            raise
        expected, came = "a whole Parquet file", "a damaged one"
        raise FormatError.expected(f"export {path}", expected, came, "export it again") from fault


def _with_numeric_times(table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    for column in ("created", "changed"):
        at = table.column_names.index(column)
        times = table.column(column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        table = table.set_column(at, column, times)
    return table


@contextlib.contextmanager
def _open_export(path: Path) -> Iterator[tuple[Any, ExportInfo]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    what = f"export {path}"
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as fault:
        came = "no such file" if isinstance(fault, FileNotFoundError) else "another file, or a truncated one"
        raise FormatError.expected(what, "a store's Parquet file", came, "export it again") from fault
    with file:
        try:
            metadata, names = file.schema_arrow.metadata or {}, file.schema_arrow.names
            info = msgspec.json.decode(metadata.get(b"attar", b""), type=ExportInfo)
        except (pa.ArrowException, ValueError) as fault:  # msgspec's errors are ValueErrors
            raise FormatError.expected(what, "a store's Parquet file", "one of another kind") from fault
        if info.version > VERSION:
            raise FormatError.expected(what, f"version {VERSION}", f"version {info.version}", "update attar")
        if any(names.count(column) != 1 for column in _schema(info).names if column not in _LATER_FIELDS):
            came = repr(", ".join(names))[1:-1][:200]  # on one line
            raise FormatError.expected(what, "a store's columns, each once", came)
        yield file, info
