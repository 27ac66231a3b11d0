"""Small files that once froze, swelled or ended the process that read them, or lost their text without a word."""

import io
import json
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import openpyxl

from tests.documents.document_files import docx_of, zip_of


class Attack(NamedTuple):
    """A file, and the last words of its text, which must not be lost."""

    file_name: str
    make: Callable[[], bytes]
    last_words: str


def _stray_cell() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active["A1"], workbook.active["A1048576"] = "hello", "stray"
    data = io.BytesIO()
    workbook.save(data)
    return data.getvalue()


def _spine(names: int) -> bytes:
    """A book that has the same page 2,000 times, under one name or more."""
    data = io.BytesIO()
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    items = "".join(f'<item id="p{at}" href="p.html#{at}"/>' for at in range(names))
    spine = "".join(f'<itemref idref="p{at % names}"/>' for at in range(2000))
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("META-INF/container.xml", container)
        book.writestr("c.opf", package)
        book.writestr("p.html", "<p>" + "Ann left the house. " * 250_000 + "The end.</p>")
    return data.getvalue()


def _slides() -> bytes:
    """A presentation that has the same slide 2,000 times, with paragraphs in paragraphs."""
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    office = "http://schemas.openxmlformats.org"
    spaces = f'xmlns:p="{office}/presentationml/2006/main" xmlns:a="{office}/drawingml/2006/main"'
    listed = '<p:sldId r:id="r1"/>' * 2000
    show = (
        f'<p:presentation {spaces} xmlns:r="{relations}"><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>'
    )
    text = f"<a:t>{'Ann left the house. ' * 100_000}The end.</a:t>"
    slide = f"<p:sld {spaces}><p:sp>{'<a:p>' * 200}{text}{'</a:p>' * 200}</p:sp></p:sld>"
    related = f'<Relationships xmlns="{office}/package/2006/relationships">'
    related += '<Relationship Id="r1" Target="slides/1.xml"/></Relationships>'
    files = {
        "ppt/presentation.xml": show,
        "ppt/_rels/presentation.xml.rels": related,
        "ppt/slides/1.xml": slide,
    }
    return zip_of({name: text.encode() for name, text in files.items()})


def _comments() -> bytes:
    """A Word document that has the same comments 2,000 times."""
    with zipfile.ZipFile(io.BytesIO(docx_of("Ann came."))) as made:
        files = {name: made.read(name) for name in made.namelist()}
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/comments"
    related = "".join(f'<Relationship Id="c{at}" Type="{kind}" Target="comments.xml"/>' for at in range(2000))
    relations, types = "word/_rels/document.xml.rels", "[Content_Types].xml"
    files[relations] = files[relations].replace(b"</Rel", f"{related}</Rel".encode())
    media = "application/vnd.openxmlformats-officedocument.wordprocessingml.comments+xml"
    part = f'<Override PartName="/word/comments.xml" ContentType="{media}"/>'
    files[types] = files[types].replace(b"</Types>", f"{part}</Types>".encode())
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    words = f"<w:t>{'Ann left the house. ' * 50_000}The end.</w:t>"
    comments = f"<w:comments {space}><w:comment><w:p><w:r>{words}</w:r></w:p></w:comment></w:comments>"
    return zip_of(files | {"word/comments.xml": comments.encode()})


def _attached(parameters: str) -> bytes:
    """An e-mail with an attached file that has the same parameters."""
    file = f"--x\nContent-Disposition: attachment{parameters}\n\nThe end.\n--x--\n"
    return f"From: a@b\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nhi\n{file}".encode()


def _columns() -> bytes:
    """A table of 900 columns of spaces, whose rows have a cell less each, and then two cells each."""
    names = "   ".join(f"n{at:03}" for at in range(900))
    row = "   ".join(["1234"] * 899)
    return "\n".join([names, *[row] * 200, *["word   1234"] * 100_000, "The end."]).encode()


def _nested_list() -> bytes:
    items = "\n".join("  " * level + f"- item {level}" for level in range(15))
    return f"# Plan\n\n{items}\n\nLast paragraph.\n".encode()


def _unclosed_tags() -> bytes:
    return ("<p>" + "".join(f"<font>word{n} " for n in range(30_000)) + "</p><p>LASTWORD</p>").encode()


def _nested_keys() -> bytes:
    return (('{"' + "k" * 10_000 + '":') * 100 + "[" + "[{}]," * 20_000 + "1]" + "}" * 100).encode()


ATTACHED = {
    "a file name of 20,000 encoded words": lambda: _attached(f'; filename="{"=?utf-8?q?a?= " * 20_000}.txt"'),
    "20,000 parameters of a file name": lambda: _attached(
        "".join(f"; filename*{at}=a" for at in range(20_000)) + "; x=.txt"
    ),
}
ATTACKS = {
    "a list nested 15 deep": Attack("a.md", lambda: _nested_list(), "item 14\n\nLast paragraph."),
    "a charset that Python refuses": Attack(
        "a.html", lambda: b"<meta charset=undefined><p>hello</p>", "hello"
    ),
    "30,000 unclosed tags": Attack("a.html", _unclosed_tags, "word29999\n\nLASTWORD"),
    "an image of 11 MB in the page": Attack(
        "a.html",
        lambda: b'<p>start</p><img src="data:image/png;base64,' + b"A" * (11 * 2**20) + b'"><p>LASTWORD</p>',
        "LASTWORD",
    ),
    "a column name of 1 MB": Attack("a.csv", lambda: b"h" * 1_000_000 + b",b\n" + b"x,y\n" * 3_000, "b: y."),
    "keys of 10 kB nested 100 deep": Attack("a.json", _nested_keys, "1."),
    "200,000 recipients": Attack("a.eml", lambda: b"From: a@b\n" + b"To: b@c\n" * 200_000 + b"\nhi\n", "hi"),
    "a stray cell in the last row": Attack("a.xlsx", _stray_cell, "stray."),
    "a page that the spine names 2,000 times": Attack("a.epub", lambda: _spine(1), "The end."),
    "a page with 2,000 names in the spine": Attack("a.epub", lambda: _spine(2000), "The end."),
    "a slide that is named 2,000 times": Attack("a.pptx", _slides, "The end."),
    "comments that are named 2,000 times": Attack("a.docx", _comments, "The end."),
    "1,000 parameters of a phone number": Attack(
        "a.vcf", lambda: b"BEGIN:VCARD\nFN:Ann\nTEL" + b";" * 1_000 + b"\nTEL:123\nEND:VCARD\n", "is 123."
    ),
    "20,000 rows with a key of their own each": Attack(
        "a.json", lambda: json.dumps([{f"k{at}": at} for at in range(20_000)]).encode(), "is 19999."
    ),
    "a cell of 1 MB before 400 others": Attack(
        "a.csv",
        lambda: f"{','.join(f'n{at}' for at in range(401))}\n{'K' * 1_000_000}{',x' * 400}\n".encode(),
        "n400 x).",
    ),
    "900 columns of spaces": Attack("a.txt", _columns, "The end."),
}
