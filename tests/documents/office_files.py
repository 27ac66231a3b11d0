"""More kinds of files: presentations, OpenDocument, rich text, Outlook's e-mails, and pictures of pages."""

import html
import io
import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.documents.document_files import HEADING, saved, zip_of


def pptx_of(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """A presentation: the title, the lines and the notes of each slide."""
    import pptx

    show = pptx.Presentation()
    for title, lines, notes in slides:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = lines
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    return saved(show)


_ODF = (
    '<?xml version="1.0" encoding="UTF-8"?><office:document-content office:version="1.3" '
    + " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table", "presentation")
    )
    + ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"><office:body>{}</office:body>'
    "</office:document-content>"
)


def odt_of(text: str, *, table: Sequence[Sequence[str]] = ()) -> bytes:
    """An OpenDocument text; a paragraph that begins with "# " is a heading."""
    parts = [
        f'<text:h text:outline-level="1">{html.escape(part.removeprefix(HEADING))}</text:h>'
        if part.startswith(HEADING)
        else f"<text:p>{html.escape(part)}</text:p>".replace("\n", "<text:line-break/>")
        for part in text.split("\n\n")
    ]
    return _odf("text", f"<office:text>{''.join(parts)}{_odf_table(table)}</office:text>")


def ods_of(sheets: Mapping[str, Sequence[Sequence[str]]]) -> bytes:
    """An OpenDocument spreadsheet of named sheets; its last row repeats, as programs write it."""
    tables = "".join(_odf_table(rows, name, repeated=True) for name, rows in sheets.items())
    return _odf("spreadsheet", f"<office:spreadsheet>{tables}</office:spreadsheet>")


def odp_of(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """An OpenDocument presentation: the title, the lines and the notes of each slide."""

    def box(text: str) -> str:
        lines = "".join(f"<text:p>{html.escape(line)}</text:p>" for line in text.split("\n"))
        return f"<draw:frame><draw:text-box>{lines}</draw:text-box></draw:frame>"

    pages = "".join(
        f'<draw:page draw:name="page{at}">{box(title)}{box(lines)}'
        f"<presentation:notes>{box(notes)}</presentation:notes></draw:page>"
        for at, (title, lines, notes) in enumerate(slides, 1)
    )
    return _odf("presentation", f"<office:presentation>{pages}</office:presentation>")


def _odf_table(rows: Sequence[Sequence[str]], name: str = "Table", repeated: bool = False) -> str:
    if not rows:
        return ""
    lines = "".join(
        "<table:table-row>"
        + "".join(
            f"<table:table-cell><text:p>{html.escape(cell)}</text:p></table:table-cell>" for cell in row
        )
        + '<table:table-cell table:number-columns-repeated="1000"/></table:table-row>'
        for row in rows
    )
    last = (
        '<table:table-row table:number-rows-repeated="1048000"><table:table-cell '
        'table:number-columns-repeated="1024"/></table:table-row>'
        if repeated
        else ""
    )
    return f'<table:table table:name="{html.escape(name)}">{lines}{last}</table:table>'


def _odf(kind: str, body: str) -> bytes:
    return zip_of(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}".encode(),
            "content.xml": _ODF.format(body).encode(),
        }
    )


def rtf_of(text: str) -> bytes:
    """Rich text, as word processors write it: fonts, colours and styles before it, other letters as escapes."""
    escaped = text.replace("\\", "\\\\").replace("{", "\\{").replace("}", "\\}")
    letters = "".join(letter if letter.isascii() else f"\\u{ord(letter)}?" for letter in escaped)
    paragraphs = letters.replace("\n\n", "\\par\\par\n").replace("\t", "\\tab ")
    head = (
        r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss Arial;}}{\colortbl;\red0\green0\blue0;}"
        r"{\*\generator Writer;}{\info{\title Hidden title}}\viewkind4\pard\f0\fs22 "
    )
    return f"{head}{paragraphs}\\par}}".encode("ascii")


def msg_of(text: str, **fields: Any) -> bytes:
    """An e-mail as Outlook saves it: a compound file with a stream for each property."""
    return compound_file(msg_storage(text, **fields))


def msg_storage(
    text: str,
    *,
    subject: str,
    sender: str,
    sender_address: str,
    to: str,
    attached: Mapping[str, bytes | dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The streams of an e-mail, which may be attached to another."""

    def streams(properties: Mapping[str, str | bytes]) -> dict[str, bytes]:
        return {
            f"__substg1.0_{key}": value if isinstance(value, bytes) else value.encode("utf-16-le")
            for key, value in properties.items()
        }

    root: dict[str, Any] = {"__properties_version1.0": bytes(32)}
    root |= streams(
        {
            "001A001F": "IPM.Note",
            "0037001F": subject,
            "0C1A001F": sender,
            "0C1F001F": sender_address,
            "0E04001F": to,
            "1000001F": text,
            "007D001F": f"From: {sender} <{sender_address}>\r\nDate: Wed, 04 Mar 2026 14:05:00 +0000\r\n\r\n",
        }
    )
    for number, (name, data) in enumerate((attached or {}).items()):
        key = "37010102" if isinstance(data, bytes) else "3701000D"
        root[f"__attach_version1.0_#{number:08X}"] = {
            "__properties_version1.0": bytes(8), f"__substg1.0_{key}": data
        } | streams({"3707001F": name})  # fmt: skip
    return root


def compound_file(root: Mapping[str, Any]) -> bytes:
    """Microsoft's compound file of streams (bytes) and storages (mappings), with sectors of 512 bytes."""
    end, free, none, sector, mini, cutoff = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF, 512, 64, 4096
    fat: list[int] = []
    mini_fat: list[int] = []
    body, mini_body = bytearray(), bytearray()

    def store(data: bytes, size: int, table: list[int], space: bytearray) -> int:
        if not data:
            return end
        first, count = len(table), -(-len(data) // size)
        table.extend([*range(first + 1, first + count), end])
        space.extend(data.ljust(count * size, b"\0"))
        return first

    entries: list[list[Any]] = []  # name, kind, right sibling, child, first sector, size

    def add(name: str, content: Any) -> int:
        at = len(entries)
        entries.append([name, 1, none, none, 0, 0])
        if isinstance(content, bytes):
            small = len(content) < cutoff
            first = store(content, mini, mini_fat, mini_body) if small else store(content, sector, fat, body)
            entries[at][1:] = [2, none, none, first, len(content)]
        else:
            entries[at][3] = add_all(content)
        return at

    def add_all(contents: Mapping[str, Any]) -> int:
        # A tree of siblings in which each one is right of the one before: in order, if not balanced.
        places = [add(name, contents[name]) for name in sorted(contents, key=lambda name: (len(name), name))]
        for left, right in itertools.pairwise(places):
            entries[left][2] = right
        return places[0] if places else none

    entries.append(["Root Entry", 5, none, none, end, 0])
    entries[0][3] = add_all(root)
    entries[0][4:] = [store(bytes(mini_body), sector, fat, body), len(mini_body)]
    records = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<HBBIII36xIQ", 2 * len(name) + 2, kind, 1, none, right, child, first, size)
        for name, kind, right, child, first, size in entries
    )
    directory = store(records, sector, fat, body)
    packed = struct.pack(f"<{len(mini_fat)}I", *mini_fat)
    mini_first = store(packed.ljust(-(-len(packed) // sector) * sector, b"\xff"), sector, fat, body)
    sectors = next(count for count in itertools.count(1) if 128 * count >= len(fat) + count)
    places = [*range(len(fat), len(fat) + sectors)]
    fat += [0xFFFFFFFD] * sectors
    table = struct.pack(f"<{128 * sectors}I", *fat, *[free] * (128 * sectors - len(fat)))
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        0x3E, 3, 0xFFFE, 9, 6, 0, sectors, directory, 0, cutoff,
        mini_first, -(-len(packed) // sector), end, 0,
    )  # fmt: skip
    return header + struct.pack("<109I", *places, *[free] * (109 - sectors)) + bytes(body) + table


def picture_of(lines: Sequence[str], kind: str = "PNG") -> bytes:
    """A scanned page: a picture of printed lines."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=40)
    page = Image.new("L", (1654, 200 + 70 * len(lines)), 250)
    draw = ImageDraw.Draw(page)
    for at, line in enumerate(lines):
        draw.text((120, 100 + 70 * at), line, fill=20, font=font)
    buffer = io.BytesIO()
    page.save(buffer, kind, resolution=200.0) if kind == "PDF" else page.save(buffer, kind)
    return buffer.getvalue()
