"""Word documents, presentations, rich text, spreadsheets and tables of text."""

import csv
import io
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from typing import Any

from attar.documents.archives import open_package
from attar.documents.extracted import MAX_TEXT, Blob, SourceDocument, TextBuilder, clean, parse_xml, parsing
from attar.documents.plain import decode_text
from attar.documents.tables import names_columns, row_texts
from attar.errors import FormatError

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
# Deleted text of tracked changes, field codes, and the older copy of a drawing.
_SKIPPED = frozenset((f"{_W}del", f"{_W}instrText", f"{_W}moveFrom", _FALLBACK))
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_MAX_COLUMNS = 1_000
# Cells that are there, not those between them and the last row.
_MAX_CELLS = 2_000_000
# Up to this many rows, each is a part of its own; of more, several together.
_ROW_PARTS = 2_000


def read_docx(blob: Blob) -> Iterator[SourceDocument]:
    """A Word document: paragraphs, headings and tables in order; title and date from its properties."""
    with parsing(blob.where, "a DOCX file"):
        archive = open_package(blob)
        import docx

        document = docx.Document(archive.fp)
        styles = {style.style_id: style.name or "" for style in document.styles}
        builder = TextBuilder()
        first = _add_body(builder, document.element.body, styles)
        for name in ("footnotes", "endnotes", "comments"):
            _add_notes(builder, document.part, name)
        about = document.core_properties
        made = about.modified or about.created
        title, day = about.title or first, made.date().isoformat() if made else ""
    yield builder.build(title, day)


def _add_notes(builder: TextBuilder, main: Any, name: str) -> None:
    """Add the footnotes, endnotes or comments of a document at its end, as a part."""
    related = [relation for relation in main.rels.values() if relation.reltype.endswith(f"/{name}")]
    for part in dict.fromkeys(relation.target_part for relation in related if not relation.is_external):
        builder.begin(name)
        for note in parse_xml(part.blob).iterchildren():
            # Lines that separate notes from the text have a type.
            if note.get(f"{_W}type") in (None, "normal"):
                builder.add(" ".join(map(_paragraph, note.iter(f"{_W}p"))))


def read_pptx(blob: Blob) -> Iterator[SourceDocument]:
    """A presentation: the texts, tables and notes of its slides, which are its parts."""
    with parsing(blob.where, "a PPTX file"):
        archive = open_package(blob)
        builder, first = TextBuilder(), ""
        show = parse_xml(archive.read("ppt/presentation.xml"))
        slides = _relations(archive, "ppt/presentation.xml")
        identifiers = [slide.get(_RELATION) for slide in show.iter(f"{_P}sldId")]
        # A slide is read once, and so are its notes, however often the file names them.
        targets = dict.fromkeys(slides[identifier] for identifier in identifiers)
        for number, target in enumerate(targets, 1):
            path = "ppt/" + target.removeprefix("/ppt/")
            builder.begin(f"slide {number}")
            title = _add_slide(builder, parse_xml(archive.read(path)))
            first = first or title
            for related in dict.fromkeys(_relations(archive, path).values()):
                if "notesSlide" in related:
                    builder.begin(f"slide {number}, notes")
                    notes = "ppt/" + related.split("ppt/")[-1].removeprefix("../")
                    _add_slide(builder, parse_xml(archive.read(notes)))
    yield builder.build(first)


def _relations(archive: zipfile.ZipFile, path: str) -> dict[str, str]:
    """What a part of a package refers to, by its identifiers."""
    place, _, name = path.rpartition("/")
    relations = f"{place}/_rels/{name}.rels"
    if relations not in archive.NameToInfo:
        return {}
    return {each.get("Id"): each.get("Target") or "" for each in parse_xml(archive.read(relations))}


def _add_slide(builder: TextBuilder, slide: Any) -> str:
    """Add the shapes of a slide, or of its notes, in order; return its title."""
    from lxml import etree

    title = ""
    walk = etree.iterwalk(slide, events=("start",))
    for _, element in walk:
        if element.tag == f"{_A}tbl":
            rows = element.iter(f"{_A}tr")
            builder.table([[_lines(cell).replace("\n", " ") for cell in row.iter(f"{_A}tc")] for row in rows])
            walk.skip_subtree()
        elif element.tag == f"{_P}sp":
            kind = next((holder.get("type") or "" for holder in element.iter(f"{_P}ph")), "")
            text = "" if kind in ("sldNum", "dt", "ftr", "hdr", "sldImg") else _lines(element)
            title = title or (text if "itle" in kind else "")
            builder.add(text)
            walk.skip_subtree()
    return title


def _lines(shape: Any) -> str:
    breaks = {f"{_A}br": "\n", f"{_A}tab": " "}
    return "\n".join(
        "".join(
            breaks.get(piece.tag, "") + (piece.text or "" if piece.tag == f"{_A}t" else "")
            for piece in line.iter()
        )
        for line in shape.iter(f"{_A}p")
        if next(line.iterancestors(f"{_A}p"), None) is None  # its text is in that of the outer one
    )


def read_rtf(blob: Blob) -> Iterator[SourceDocument]:
    """Rich text, without its formatting."""
    data = blob.data()
    with parsing(blob.where, "an RTF file"):
        from striprtf.striprtf import rtf_to_text

        if not data.lstrip().startswith(b"{\\rtf"):
            raise FormatError(f"{blob.where} is not an RTF file", "rename it to .txt if it is a text")
        builder = TextBuilder()
        text: str = rtf_to_text(data.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
        # It writes an emoji as two halves.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        for paragraph in text.split("\n\n"):
            builder.add(paragraph)
    yield builder.build()


def read_xlsx(blob: Blob) -> Iterator[SourceDocument]:
    """A spreadsheet: the rows of its sheets as sentences, with the sheet and row as parts."""
    with parsing(blob.where, "an XLSX file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what openpyxl does not read, such as charts
        archive = open_package(blob)
        import openpyxl

        book = openpyxl.load_workbook(archive.fp, read_only=True, data_only=True)
        builder = TextBuilder()
        sheets = book.worksheets
        for sheet in sheets:
            if len(sheets) > 1:
                builder.heading(sheet.title)
            if (sheet.max_column or 0) > _MAX_COLUMNS:
                builder.leave_out(f"{sheet.title}, columns after {_MAX_COLUMNS:,}")
            rows = sheet.iter_rows(values_only=True, max_col=_MAX_COLUMNS)
            add_rows(builder, _present(rows), f"{sheet.title}, " if len(sheets) > 1 else "")
        about = book.properties
        made = about.modified or about.created
        title = about.title or ""
        book.close()
    yield builder.build(title, made.date().isoformat() if made and title else "")


def read_csv(blob: Blob) -> Iterator[SourceDocument]:
    """A table of text: its rows as sentences with the names of the columns."""
    text = decode_text(blob.data(), blob.where)
    with parsing(blob.where, "rows of cells"):
        csv.field_size_limit(2**24)
        delimiter = "\t" if blob.where.lower().split(".")[-1] == "tsv" else _delimiter(text)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        builder = TextBuilder()
        add_rows(builder, enumerate(rows, 1), "")
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


def add_rows(builder: TextBuilder, rows: Iterable[tuple[int, Sequence[str]]], sheet: str) -> None:
    """Add the numbered rows of a sheet, each a part; `sheet` is what its label begins with."""
    filled: list[tuple[int, list[str]]] = []
    cells = characters = 0
    for number, row in rows:
        characters += sum(map(len, row))
        if characters <= MAX_TEXT:  # one text may stand for many cells
            texts = [" ".join(clean(cell).split()) for cell in row]
            while texts and not texts[-1]:
                texts.pop()
            cells += len(texts)
        if cells > _MAX_CELLS or characters > MAX_TEXT:
            builder.leave_out(f"{sheet}row {number} and what follows")
            break
        if texts:
            filled.append((number, texts))
    if not filled:
        return
    # Titles above a table have one cell.
    while len(filled) > 2 and len(filled[0][1]) == 1 and len(filled[1][1]) != 1:
        builder.heading(filled.pop(0)[1][0])
    numbers = [number for number, _ in filled]
    table = [row for _, row in filled]
    as_text = [*row_texts(table, header=len(table) > 1 and names_columns(table[0], table[1]))]
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
        elif element.tag in _SKIPPED:
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
        elif element.tag == f"{_W}noBreakHyphen":
            pieces.append("-")
        elif element.tag in _SKIPPED or (element.tag == f"{_W}p" and element is not paragraph):
            walk.skip_subtree()
    return "".join(pieces)
