"""A store's documents as a Parquet file: one row per document, written and read as a stream, byte for byte."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from attar.errors import AttarError, FormatError, OptionError, ReaderMismatchError, quoted
from attar.files import atomic_file
from attar.memory import Memory
from attar.store.format import VERSION, DocumentEntry, Record, compress
from attar.store.lmdb_env import store_errors
from attar.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

# Rows are written and read in groups of at most this many rows, and of about this many bytes.
_ROWS = 256
_BYTES = 2**25

# The fields of a `DocumentEntry` that are columns; the sizes follow from the memory and the text.
_FIELDS = ("name", "title", "digest", "created", "changed", "tokens", "form", "dtype")


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
    return pa.schema(columns, metadata={"attar": msgspec.json.encode(info)})


def _table(records: list[Record], schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    rows = [
        {field: getattr(record.entry, field) for field in _FIELDS}
        | {"memory": bytes(record.memory_data), "text": record.text}
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _record(row: dict[str, Any], path: Path) -> tuple[Record, str]:
    """Return the record of a row, its memory checked, and the reader that wrote the memory."""
    try:
        memory, text = row["memory"], row["text"]
        text_data = None if text is None else compress(text)
        text_bytes = None if text_data is None else len(text_data)
        fields = {field: row[field] for field in _FIELDS}
        entry = DocumentEntry(**fields, memory_bytes=len(memory), text_bytes=text_bytes)
        return Record(entry, memory, text_data), Memory.from_bytes(memory).reader
    except (AttarError, TypeError) as fault:
        what = f"export {path}, document {quoted(str(row['name']))}"
        raise FormatError(what, "a document as it was exported", str(fault), "export it again") from fault


def export_store(store: Store, path: str | os.PathLike[str]) -> int:
    """Write a snapshot of the store to a Parquet file, atomically; returns the number of documents."""
    import pyarrow.parquet as pq

    path = Path(path)
    with store_errors(path), atomic_file(path) as partial, store.snapshot() as snapshot:
        header = snapshot.header()
        schema = _schema(ExportInfo(VERSION, header.reader, header.dtype, header.documents))
        with pq.ParquetWriter(partial, schema, compression="zstd") as file:
            for group in _groups(snapshot.get(entry.name) for entry in snapshot.documents()):
                file.write_table(_table(group, schema))
    return header.documents


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


def import_store(store: Store, path: str | os.PathLike[str], *, replace: bool = False) -> int:
    """Write the documents of an exported file into a store; returns how many it did not have already.

    Each group of rows is one transaction; run again after an interruption, it continues. A name that the store
    has for another document is refused unless `replace`.
    """
    count, path = 0, Path(path)
    with _open_export(path) as (file, info):
        if None not in (info.reader, store.reader) and info.reader != store.reader:
            expected, came = f"memories of the store's reader {store.reader!r}", f"those of {info.reader!r}"
            raise ReaderMismatchError(f"export {path}", expected, came, "import it into another store")
        for rows in _rows(file, path):
            with store.transaction() as changes:
                for row in rows:
                    record, reader = _record(row, path)
                    if record.name in changes:
                        if changes.get(record.name) == record:
                            continue
                        if not replace:
                            what, came = f"document {quoted(record.name)}", "the name of another document"
                            remedy = "replace it, or import into another store"
                            raise OptionError(what, "a new name", came, remedy)
                    changes.put_record(record, reader)
                    count += 1
    return count


def _rows(file: Any, path: Path) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa

    try:
        for batch in file.iter_batches(_ROWS):
            table = pa.Table.from_batches([batch])
            for column in ("created", "changed"):
                at = table.column_names.index(column)
                table = table.set_column(at, column, table.column(column).cast(pa.int64()))
            yield table.to_pylist()
    except (pa.ArrowException, OSError) as fault:
        expected, came = "a whole Parquet file", "a damaged one"
        raise FormatError(f"export {path}", expected, came, "export it again") from fault


@contextlib.contextmanager
def _open_export(path: Path) -> Iterator[tuple[Any, ExportInfo]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    what = f"export {path}"
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as fault:
        came = "no such file" if isinstance(fault, FileNotFoundError) else "another file, or a truncated one"
        raise FormatError(what, "a store's Parquet file", came, "export it again") from fault
    with file:
        try:
            metadata = file.schema_arrow.metadata or {}
            info = msgspec.json.decode(metadata.get(b"attar", b""), type=ExportInfo)
        except msgspec.DecodeError as fault:
            raise FormatError(what, "a store's Parquet file", "one of another kind") from fault
        if info.version > VERSION:
            raise FormatError(what, f"version {VERSION}", f"version {info.version}", "update attar")
        if not set(_schema(info).names) <= set(file.schema_arrow.names):
            raise FormatError(what, "a store's columns", ", ".join(file.schema_arrow.names))
        yield file, info
