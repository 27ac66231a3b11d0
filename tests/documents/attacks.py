"""Small files that once froze, swelled or ended the process that read them, or lost their text without a word."""

import io
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import openpyxl


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


def _spine() -> bytes:
    data = io.BytesIO()
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    spine = '<itemref idref="p"/>' * 2000
    package = f'<package><manifest><item id="p" href="p.html"/></manifest><spine>{spine}</spine></package>'
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("META-INF/container.xml", container)
        book.writestr("c.opf", package)
        book.writestr("p.html", "<p>" + "Ann left the house. " * 250_000 + "The end.</p>")
    return data.getvalue()


def _nested_list() -> bytes:
    items = "\n".join("  " * level + f"- item {level}" for level in range(15))
    return f"# Plan\n\n{items}\n\nLast paragraph.\n".encode()


def _unclosed_tags(count: int) -> bytes:
    return ("<p>" + "".join(f"<font>word{n} " for n in range(count)) + "</p><p>LASTWORD</p>").encode()


def _nested_keys() -> bytes:
    return (('{"' + "k" * 10_000 + '":') * 100 + "[" + "[{}]," * 20_000 + "1]" + "}" * 100).encode()


ATTACKS = {
    "combining marks": Attack(
        "a.txt", lambda: ("a" + "\u0301" * 50_000 + "\u0316" * 50_000).encode(), "\u0316"
    ),
    "comments that never end": Attack("a.md", lambda: b"<div>" + b"<!--" * 40_000 + b"\n\nEnd.\n", "End."),
    "a list nested 15 deep": Attack("a.md", lambda: _nested_list(), "item 14\n\nLast paragraph."),
    "a charset that Python refuses": Attack(
        "a.html", lambda: b"<meta charset=undefined><p>hello</p>", "hello"
    ),
    "300 unclosed tags": Attack("a.html", lambda: _unclosed_tags(300), "word299\n\nLASTWORD"),
    "30,000 unclosed tags": Attack("a.html", lambda: _unclosed_tags(30_000), "word29999\n\nLASTWORD"),
    "an image of 11 MB in the page": Attack(
        "a.html",
        lambda: b'<p>start</p><img src="data:image/png;base64,' + b"A" * (11 * 2**20) + b'"><p>LASTWORD</p>',
        "LASTWORD",
    ),
    "a column name of 1 MB": Attack("a.csv", lambda: b"h" * 1_000_000 + b",b\n" + b"x,y\n" * 3_000, "b: y."),
    "keys of 10 kB nested 100 deep": Attack("a.json", _nested_keys, "1."),
    "a subject of 20,000 encoded words": Attack(
        "a.eml", lambda: b"From: a@b\nSubject: " + b"=?utf-8?q?a?= " * 20_000 + b"\n\nhi\n", "hi"
    ),
    "200,000 recipients": Attack("a.eml", lambda: b"From: a@b\n" + b"To: b@c\n" * 200_000 + b"\nhi\n", "hi"),
    "a stray cell in the last row": Attack("a.xlsx", _stray_cell, "stray."),
    "a page that the spine names 2,000 times": Attack("a.epub", _spine, "The end."),
}
