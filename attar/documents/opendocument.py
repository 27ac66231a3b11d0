"""OpenDocument: texts, spreadsheets and presentations of LibreOffice and others."""

import zipfile
from collections.abc import Iterator
from typing import Any

from attar.documents.archives import open_package
from attar.documents.extracted import Blob, SourceDocument, TextBuilder, clean, parse_xml, parsing
from attar.documents.office import add_rows
from attar.errors import FormatError

_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_TEXT, _TABLE, _OFFICE, _DRAW, _NOTES = (
    _NAMESPACE % name for name in ("text", "table", "office", "drawing", "presentation")
)
# Deleted text of tracked changes, and what a program writes in place of an index.
_DROPPED = frozenset((f"{_TEXT}tracked-changes", f"{_TEXT}sequence-decls", f"{_OFFICE}forms"))
_DC = "{http://purl.org/dc/elements/1.1/}"
# A row or cell that is repeated more often stands for the empty rest of a sheet.
_MAX_REPEATED = 1_000


def read_opendocument(blob: Blob) -> Iterator[SourceDocument]:
    """A text with its headings and tables, the rows of sheets, or the slides of a presentation with their notes."""
    with parsing(blob.where, "an OpenDocument file"):
        archive = open_package(blob)
        if b"encryption-data" in _member(archive, "META-INF/manifest.xml"):
            raise FormatError(f"{blob.where} is encrypted", "save it without a password")
        body = parse_xml(archive.read("content.xml")).find(f"{_OFFICE}body")
        builder = TextBuilder()
        sheets = body.findall(f"{_OFFICE}spreadsheet/{_TABLE}table")
        pages = body.findall(f"{_OFFICE}presentation/{_DRAW}page")
        for sheet in sheets:
            name = sheet.get(f"{_TABLE}name") or ""
            if len(sheets) > 1:
                builder.heading(name)
            add_rows(builder, _numbered_rows(sheet), f"{name}, " if len(sheets) > 1 else "")
        for number, page in enumerate(pages, 1):
            builder.begin(f"slide {number}")
            _add_blocks(builder, page)
        title = _add_blocks(builder, body) if not sheets and not pages else ""
        about = _member(archive, "meta.xml")
        facts = ["", ""]
        if about:
            root = parse_xml(about)
            facts = [clean(root.findtext(f".//{_DC}{name}") or "") for name in ("title", "date")]
    yield builder.build(facts[0] or title, facts[1][:10])


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    return archive.read(name) if name in archive.NameToInfo else b""


def _add_blocks(builder: TextBuilder, root: Any) -> str:
    """Add headings, paragraphs and tables in order, notes as a part of their own; return the first heading."""
    from lxml import etree

    title = ""
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        if element.tag == f"{_TABLE}table":
            builder.table([row for _, row in _numbered_rows(element)])
        elif element.tag == f"{_TEXT}h":
            title = title or _inline(element)
            builder.heading(_inline(element))
        elif element.tag == f"{_TEXT}p":
            builder.add(_inline(element))
        elif element.tag == f"{_NOTES}notes":
            builder.begin("notes")
            continue
        elif element.tag not in _DROPPED:
            continue
        walk.skip_subtree()
    return title


def _numbered_rows(table: Any) -> Iterator[tuple[int, list[str]]]:
    number = 1
    for row in table.iter(f"{_TABLE}table-row"):
        cells: list[str] = []
        for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            text = " ".join(_inline(paragraph) for paragraph in cell.iter(f"{_TEXT}p"))
            repeated = int(cell.get(f"{_TABLE}number-columns-repeated") or 1)
            cells += [text] * min(repeated, _MAX_REPEATED)
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            yield number, cells
        number += int(row.get(f"{_TABLE}number-rows-repeated") or 1)


def _inline(element: Any) -> str:
    """The text of a paragraph, with its notes and without its comments' authors."""
    pieces: list[str] = []

    def collect(node: Any) -> None:
        if node.tag in (f"{_TEXT}line-break", f"{_TEXT}tab", f"{_TEXT}s"):
            pieces.append("\n" if node.tag == f"{_TEXT}line-break" else " ")
        if node.tag == f"{_TEXT}note-body":
            pieces.append(" (")
        if node.tag not in (f"{_TEXT}note-citation", f"{_DC}creator", f"{_DC}date"):
            pieces.append(node.text or "")
            for child in node:
                collect(child)
                pieces.append(child.tail or "")
        if node.tag == f"{_TEXT}note-body":
            pieces.append(")")

    collect(element)
    return "".join(pieces)
