"""A store's documents as a Parquet file: one row per document, written and read as a stream, byte for byte."""

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from attar.errors import (
    AttarError,
    FormatError,
    MissingError,
    NameTakenError,
    ReaderMismatchError,
    RecordError,
    install_command,
    quoted,
)
from attar.files import MAX_DECOMPRESSED, atomic_file
from attar.memory.memory import VERSION
from attar.store.lmdb_env import store_errors
from attar.store.records import DocumentEntry, Fault, Record, write_text
from attar.store.repair import check_record
from attar.store.store import Store
from attar.store.transactions import Snapshot, Transaction

if TYPE_CHECKING:
    import pyarrow as pa

# Rows are written in groups of at most this many rows, and transactions too.
_ROWS = 256
# And of about this many bytes.
_BYTES = 2**25
# Rows that are decoded at once.
_DECODED_ROWS = 32
# And about how many bytes: a value that a file holds once can stand in every row.
_DECODED_BYTES = 2**27

# The fields of a `DocumentEntry` that are columns; the sizes follow from the memory and the text.
_FIELDS = tuple(
    field
    for field in DocumentEntry.__struct_fields__
    if field not in ("memory_bytes", "text_bytes", "applied")
)


class ExportInfo(msgspec.Struct, frozen=True):
    """What an exported file says of itself; `statistics` are what the signatures in it were made with."""

    version: int
    reader: str | None
    statistics: bytes | None = None


def _parquet() -> Any:
    """Parquet files, of pyarrow."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingError("Parquet files need pyarrow", install_command("parquet")) from None
    return pyarrow.parquet


def _schema(info: ExportInfo) -> "pa.Schema":
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    columns: dict[str, Any] = {
        "name": pa.string(),
        "title": pa.string(),
        "digest": pa.binary(),
        "created": time,
        "changed": time,
        "tokens": pa.int64(),
        "source": pa.string(),
        "date": pa.string(),
        "incomplete": pa.string(),
        "tags": pa.list_(pa.string()),
        "metadata": pa.map_(pa.string(), pa.string()),
        "parts": pa.binary(),
        "budget": pa.int64(),
        "memory": pa.large_binary(),
        "text": pa.large_string(),
        "signature": pa.binary(),
    }
    return pa.schema(columns, metadata={"attar": msgspec.json.encode(info)})


def _table(records: list[Record], schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    rows = [
        {field: getattr(record.entry, field) for field in _FIELDS}
        | {"metadata": list(record.entry.metadata.items())}
        | {"memory": record.memory_data, "text": record.text, "signature": record.signature}
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _record(row: dict[str, Any], path: Path) -> Record:
    """Return the record of a row, all of it checked."""
    what = f"export {path}, document {quoted(str(row['name']))}"
    try:
        memory_data = msgspec.convert(row["memory"], bytes, builtin_types=(bytes,))
        text = msgspec.convert(row["text"], str | None)
        text_data = None if text is None else write_text(text, str(row["name"]))
        entry = DocumentEntry(
            **{field: row[field] for field in _FIELDS} | {"metadata": dict(row["metadata"] or ())},
            memory_bytes=len(memory_data),
            text_bytes=None if text_data is None else len(text_data),
        )
        entry = msgspec.convert(msgspec.structs.astuple(entry), DocumentEntry, builtin_types=(bytes,))
        signature = msgspec.convert(row["signature"], bytes | None, builtin_types=(bytes,))
        record = Record(entry, memory_data, text_data, signature)
        check_record(record, None)
    except msgspec.ValidationError as fault:
        fields = DocumentEntry.__struct_fields__
        line = re.sub(r"\$\[(\d+)\]", lambda number: fields[int(number[1])], str(fault))
        raise FormatError(f"{what} is not as it was exported: {line}", "export it again") from fault
    except AttarError as fault:
        raise FormatError(f"{what} is not as it was exported: {fault}", "export it again") from fault
    return record


def export_store(
    store: Store,
    path: str | os.PathLike[str],
    *,
    on_fault: Callable[[Fault], None] | None = None,
) -> int:
    """Write a snapshot of the store to a Parquet file, atomically; returns the number of documents.

    A document that cannot be read is left out and `on_fault` is called with it; without `on_fault` it raises.
    """
    parquet = _parquet()
    count, path = 0, Path(path)
    with store_errors(path), atomic_file(path) as partial, store.snapshot() as snapshot:
        header = snapshot.header
        schema = _schema(ExportInfo(VERSION, header.reader, snapshot.statistics))
        with parquet.ParquetWriter(partial, schema, compression="zstd") as file:
            for group in _groups(_readable(snapshot, on_fault)):
                file.write_table(_table(group, schema))
                count += len(group)
    return count


def _readable(snapshot: Snapshot, on_fault: Callable[[Fault], None] | None) -> Iterator[Record]:
    for entry in snapshot.documents():
        try:
            if isinstance(entry, Fault):
                raise RecordError(entry.line)
            record = snapshot.record(entry)
            check_record(record, None)
        except AttarError as fault:
            if on_fault is None:
                raise
            on_fault(Fault(entry.name, str(fault)))
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


def import_store(
    store: Store,
    path: str | os.PathLike[str],
    *,
    replace: bool = False,
    max_bytes: int = MAX_DECOMPRESSED,
) -> int:
    """Write the documents of an exported file into a store; returns how many it did not have already.

    Each group of rows is one transaction; run again after an interruption, it continues. A name that the store
    has for another document is refused unless `replace`. A file with a row group of more than `max_bytes`,
    decompressed, is refused.
    """
    count, path = 0, Path(path)
    with _open_export(path) as (file, info):
        if None not in (info.reader, store.reader) and info.reader != store.reader:
            readers = f"of the reader {info.reader!r}, the store's is {store.reader!r}"
            raise ReaderMismatchError(f"export {path} has memories {readers}", "import it into another store")
        for group in _groups(_records(file, path, max_bytes)):
            with store.transaction() as changes:
                signed = _take_statistics(changes, info.statistics)
                for record in group:
                    kept = record if signed else dataclasses.replace(record, signature=None)
                    count += _write(changes, kept, replace)
    return count


def _take_statistics(changes: Transaction, exported: bytes | None) -> bool:
    """Whether the signatures of an export fit a store, whose statistics they become if it has none and is empty."""
    stored = changes.statistics
    if stored is None and exported is not None and not changes.header.documents:
        changes.put_statistics(exported)
        return True
    return stored is not None and stored == exported


def _write(changes: Transaction, record: Record, replace: bool) -> bool:
    """Write a record unless the store has it already; returns whether it was written."""
    earlier = changes.find(record.name)
    if earlier is not None:
        if changes.record(earlier) == record:
            return False
        if not replace and changes.is_intact(earlier):
            message = f"document {quoted(record.name)} already exists, and is another one"
            raise NameTakenError(message, "use --replace, or import into another store")
    changes.put(record, reader=record.memory.reader, replacing=earlier)
    return True


def _records(file: Any, path: Path, max_bytes: int) -> Iterator[Record]:
    """Yield the checked records of an export."""
    import pyarrow as pa

    try:
        for group in range(file.num_row_groups):
            # Not the columns' own sizes: pyarrow aborts the process where their metadata is malformed.
            size = file.metadata.row_group(group).total_byte_size
            if not 0 <= size <= max_bytes:
                expected = f"row groups of at most {max_bytes:,} bytes"
                remedy = "raise the limit (--max-decompressed-mb) if you trust it"
                raise FormatError.expected(f"export {path}", expected, f"one of {size:,}", remedy)
            rows = max(1, min(_DECODED_ROWS, _DECODED_BYTES // max(1, size)))
            for batch in file.iter_batches(rows, row_groups=[group]):
                for row in _with_numeric_times(pa.Table.from_batches([batch])).to_pylist():
                    yield _record(row, path)
    except UnicodeDecodeError as fault:
        raise FormatError(f"export {path} is not in UTF-8: {fault}", "export it again") from fault
    except (pa.ArrowException, OSError) as fault:
        if isinstance(fault, AttarError):
            raise
        raise FormatError(f"export {path} is damaged", "export it again") from fault


def _with_numeric_times(table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    for column in ("created", "changed"):
        at = table.column_names.index(column)
        times = table.column(column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        table = table.set_column(at, column, times)
    return table


@contextlib.contextmanager
def _open_export(path: Path) -> Iterator[tuple[Any, ExportInfo]]:
    parquet = _parquet()
    import pyarrow as pa

    what = f"export {path}"
    try:
        file = parquet.ParquetFile(path)
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}") from None
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise FormatError(f"{what} is no Parquet file, or a truncated one", "export it again") from fault
    with file:
        try:
            metadata, names = file.schema_arrow.metadata or {}, file.schema_arrow.names
            info = msgspec.json.decode(metadata.get(b"attar", b""), type=ExportInfo)
        except (pa.ArrowException, ValueError) as fault:  # msgspec's errors are ValueErrors
            raise FormatError(f"{what} is a Parquet file, but not of a store") from fault
        if info.version > VERSION:
            raise FormatError(f"{what} was written by a newer Attar", "update attar")
        if any(names.count(column) != 1 for column in _schema(info).names):
            got = repr(", ".join(names))[1:-1][:200]  # on one line
            raise FormatError.expected(what, "a store's columns, each once", got)
        yield file, info
