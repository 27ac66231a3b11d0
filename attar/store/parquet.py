"""A store's documents in Parquet: one row each, as a stream, out and in again byte for byte."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from attar.errors import AttarError, FormatError, OptionError
from attar.memory import Memory
from attar.store.faults import lines_for, quoted
from attar.store.record import Facts, Record, packed_text
from attar.store.seal import VERSION
from attar.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

# Rows are written, and read, in groups of so many at most, and of so many bytes unless one alone has more.
ROWS = 256
BYTES = 2**25


class Note(msgspec.Struct, frozen=True):
    """What the file says of itself beside its rows."""

    version: int
    reader: str | None
    dtype: str
    documents: int


def _schema(note: Note) -> "pa.Schema":
    import pyarrow as pa

    columns: list[tuple[str, Any]] = [
        ("name", pa.string()),
        ("title", pa.string()),
        ("digest", pa.binary()),
        ("created", pa.timestamp("us", tz="UTC")),
        ("changed", pa.timestamp("us", tz="UTC")),
        ("tokens", pa.int64()),
        ("form", pa.string()),
        ("dtype", pa.string()),
        ("memory", pa.large_binary()),
        ("text", pa.large_string()),
    ]
    return pa.schema(columns, metadata={"attar": msgspec.json.encode(note)})


def _row(record: Record) -> dict[str, Any]:
    facts = record.facts
    return {
        "name": facts.name,
        "title": facts.title,
        "digest": facts.digest,
        "created": facts.created,
        "changed": facts.changed,
        "tokens": facts.tokens,
        "form": facts.form,
        "dtype": facts.dtype,
        "memory": bytes(record.memory_data),
        "text": record.text,
    }


def _record(row: dict[str, Any]) -> Record:
    memory, text = row["memory"], row["text"]
    packed = None if text is None else packed_text(text)
    facts = Facts(
        row["name"],
        row["title"],
        row["digest"],
        row["created"],
        row["changed"],
        row["tokens"],
        row["form"],
        row["dtype"],
        len(memory),
        None if packed is None else len(packed),
    )
    return Record(facts, memory, packed)


def export_store(store: Store, path: str | os.PathLike[str]) -> int:
    """Write one moment of the store into a Parquet file, whole or not at all; gives the number of documents."""
    import pyarrow.parquet as pq

    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with lines_for(path), store.reading() as now:
        about = now.about()
        schema = _schema(Note(VERSION, about.reader, about.dtype, about.documents))
        try:
            with pq.ParquetWriter(partial, schema, compression="zstd") as file:
                for group in _groups(now.get(facts.name) for facts in now.documents()):
                    file.write_table(_table(group, schema))
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    return about.documents


def _table(records: list[Record], schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    return pa.Table.from_pylist([_row(record) for record in records], schema=schema)


def _groups(records: Iterator[Record]) -> Iterator[list[Record]]:
    group: list[Record] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.memory_data) + len(record.text_data or b"")
        if len(group) >= ROWS or size >= BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def read_note(path: str | os.PathLike[str]) -> Note:
    """Give what an exported file says of itself: for a new store, its reader and its type of number."""
    with _opened(Path(path)) as (_, note):
        return note


def import_store(store: Store, path: str | os.PathLike[str], *, replace: bool = False) -> int:
    """Write the documents of an exported file into a store; gives how many were not there already.

    Each group of rows is one change: run again after an interruption, it goes on. A name that the store has
    for another document is refused unless `replace`.
    """
    count = 0
    with _opened(Path(path)) as (file, note):
        if None not in (note.reader, store.reader) and note.reader != store.reader:
            expected = f"memories of the store's reader {store.reader!r}"
            raise OptionError(
                f"export {path}", expected, f"those of {note.reader!r}", "import it into another store"
            )
        for rows in _rows(file, Path(path)):
            with store.writing() as changes:
                for row in rows:
                    record, reader = _checked(row, Path(path))
                    if record.name in changes:
                        if changes.get(record.name) == record:
                            continue
                        if not replace:
                            came = "another document of that name in the store"
                            what = f"document {quoted(record.name)}"
                            raise OptionError(
                                what, "a new name", came, "replace it, or import into another store"
                            )
                    changes.put_record(record, reader)
                    count += 1
    return count


def _checked(row: dict[str, Any], path: Path) -> tuple[Record, str]:
    try:
        record = _record(row)
        return record, Memory.from_bytes(record.memory_data).reader
    except (AttarError, TypeError) as fault:
        what = f"export {path}, document {quoted(str(row['name']))}"
        raise FormatError(what, "a document as it was exported", str(fault), "export it again") from fault


def _rows(file: Any, path: Path) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa

    try:
        for batch in file.iter_batches(ROWS):
            table = pa.Table.from_batches([batch])
            for column in ("created", "changed"):
                at = table.column_names.index(column)
                table = table.set_column(at, column, table.column(column).cast(pa.int64()))
            yield table.to_pylist()
    except (pa.ArrowException, OSError) as fault:
        raise FormatError(
            f"export {path}", "a whole Parquet file", "a damaged one", "export again"
        ) from fault


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Note]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    what = f"export {path}"
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as fault:
        came = "no such file" if isinstance(fault, FileNotFoundError) else "another file, or a cut one"
        raise FormatError(what, "a store's Parquet file", came, "export it again") from fault
    with file:
        try:
            note = msgspec.json.decode((file.schema_arrow.metadata or {}).get(b"attar", b""), type=Note)
        except msgspec.DecodeError as fault:
            raise FormatError(what, "a store's Parquet file", "one of another kind") from fault
        if note.version > VERSION:
            raise FormatError(what, f"version {VERSION}", f"version {note.version}", "update attar")
        if not set(_schema(note).names) <= set(file.schema_arrow.names):
            raise FormatError(what, "a store's columns", ", ".join(file.schema_arrow.names))
        yield file, note
