"""Word documents, spreadsheets and tables of text: paragraphs, headings, and rows as sentences."""

import csv
import io
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from typing import Any

from attar.documents.extracted import (
    Blob,
    Extracted,
    TextBuilder,
    check_size,
    clean,
    parsing,
)
from attar.documents.plain import decode_text
from attar.documents.tables import names_columns, row_texts

# An XML file takes many times its size in memory.
_MAX_XML = 2**28
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# Deleted text of tracked changes, field codes, and the older copy of a drawing.
_SKIPPED = frozenset((f"{_W}del", f"{_W}instrText", f"{_W}moveFrom"))
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MAX_COLUMNS = 1_000
# Cells that are there, not those between them and the last row.
_MAX_CELLS = 2_000_000
# Up to this many rows, each is a part of its own; of more, several together.
_ROW_PARTS = 2_000


def read_docx(blob: Blob) -> Iterator[Extracted]:
    """A Word document: paragraphs, headings and tables in order; title and date from its properties."""
    data = blob.data()
    with parsing(blob.where, "a DOCX file"):
        _check_package(blob, data)
        import docx

        document = docx.Document(io.BytesIO(data))
        styles = {style.style_id: style.name or "" for style in document.styles}
        builder = TextBuilder()
        first = _add_body(builder, document.element.body, styles)
        about = document.core_properties
        made = about.modified or about.created
        title, day = about.title or first, made.date().isoformat() if made else ""
    yield builder.build(title, day)


def read_xlsx(blob: Blob) -> Iterator[Extracted]:
    """A spreadsheet: the rows of its sheets as sentences, with the sheet and row as parts."""
    data = blob.data()
    with parsing(blob.where, "an XLSX file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what openpyxl does not read, such as charts
        _check_package(blob, data)
        import openpyxl

        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        builder = TextBuilder()
        sheets = book.worksheets
        for sheet in sheets:
            if len(sheets) > 1:
                builder.heading(sheet.title)
            rows = sheet.iter_rows(values_only=True, max_col=_MAX_COLUMNS)
            _add_rows(builder, _present(rows), f"{sheet.title}, " if len(sheets) > 1 else "")
        about = book.properties
        made = about.modified or about.created
        title = about.title or ""
        book.close()
    yield builder.build(title, made.date().isoformat() if made and title else "")


def read_csv(blob: Blob) -> Iterator[Extracted]:
    """A table of text: its rows as sentences with the names of the columns."""
    text = decode_text(blob.data(), blob.where)
    with parsing(blob.where, "rows of cells"):
        csv.field_size_limit(2**24)
        delimiter = "\t" if blob.where.lower().split(".")[-1] == "tsv" else _delimiter(text)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        builder = TextBuilder()
        _add_rows(builder, enumerate(rows, 1), "")
    yield builder.build()


def _delimiter(text: str) -> str:
    """The character that the first lines have most often: a comma, semicolon, tab or bar."""
    head = text[:10_000].split("\n", 5)[:5]
    counts = {mark: min(line.count(mark) for line in head if line.strip()) for mark in ",;\t|"}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else max(",;\t|", key=head[0].count)


def _present(rows: Iterable[Sequence[object]]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a sheet that are in its file, with their numbers.

    openpyxl yields one and the same empty row for all that are missing: up to a million before a stray cell.
    """
    before: Sequence[object] | None = None
    for number, row in enumerate(rows, 1):
        if row is not before:
            yield number, [*map(_cell, row)]
        before = row


def _add_rows(builder: TextBuilder, rows: Iterable[tuple[int, Sequence[str]]], sheet: str) -> None:
    filled: list[tuple[int, list[str]]] = []
    cells = 0
    for number, row in rows:
        texts = [" ".join(clean(cell).split()) for cell in row]
        while texts and not texts[-1]:
            texts.pop()
        cells += len(texts)
        if cells > _MAX_CELLS:
            builder.leave_out(f"{sheet}row {number} and what follows")
            break
        if texts:
            filled.append((number, texts))
    if not filled:
        return
    numbers = [number for number, _ in filled]
    as_text = [*row_texts([row for _, row in filled], header=names_columns(filled[0][1]) and len(filled) > 1)]
    step = -(-len(as_text) // _ROW_PARTS)
    for at, (place, text) in enumerate(as_text):
        if at % step == 0:
            first, last = numbers[place], numbers[as_text[min(at + step, len(as_text)) - 1].number]
            builder.begin(f"{sheet}row {first}" if step == 1 else f"{sheet}rows {first} to {last}")
        builder.add(text)


def _cell(value: object) -> str:
    """A cell as people see it.

    >>> _cell(datetime(2026, 3, 4)), _cell(3.0), _cell(None), _cell(True)
    ('4 March 2026', '3', '', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime) and value.time() != time():
        return f"{value.day} {value:%B %Y, %H:%M}"
    if isinstance(value, date):
        return f"{value.day} {value:%B %Y}"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _check_package(blob: Blob, data: bytes) -> None:
    """Refuse a package that grows to more than the limit, before anything of it is parsed."""
    members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    check_size(blob.where, sum(member.file_size for member in members), min(blob.max_bytes, _MAX_XML))


def _add_body(builder: TextBuilder, body: Any, styles: dict[str, str]) -> str:
    """Add paragraphs and tables in order; return the title, or the first heading."""
    from lxml import etree

    title = ""
    walk = etree.iterwalk(body, events=("start",))
    for _, element in walk:
        if element.tag == f"{_W}tbl":
            builder.table([*map(_row, _inner(element, f"{_W}tr"))])
            walk.skip_subtree()
        elif element.tag == f"{_W}p":
            text = _paragraph(element)
            style = element.find(f"{_W}pPr/{_W}pStyle")
            name = "" if style is None else styles.get(style.get(f"{_W}val"), "")
            if name == "Title" or name.lower().startswith("heading"):
                builder.heading(text)
                title = title or text
            else:
                builder.add(text)
        elif element.tag in (_FALLBACK, f"{_W}del", f"{_W}moveFrom"):
            walk.skip_subtree()
    return title


def _row(row: Any) -> list[str]:
    return [" ".join(map(_paragraph, cell.iter(f"{_W}p"))) for cell in _inner(row, f"{_W}tc")]


def _inner(element: Any, tag: str) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those in content controls, but not those of inner tables."""
    waiting = [*element][::-1]
    while waiting:
        child = waiting.pop()
        if child.tag == tag:
            yield child
        elif child.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins", f"{_W}customXml"):
            waiting += [*child][::-1]


def _paragraph(paragraph: Any) -> str:
    """The text of a paragraph, with insertions, links and content controls, without deletions and inner paragraphs."""
    from lxml import etree

    pieces = []
    walk = etree.iterwalk(paragraph, events=("start",))
    for _, element in walk:
        if element.tag == f"{_W}t":
            pieces.append(element.text or "")
        elif element.tag == f"{_W}tab":
            pieces.append(" ")
        elif element.tag in (f"{_W}br", f"{_W}cr"):
            pieces.append("\n")
        elif element.tag in (f"{_W}noBreakHyphen",):
            pieces.append("-")
        elif (
            element.tag in _SKIPPED
            or element.tag == _FALLBACK
            or (element.tag == f"{_W}p" and element is not paragraph)
        ):
            walk.skip_subtree()
    return "".join(pieces)
