"""PDF: the text of its pages, with their numbers; lines joined to paragraphs."""

import io
import itertools
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from attar.documents.columns import with_tables
from attar.documents.extracted import Blob, SourceDocument, TextBuilder, check_size, clean, parsing
from attar.errors import FormatError

if TYPE_CHECKING:
    from pypdf import PageObject

# A first or last line that this share of the pages has, but for its numbers, is a header or footer.
_REPEATED, _FEWEST_PAGES = 0.6, 2
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"\W*(?:page\s*)?\d{1,4}(?:\s*(?:of|/)\s*\d{1,4})?\W*", re.I)
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zß-ÿ])")
# A line that begins with a small letter goes on from the one before.
_WRAPPED = re.compile(r"(?<=\S)\n(?=[a-zß-ÿ])")
_END = re.compile(r"[.!?:;][\"'”’)\]]*\Z")
# Two pieces of prose next to each other: a page of this share of such lines has columns that are read one by one.
_SIDE_BY_SIDE = re.compile(r"(?:\S+ ){3,}\S+\s{2,}(?:\S+ ){3,}\S+")
_COLUMNS = 0.2


class _Shown(NamedTuple):
    """A text that a page shows, and where, in points."""

    y: int
    x: int
    text: str


def read_pdf(blob: Blob) -> Iterator[SourceDocument]:
    """A PDF file: its pages as parts, title and date from its description."""
    data = blob.data()
    with parsing(blob.where, "a PDF file"):
        import pypdf

        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        file = pypdf.PdfReader(io.BytesIO(data))
        if file.is_encrypted and not (
            file.decrypt("") or (blob.limits.password and file.decrypt(blob.limits.password))
        ):
            remedy = "its password is another"
            if not blob.limits.password:
                remedy = "add it with --password, or save it without a password"
            raise FormatError(f"{blob.where} is encrypted", remedy)
        pages = [*map(_page_text, file.pages)]
        has_text = any(map(str.strip, pages))
        if not has_text and blob.limits.ocr == "never":
            count = f"{len(pages)} page{'s' * (len(pages) != 1)}"
            raise FormatError(f"{blob.where} has no text: {count} of pictures", "recognise it with ocr auto")
        pictures: tuple[bytes, ...] = ()
        if not has_text or blob.limits.ocr == "always":
            pictures = tuple(_pictures(file.pages, blob))
            # A page without a picture has text, or nothing.
            pictures = () if has_text and not all(pictures) else tuple(filter(None, pictures))
        if not has_text and not pictures:
            raise FormatError(f"{blob.where} has no text and no pictures", "leave it out")
        blank = sum(
            not text.strip() and bool(page.images) for text, page in zip(pages, file.pages, strict=True)
        )
        title, date = (
            str(file.metadata.get(key) or "") if file.metadata else "" for key in ("/Title", "/CreationDate")
        )
    found = join_pages(pages, clean(title), _iso_date(date))
    missing = f"{blank} pages of pictures" if has_text and blank else found.incomplete
    yield found._replace(pictures=pictures, incomplete=missing)


def read_picture(blob: Blob) -> Iterator[SourceDocument]:
    """A scan or photo, whose text is to be recognised."""
    if blob.limits.ocr == "never":
        raise FormatError(f"{blob.where} is a picture", "recognise its text with ocr auto")
    yield SourceDocument("", pictures=(blob.data(),))


def _pictures(pages: "Iterable[PageObject]", blob: Blob) -> Iterator[bytes]:
    """The largest picture of each page; many pages may show the same one."""
    size = 0
    for page in pages:
        picture = max((bytes(image.data) for image in page.images), key=len, default=b"")
        size += len(picture)
        check_size(blob.where, size, blob.limits.max_decompressed)
        yield picture


def join_pages(pages: Sequence[str], title: str = "", date: str = "") -> SourceDocument:
    r"""Pages as one text; a sentence may go on from one to the next.

    >>> join_pages(["Ann and her", "son left."]).text, join_pages(["Ann left.", "Bob came."]).text
    ('Ann and her\nson left.', 'Ann left.\n\nBob came.')
    """
    builder = TextBuilder()
    open_end = False
    for number, page in enumerate(_without_headers([page.strip("\n").split("\n") for page in pages]), 1):
        builder.begin(f"page {number}")
        text = _WRAPPED.sub(" ", _HYPHENATED.sub("", "\n".join(line.rstrip() for line in page)))
        for at, part in enumerate(part for table in with_tables(text) for part in table.split("\n\n")):
            goes_on = at == 0 and open_end and part[:1].islower()
            builder.add(part, "\n" if goes_on else "\n\n")
            open_end = _END.search(part) is None
    return builder.build(title, date)


def _page_text(page: "PageObject") -> str:
    """The text of a page as it is laid out, with its columns; in its own order, if prose stands side by side.

    The layout leaves out what is rotated: then the page's own order is taken, too.
    """
    shown: list[_Shown] = []

    def take(text: str, _matrix: object, place: Sequence[float], *_font: object) -> None:
        if text.strip():
            shown.append(_Shown(round(place[5]), round(place[4]), text.strip()))

    plain = str(page.extract_text(visitor_text=take))
    layout = _apart(str(page.extract_text(extraction_mode="layout")), shown)
    lines = [line for line in layout.split("\n") if line.strip()]
    side_by_side = sum(_SIDE_BY_SIDE.search(line) is not None for line in lines)
    is_whole = sorted("".join(layout.split())) == sorted("".join(plain.split()))
    return layout if is_whole and side_by_side <= _COLUMNS * len(lines) else plain


def _apart(layout: str, shown: Sequence[_Shown]) -> str:
    r"""A page whose cells do not touch: a text that begins where texts of other lines do is a cell.

    >>> cells = [_Shown(9, 0, "Item"), _Shown(9, 50, "Qty"), _Shown(8, 0, "Desk lamp"), _Shown(8, 50, "3")]
    >>> _apart("Item      Qty\nDesk lamp3", cells)
    'Item      Qty\nDesk lamp   3'
    """
    columns = Counter(x for _, x in {(y, x) for y, x, _ in shown})
    for left, right in itertools.pairwise(shown):
        if left.y == right.y and left.x < right.x and columns[right.x] > 1:
            layout = layout.replace(left.text + right.text, f"{left.text}   {right.text}")
    return layout


def _without_headers(pages: list[list[str]]) -> list[list[str]]:
    """Remove page numbers, and first and last lines that most pages have, such as "Annual report 2026"."""
    for at in (0, -1):
        seen = Counter(_DIGITS.sub("0", page[at].strip()) for page in pages if any(page))
        line, count = seen.most_common(1)[0] if seen else ("", 0)
        repeated = count >= max(_FEWEST_PAGES, _REPEATED * len(pages))
        for page in pages:
            first = page[at].strip()
            is_header = (repeated and _DIGITS.sub("0", first) == line) or _PAGE_NUMBER.fullmatch(first)
            if is_header and sum(map(bool, map(str.strip, page))) > 1:  # a page is not its header alone
                del page[at]
    return pages


def _iso_date(date: str) -> str:
    """PDF's own way to write a date.

    >>> _iso_date("D:20260304140500+01'00'"), _iso_date("")
    ('2026-03-04', '')
    """
    found = re.match(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?", date)
    return "" if found is None else "-".join(filter(None, found.groups()))
