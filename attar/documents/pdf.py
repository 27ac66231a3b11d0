"""PDF: the text of its pages, with their numbers; lines joined to paragraphs."""

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from attar.documents.extracted import Blob, Extracted, TextBuilder, clean, parsing
from attar.errors import FormatError

# A line this much shorter than the longest of its page ends a paragraph, if what follows can begin one.
_SHORT = 0.7
# A first or last line that this share of the pages has, but for its numbers, is a header or footer.
_REPEATED, _FEWEST_PAGES = 0.6, 3
_DIGITS = re.compile(r"\d+")
_HYPHENATED = re.compile(r"[^\W\d_]-\Z")
_END = re.compile(r"[.!?:;][\"'”’)\]]*\Z")
_ITEM = re.compile(r"(?:[-–•*▪◦‣]|\(?\w{1,3}[.)])\s")


def read_pdf(blob: Blob) -> Iterator[Extracted]:
    """A PDF file: its pages as parts, title and date from its description."""
    data = blob.data()
    with parsing(blob.where, "a PDF file"):
        import pypdf

        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        file = pypdf.PdfReader(io.BytesIO(data))
        if file.is_encrypted and not file.decrypt(""):
            raise FormatError(f"{blob.where} is encrypted", "save it without a password")
        pages = [clean(page.extract_text()) for page in file.pages]
        if not any(pages):
            count = f"{len(pages)} page{'s' * (len(pages) != 1)}"
            sentence = f"{blob.where} has no text: {count} of pictures"
            raise FormatError(sentence, "recognise its text first (OCR)")
        title, date = (
            str(file.metadata.get(key) or "") if file.metadata else "" for key in ("/Title", "/CreationDate")
        )
    yield join_pages(pages, clean(title), _iso_date(date))


def join_pages(pages: Sequence[str], title: str = "", date: str = "") -> Extracted:
    r"""Pages as one text; a sentence may go on from one to the next.

    >>> join_pages(["Ann and her", "son left."]).text, join_pages(["Ann left.", "Bob came."]).text
    ('Ann and her\nson left.', 'Ann left.\n\nBob came.')
    """
    builder = TextBuilder()
    open_end = False
    for number, lines in enumerate(_without_headers([page.split("\n") for page in pages]), 1):
        builder.begin(f"page {number}")
        for at, paragraph in enumerate(_paragraphs(lines)):
            goes_on = at == 0 and open_end and paragraph[:1].islower()
            builder.add(paragraph, "\n" if goes_on else "\n\n")
            open_end = _END.search(paragraph) is None
    return builder.build(title, date)


def _without_headers(pages: list[list[str]]) -> list[list[str]]:
    """Remove first and last lines that most pages have, such as "Page 3 of 10"."""
    if len(pages) < _FEWEST_PAGES:
        return pages
    for at in (0, -1):
        seen = Counter(_DIGITS.sub("0", page[at]) for page in pages if any(page))
        line, count = seen.most_common(1)[0]
        if count >= max(_FEWEST_PAGES, _REPEATED * len(pages)):
            pages = [
                (page[1:] if at == 0 else page[:-1]) if _DIGITS.sub("0", page[at]) == line else page
                for page in pages
            ]
            pages = [page or [""] for page in pages]
    return pages


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Join the lines of a page; a blank line, or a short line before a new beginning, ends a paragraph."""
    longest = max(map(len, lines), default=0)
    paragraph = ""
    for at, line in enumerate(lines):
        before = lines[at - 1] if at else ""
        if paragraph and (not line or (_begins(line) and _is_short(before, line, longest))):
            yield paragraph
            paragraph = ""
        if _HYPHENATED.search(paragraph) and line[:1].islower():
            paragraph = paragraph[:-1] + line
        else:
            paragraph += ("\n" if paragraph else "") + line
    if paragraph:
        yield paragraph


def _begins(line: str) -> bool:
    return not line[:1].islower() or _ITEM.match(line) is not None


def _is_short(before: str, line: str, longest: int) -> bool:
    """Whether a line ends a paragraph: the first word of the next would have fitted, with room to spare."""
    if _ITEM.match(line):
        return True
    fits = len(before) + 1 + len(line.partition(" ")[0]) <= longest
    return len(before) < _SHORT * longest or (
        fits and _END.search(before) is not None and len(before) < 0.95 * longest
    )


def _iso_date(date: str) -> str:
    """PDF's own way to write a date.

    >>> _iso_date("D:20260304140500+01'00'"), _iso_date("")
    ('2026-03-04', '')
    """
    found = re.match(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?", date)
    return "" if found is None else "-".join(filter(None, found.groups()))
