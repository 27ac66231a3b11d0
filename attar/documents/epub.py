"""EPUB: the pages of a book, in its order."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from attar.documents.extracted import Blob, Extracted, TextBuilder, check_size, clean, parsing
from attar.documents.html import add_html, decode_html, parse_html
from attar.errors import FormatError

_MAX_PAGE = 2**26


def read_epub(blob: Blob) -> Iterator[Extracted]:
    """A book: its pages in the order of its spine, with its title and date."""
    with parsing(blob.where, "an EPUB book"):
        archive = zipfile.ZipFile(io.BytesIO(blob.data()))
        check_size(blob.where, sum(member.file_size for member in archive.infolist()), blob.max_bytes)
        if "META-INF/rights.xml" in archive.namelist():
            raise FormatError(f"{blob.where} is encrypted", "leave it out")
        container = parse_xml(archive.read("META-INF/container.xml"))
        place = next(iter(container.xpath("//*[local-name()='rootfile']/@full-path")), "")
        package = parse_xml(archive.read(place))
        items = {
            item.get("id"): item.get("href") or ""
            for item in package.xpath("//*[local-name()='manifest']/*[local-name()='item']")
        }
        builder = TextBuilder()
        # A page is read once, however often the book names it.
        for reference in dict.fromkeys(
            package.xpath("//*[local-name()='spine']/*[local-name()='itemref']/@idref")
        ):
            folder = place.rpartition("/")[0]
            page = unquote(items.get(reference, "")).partition("#")[0]
            member = _joined(folder, page)
            if not page or member not in archive.NameToInfo:
                continue
            check_size(blob.where, archive.NameToInfo[member].file_size, min(blob.max_bytes, _MAX_PAGE))
            root = parse_html(decode_html(archive.read(member) or b" ", blob.where))
            if root is not None:
                builder.begin("")
                add_html(builder, root)
        facts = [
            clean(
                "".join(package.xpath(f"(//*[local-name()='metadata']/*[local-name()='{name}'])[1]//text()"))
            )
            for name in ("title", "date")
        ]
    yield builder.build(*facts)


def _joined(folder: str, page: str) -> str:
    """The path of a page from the folder of the book's description.

    >>> _joined("OEBPS/text", "../pages/one.xhtml"), _joined("", "one.xhtml")
    ('OEBPS/pages/one.xhtml', 'one.xhtml')
    """
    parts = [part for part in folder.split("/") if part]
    for part in page.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def parse_xml(data: bytes) -> Any:
    """The root of XML from a stranger: entities are not expanded, and nothing is fetched."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)
