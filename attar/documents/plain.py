"""Plain text in any encoding, JSON, and texts in Parquet."""

import codecs
import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

from attar.documents.columns import with_tables
from attar.documents.extracted import (
    MAX_TEXT,
    Blob,
    SourceDocument,
    TextBuilder,
    check_size,
    parsing,
    short,
)
from attar.documents.tables import fact, row_texts, sentence
from attar.errors import FormatError, needs_extra

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Encodings of Python that are not of texts: Punycode is quadratic, and escapes would change what is written.
_NOT_OF_TEXTS = frozenset(("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"))
# Rows of a Parquet file that are decoded at once.
_ROWS = 64
# Bytes that decide what a file is.
_SAMPLE = 8192
# English, and its neighbours in the West: at most this share of a text's bytes is not ASCII.
_WESTERN = 0.3
# Every value of a JSON file repeats the keys around it.
_LONGEST_PATH = 200
# A table of more cells, and of this many times as many as it has values, is read row by row.
_MANY_CELLS, _SPARSE = 100_000, 50
# Of decoded binary data, many characters are control characters.
_CONTROL = 0.02


def decode_text(data: bytes, where: str) -> str:
    r"""Decode a text in any encoding; raise `FormatError` for empty or binary data.

    >>> decode_text(b"Ann left.", "stdin"), decode_text(b"caf\xe9", "stdin")
    ('Ann left.', 'café')
    """
    if not data.strip():
        raise FormatError(f"{where} is {'blank' if data else 'empty'}", "leave it out")
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _decoded(data, encoding, where)
    if b"\0" in data[:_SAMPLE]:
        return _decoded(data, _utf16(data[:_SAMPLE]), where)
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        return _guessed(data, where, fault)


def decode_named(data: bytes, name: str, where: str) -> str:
    """Decode a text by the encoding that it names, if that is right."""
    try:
        if codecs.lookup(name).name.replace("-", "_") not in _NOT_OF_TEXTS:
            return data.decode(name)
    except (LookupError, ValueError):
        pass
    return decode_text(data, where)


def is_binary(data: bytes) -> bool:
    r"""Whether the beginning of a file is not text.

    >>> is_binary(b"GIF89a\0\1"), is_binary(b"Ann left."), is_binary("Ann".encode("utf-16")), is_binary(b"")
    (True, False, False, False)
    """
    try:
        return bool(data.strip()) and not decode_text(data[:_SAMPLE], "")
    except FormatError:
        return True


def read_text(blob: Blob) -> Iterator[SourceDocument]:
    """A plain text, as it is, but for tables in columns of spaces."""
    text = decode_text(blob.data(), blob.where)
    yield SourceDocument("\n\n".join(with_tables(text)))


def read_json(blob: Blob) -> Iterator[SourceDocument]:
    """A JSON file: a list of objects with "text" as documents, anything else as sentences with its keys."""
    value = _parsed(decode_text(blob.data(), blob.where), blob.where, "JSON")
    if isinstance(value, list) and value and all(map(_is_document, value)):
        for number, row in enumerate(value, 1):
            yield _document(row, blob, number)
        return
    builder = TextBuilder()
    _add_value(builder, value)
    title = value.get("title") if isinstance(value, dict) else ""
    yield builder.build(title if isinstance(title, str) else "")


def read_json_lines(blob: Blob) -> Iterator[SourceDocument]:
    """JSON lines: one document per line, with "text" and perhaps "id", "name" or "title", and "date".

    If the first line has no "text", the file is a table, and each line a row.
    """
    documents, size = 0, 0
    rows: list[object] = []
    longest = blob.limits.max_decompressed + 1 if blob.compressed else -1
    for number, line in enumerate(iter(lambda: blob.file.readline(longest), b""), 1):
        where = f"{blob.where}, line {number}"
        if blob.compressed:
            check_size(where, len(line), blob.limits.max_decompressed)
        if not line.strip():
            continue
        row = _parsed(decode_text(line, where), where, "a JSON object")
        if _is_document(row) and not rows:
            documents += 1
            yield _document(row, blob, number)
        elif isinstance(row, dict) and row and "text" not in row and not documents and size <= MAX_TEXT:
            rows.append(row)
            size += len(line)
        else:
            raise FormatError(f'{where} is not an object with "text", a string')
    if rows:
        builder = TextBuilder()
        _add_value(builder, rows)
        yield builder.build()
    elif not documents:
        raise FormatError(f"{blob.where} is empty", "leave it out")


def read_parquet(blob: Blob) -> Iterator[SourceDocument]:
    """A Parquet file with a column "text", and perhaps "id", "name" or "title", and "date": one document per row."""
    with needs_extra(f"{blob.where}: Parquet", "parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    with parsing(blob.where, "a Parquet file"):
        # Members of archives are not seekable.
        source = io.BytesIO(blob.data()) if blob.compressed else blob.file
        names = set(pq.read_schema(source).names) & {"id", "name", "title", "date", "text"}
        # A text that stands in many rows of the file is in memory once.
        file = pq.ParquetFile(source, read_dictionary=sorted(names), pre_buffer=False)
        texts = file.schema_arrow.field("text").type if "text" in names else None
        columns = [at for at, name in enumerate(file.schema.names) if name in names]
        groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
        sizes = [sum(group.column(at).total_uncompressed_size for at in columns) for group in groups]
    if texts is None or not pa.types.is_dictionary(texts):
        sentence = f'{blob.where} has no column "text" of strings'
        raise FormatError(sentence, "rename the column that has the texts")
    check_size(blob.where, max(sizes, default=0), blob.limits.max_decompressed)
    rows = (
        {name: batch.column(name)[at].as_py() for name in names}
        for batch in file.iter_batches(_ROWS, columns=sorted(names))
        for at in range(batch.num_rows)
    )
    for number in itertools.count(1):
        with parsing(blob.where, "a Parquet file"):
            row = next(rows, None)
        if row is None:
            return
        if isinstance(row["text"], str) and row["text"].strip():
            yield _document(row, blob, number)


def _parsed(text: str, where: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise FormatError(f"{where} is not {expected}: {fault}") from fault


def _is_document(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("text"), str)


def _document(row: dict[str, Any], blob: Blob, number: int) -> SourceDocument:
    names = (str(row[key]) for key in ("id", "name", "title") if row.get(key))
    title, date = (row.get(key) if isinstance(row.get(key), str) else "" for key in ("title", "date"))
    name = next(names, f"{blob.name}-{number}")
    return SourceDocument(row["text"], short(title or ""), short(date or ""), (), name)


def _add_value(builder: TextBuilder, value: object) -> None:
    """Add the values of a JSON file in order: each as a sentence with its key, a list of objects as a table."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            flat = {name: _cell(inner) for name, inner in value.items() if not isinstance(inner, dict | list)}
            if key and flat:
                builder.begin(key)
            builder.add(" ".join(fact(short(name), cell, key) for name, cell in flat.items() if cell))
            nested = [(_path(key, name), inner) for name, inner in value.items() if name not in flat]
            waiting += reversed(nested)
        elif isinstance(value, list) and _is_table(value) and not _is_sparse(value):
            names = [*dict.fromkeys(name for row in value for name in row)]
            rows = [[_cell(row.get(name)) for name in names] for row in value]
            for row in row_texts([[*map(short, names)], *rows], header=True):
                builder.begin(f"{key} {row.number}".strip())
                builder.add(row.text)
        elif isinstance(value, list):
            simple = [_cell(inner) for inner in value if not isinstance(inner, dict | list)]
            if len(simple) == len(value):
                listed = ", ".join(filter(None, simple))
                builder.add(sentence(f"{key}: {listed}" if key else listed))
            else:
                waiting += reversed(
                    [(f"{key} {number}".strip(), inner) for number, inner in enumerate(value, 1)]
                )
        else:
            text = _cell(value)
            builder.add(sentence(f"{key}: {text}" if key else text))


def _is_table(rows: list[object]) -> bool:
    """Whether a list has objects only, and these simple values only."""
    return all(
        isinstance(row, dict) and not any(isinstance(inner, dict | list) for inner in row.values())
        for row in rows
    )


def _is_sparse(rows: list[dict[str, object]]) -> bool:
    """Whether a table would have many cells and hardly any values: each row has keys of its own."""
    names = {name for row in rows for name in row}
    return len(names) * len(rows) > max(_MANY_CELLS, _SPARSE * sum(map(len, rows)))


def _path(key: str, name: str) -> str:
    """The key of a value, after those around it; of a long one the end.

    >>> _path("orders, order 2", "customer")
    'orders, order 2, customer'
    """
    path = f"{key}, {short(name)}" if key else short(name)
    return path if len(path) <= _LONGEST_PATH else "…" + path[-_LONGEST_PATH + 1 :]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _decoded(data: bytes, encoding: str | None, where: str) -> str:
    try:
        if encoding is None:
            raise FormatError(f"{where} is not a text but binary data", "leave it out")
        return data.decode(encoding)
    except UnicodeDecodeError as fault:
        raise FormatError(f"{where} is not a text in {encoding}", "save it as UTF-8") from fault


def _utf16(sample: bytes) -> str | None:
    """The byte order of UTF-16 without a mark: in English every second byte is 0."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if 8 * even < odd and 10 * odd > 3 * len(sample[1::2]):
        return "utf-16-le"
    return "utf-16-be" if 8 * odd < even and 10 * even > 3 * len(sample[::2]) else None


def _guessed(data: bytes, where: str, fault: UnicodeDecodeError) -> str:
    """Text in an older encoding: Windows-1252, which contains Latin-1, or what charset-normalizer finds."""
    high = sum(byte > 127 for byte in data[: 16 * _SAMPLE]) / len(data[: 16 * _SAMPLE])
    if high <= _WESTERN:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    else:
        with parsing(where, f"text that is not UTF-8 (byte 0x{data[fault.start]:02x} at {fault.start})"):
            from charset_normalizer import from_bytes

            best = from_bytes(data).best()
        if best is None:
            raise FormatError(f"{where} is not a text but binary data", "leave it out") from fault
        text = str(best)
    sample = text[:_SAMPLE]
    control = sum(not (character.isprintable() or character.isspace()) for character in sample)
    if control > _CONTROL * len(sample):
        raise FormatError(f"{where} is not a text but binary data", "leave it out") from fault
    return text
