"""Texts as files of many kinds, made with other libraries than those that read them, or with the standard library."""

import html
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import EmailMessage
from typing import Any

from attar.documents.extracted import SourceDocument
from attar.documents.sources import document_name, read_stream
from attar.errors import AttarError
from attar.options import FileLimits

# Word's default style of a heading, and how a heading is written here.
HEADING = "# "


def read_here(
    name: str,
    data: bytes,
    max_bytes: int = 2**30,
    *,
    on_bad: Callable[[AttarError], None] | None = None,
) -> Iterator[SourceDocument]:
    """The documents of a file, read in this process and not in that of a `FileReader`; pictures are refused."""
    limits = FileLimits(max_decompressed=max_bytes, ocr="never")
    return read_stream(name, document_name(name), io.BytesIO(data), limits, on_bad)


def pdf_of(pages: Sequence[str], *, title: str = "", header: str = "", password: str = "") -> bytes:
    """A PDF file with a page, or several if it is long, for each text; blank lines are between paragraphs."""
    from fpdf import FPDF
    from fpdf.enums import XPos, YPos

    class File(FPDF):
        def header(self) -> None:
            if header:
                self.cell(0, 8, f"{header} {self.page_no()}", new_x=XPos.LMARGIN, new_y=YPos.NEXT)

    file = File()
    file.set_font("helvetica", size=11)
    file.set_title(title)
    if password:
        file.set_encryption(owner_password=password, user_password=password)
    for page in pages:
        file.add_page()
        for paragraph in page.split("\n\n"):
            text = paragraph.encode("latin-1", "replace").decode("latin-1")
            file.multi_cell(0, 6, text, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
            file.ln(4)
    return bytes(file.output())


def docx_of(text: str, *, table: Sequence[Sequence[str]] = (), title: str = "") -> bytes:
    """A Word document; a paragraph that begins with "# " is a heading."""
    import docx

    document = docx.Document()
    document.core_properties.title = title
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(HEADING):
            document.add_heading(paragraph.removeprefix(HEADING), 1)
        else:
            document.add_paragraph(paragraph)
    if table:
        made = document.add_table(len(table), len(table[0]))
        for row, cells in zip(made.rows, table, strict=True):
            for cell, value in zip(row.cells, cells, strict=True):
                cell.text = value
    return saved(document)


def xlsx_of(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """A spreadsheet of named sheets of rows."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return saved(book)


def html_of(text: str, *, title: str = "", around: bool = False) -> bytes:
    """A page; `around`: with a menu, scripts and a footer, as on a web site."""
    parts = [
        f"<h2>{html.escape(part.removeprefix(HEADING))}</h2>"
        if part.startswith(HEADING)
        else f"<p>{html.escape(part)}</p>".replace("\n", "<br>\n")
        for part in text.split("\n\n")
    ]
    links = "".join(
        f'<li><a href="/{word}">{word.title()}</a></li>' for word in ("menuone", "menutwo", "menusix")
    )
    before = f"<script>var tracked = 1;</script><nav><ul>{links}</ul></nav><main>" if around else ""
    after = "</main><footer>Imprintword</footer><script>track()</script>" if around else ""
    style = "<style>p { color: red }</style>"
    head = (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{html.escape(title)}</title>{style}</head>'
    )
    return f"{head}<body>{before}{''.join(parts)}{after}</body></html>".encode()


def eml_of(
    text: str, *, subject: str = "Notes", html_only: bool = False, attached: Sequence[str] = ()
) -> bytes:
    """An e-mail from Ann Lee to Bob Ray of 4 March 2026."""
    message = EmailMessage()
    message["From"] = "Ann Lee <ann@example.org>"
    message["To"] = "Bob Ray <bob@example.org>"
    message["Date"] = "Wed, 04 Mar 2026 14:05:00 +0000"
    message["Subject"] = subject
    if html_only:
        message.set_content(html_of(text).decode(), subtype="html")
    else:
        message.set_content(text)
    for name in attached:
        message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def mbox_of(messages: Sequence[bytes]) -> bytes:
    """An mbox file of e-mails."""
    return b"".join(
        b"From ann@example.org Wed Mar  4 14:05:00 2026\n" + message.replace(b"\nFrom ", b"\n>From ") + b"\n"
        for message in messages
    )


def epub_of(chapters: Sequence[str], *, title: str = "A Book") -> bytes:
    """A book; the order of its files is not that of its chapters."""
    items = "".join(
        f'<item id="c{at}" href="text/c{at}.xhtml" media-type="application/xhtml+xml"/>'
        for at in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    package = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:date>1815</dc:date>'
        f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    pages = {f"OEBPS/text/c{at}.xhtml": html_of(text) for at, text in enumerate(chapters)}
    files = {"mimetype": b"application/epub+zip", "META-INF/container.xml": container.encode()}
    return zip_of(files | dict(reversed(pages.items())) | {"OEBPS/book.opf": package.encode()})


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tar_of(files: Mapping[str, bytes], compression: str = "") -> bytes:
    """A tar archive, compressed with "gz" or "xz" or not."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def pdf_table_of(
    title: str, before: Sequence[str], rows: Sequence[Sequence[str]], after: Sequence[str] = ()
) -> bytes:
    """A PDF file with a table without lines between its cells, as office programs print them."""
    from fpdf import FPDF
    from fpdf.enums import TableBordersLayout, XPos, YPos

    file = FPDF()
    file.set_font("helvetica", size=11)
    file.add_page()
    file.set_font("helvetica", style="B", size=14)
    file.cell(0, 10, title, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    file.set_font("helvetica", size=11)
    for line in before:
        file.cell(0, 6, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    file.ln(4)
    with file.table(rows, borders_layout=TableBordersLayout.NONE):
        pass
    file.ln(4)
    for line in after:
        file.multi_cell(0, 6, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    return bytes(file.output())


def saved(document: Any) -> bytes:
    """The bytes of a file that one of these libraries made."""
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()
