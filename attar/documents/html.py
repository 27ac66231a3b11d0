"""HTML: a page without scripts and menus; headings and tables kept. Markdown and the pages of EPUB books, as HTML."""

import html
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from attar.documents.archives import open_package
from attar.documents.extracted import Blob, SourceDocument, TextBuilder, check_size, clean, parse_xml, parsing
from attar.documents.plain import decode_named, decode_text
from attar.errors import FormatError

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_CHARSET = re.compile(rb"""<(?:meta[^>]+charset\s*=|\?xml[^>]+encoding\s*=)\s*["']?\s*([\w.:-]+)""", re.I)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_WORDS = re.compile(r"\w+")
_DROPPED = frozenset(
    _WORDS.findall(
        "script style noscript template head title iframe object svg math canvas audio video button select input "
        "textarea nav menu dialog datalist map"
    )
)
# What stands around the text of a web page.
_AROUND = frozenset(("footer", "aside", "nav", "menu"))
_AROUND_TAGS = frozenset(("div", "ul", "ol", "section", "header", "p", "form", "span"))
_AROUND_ROLES = frozenset(
    _WORDS.findall("navigation banner contentinfo search complementary dialog alert menu menubar")
)
_AROUND_NAMES = re.compile(
    r"(?:^|[-_\s])(?:nav|navbar|navigation|menu|sidebar|breadcrumbs?|footer|cookies?|share|sharing|social|advert|ads|"
    r"related|skip-link|newsletter-signup)(?:$|[-_\s])",
    re.I,
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_TITLES = "|".join(f"//{tag}[normalize-space()]" for tag in sorted(_HEADINGS))
_BLOCKS = _HEADINGS | frozenset(
    _WORDS.findall(
        "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form "
        "header hr html li main ol p pre section summary table tbody td tfoot th thead tr ul caption option legend"
    )
)
_BREAK = "\0"
# libxml2's errors after which it ignores the rest of a page.
_DROPPING = frozenset(("ERR_RESOURCE_LIMIT", "ERR_INTERNAL_ERROR", "ERR_NAME_TOO_LONG"))
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)[^<>]*>")
_HIDDEN = frozenset(("script", "style", "template", "noscript"))
# A table with more columns, or longer cells, arranges a page.
_MAX_COLUMNS, _LONGEST_CELL = 40, 400
# A block of which most is links is a menu, if it has at least this many.
_LINKED, _LINKS = 0.75, 4
# What some programs write before a Markdown text: lines of "key: value" between two lines of dashes.
_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?\n)---[^\S\n]*(?:\n|\Z)", re.S)
_FRONT_LINE = re.compile(r"^(title|date)[^\S\n]*:[^\S\n]*(.+)$", re.M | re.I)
# A comment ends before the next one begins: to look for the end of each from its beginning would be quadratic.
_MARKUP = re.compile(r"<!--(?:(?!<!--|-->).)*-->|</?[A-Za-z][^<>]*>", re.S)
_LINE_BREAK = re.compile(r"<br\b", re.I)
# Lists and quotes of Markdown nested deeper than this are read as plain text: Python's stack is not deeper.
_DEEPEST = 100
# Bytes of a page of a book.
_MAX_PAGE = 2**26


def read_html(blob: Blob) -> Iterator[SourceDocument]:
    """The main text of an HTML page, its title and its date."""
    markup = decode_html(blob.data(), blob.where)
    with parsing(blob.where, "an HTML page"):
        yield extract_page(markup)


def read_markdown(blob: Blob) -> Iterator[SourceDocument]:
    """A Markdown file, as the HTML that it stands for; the front matter gives title and date."""
    text = decode_text(blob.data(), blob.where).replace("\r\n", "\n")
    front = _FRONT.match(text)
    facts = (
        {key.lower(): value.strip("\"' ") for key, value in _FRONT_LINE.findall(front[1])} if front else {}
    )
    with parsing(blob.where, "Markdown"):
        root = parse_html(_rendered(text[front.end() :] if front else text))
        title = "" if root is None else root.xpath(f"string(({_TITLES})[1])")
        yield _extracted(root, facts.get("title", title), facts.get("date", ""))


def _rendered(markdown: str) -> str:
    """Markdown as HTML, where lines and the spaces in them stay, and HTML in it is without its tags."""
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML

    too_deep = False

    def note_depth(state: "StateBlock", first_line: int, last_line: int, silent: bool) -> bool:
        # The parser would drop what is too deep without a word.
        nonlocal too_deep
        too_deep = too_deep or state.level >= _DEEPEST - 2
        return False

    def lines(text: str) -> str:
        return f"<pre>{html.escape(text)}</pre>"

    def inline(markup: str) -> str:
        return "<br>" if _LINE_BREAK.match(markup) else html.escape(_MARKUP.sub("", markup))

    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable("table")
    parser.block.ruler.before("table", "depth", note_depth)
    renderer = RendererHTML(parser)
    rules: dict[str, Any] = renderer.rules
    rules["paragraph_open"], rules["paragraph_close"] = lambda *_: "<pre>", lambda *_: "</pre>"
    rules["hardbreak"] = lambda *_: "\n"
    rules["table_open"] = lambda *_: '<table role="table">'
    rules["fence"] = rules["code_block"] = lambda tokens, at, *_: lines(tokens[at].content)
    rules["html_block"] = lambda tokens, at, *_: lines(html.unescape(_MARKUP.sub(" ", tokens[at].content)))
    rules["html_inline"] = lambda tokens, at, *_: inline(tokens[at].content)
    rules["image"] = lambda tokens, at, *_: html.escape(tokens[at].content)
    tokens = parser.parse(markdown)
    return lines(markdown) if too_deep else renderer.render(tokens, parser.options, {})


def decode_html(data: bytes, where: str) -> str:
    """Decode a page by the encoding that it names, if that is right."""
    named = _CHARSET.search(data[:4096])
    if named is None or data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return decode_text(data, where)
    return decode_named(data, named[1].decode("ascii"), where)


def extract_page(markup: str) -> SourceDocument:
    """The text of a page without its menus and footers."""
    root = parse_html(markup)
    if root is None:
        return SourceDocument("")
    title, date = clean(root.findtext(".//title") or root.findtext(".//h1") or ""), _date(root)
    _remove_around(root)
    return _extracted(root, title, date)


def _extracted(root: Any, title: str, date: str) -> SourceDocument:
    builder = TextBuilder()
    if root is not None:
        add_html(builder, root)
    return builder.build(title, date)


def text_of_html(markup: str) -> str:
    """The text of a piece of HTML, without choosing parts of it."""
    return _extracted(parse_html(markup), "", "").text


def add_html(builder: TextBuilder, root: Any) -> None:
    """Add the paragraphs, headings and tables of parsed HTML in order."""
    from lxml import etree

    pieces: list[str] = []

    def close(tag: str = "") -> None:
        text = "".join(pieces)
        pieces.clear()
        if tag == "pre":
            text = text.replace(_BREAK, "\n")
        else:
            text = "\n".join(" ".join(line.split()) for line in text.split(_BREAK))
        (builder.heading if tag in _HEADINGS else builder.add)(text)

    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        tag = tag.rpartition("}")[2].lower()
        if event == "start":
            if tag in _BLOCKS:
                close()
            if tag == "br":
                pieces.append(_BREAK)
            rows = _table_rows(element) if tag == "table" else None
            if rows is not None:
                builder.table(rows, header=_has_header(element))
            if rows is not None or tag in _DROPPED:
                walk.skip_subtree()
            else:
                pieces.append((element.text or "").replace(_BREAK, ""))
        else:
            if tag in _BLOCKS:
                close(tag)
            if element is not root:
                pieces.append((element.tail or "").replace(_BREAK, ""))
    close()


def parse_html(markup: str) -> Any:
    """The tree of a page; None for an empty one. HTML has no entities of its own that could expand."""
    markup = _XML_DECLARATION.sub("", markup).replace("\0", "")
    if not markup.strip():
        return None
    root, whole = _parse(markup)
    return root if whole else _parse(_flat(markup))[0]


def _parse(markup: str) -> tuple[Any, bool]:
    """The tree, and whether all of the markup is in it: libxml2 drops what is nested more than 2,048 deep."""
    from lxml import etree

    # huge_tree: otherwise it drops the rest of a page after 256 open tags, or after an attribute of 10 MB.
    parser = etree.HTMLParser(
        no_network=True, remove_comments=True, remove_pis=True, encoding="utf-8", huge_tree=True
    )
    root = etree.fromstring(markup.encode("utf-8", "replace"), parser)
    dropped = any(entry.type_name in _DROPPING for entry in parser.error_log)
    return root, not dropped


def _flat(markup: str) -> str:
    """The markup as paragraphs that are not nested: an element that is a block begins one, all other tags go."""
    pieces, end, dropped = ["<p>"], 0, ""
    for tag in _TAG.finditer(markup):
        closing, name = tag[1] == "/", tag[2].lower()
        if not dropped:
            pieces.append(markup[end : tag.start()].replace("<", "&lt;"))
            pieces.append("<p>" if name in _BLOCKS else "<br>" if name == "br" else "")
            dropped = name if name in _HIDDEN and not closing else ""
        elif closing and name == dropped:
            dropped = ""
        end = tag.end()
    if not dropped:
        pieces.append(markup[end:].replace("<", "&lt;"))
    return "".join(pieces)


class _Size(NamedTuple):
    """What an element holds: characters, those without spaces, words; its links, and what these hold."""

    length: int
    letters: int
    words: int
    links: int
    linked_letters: int
    linked_words: int


def _sizes(elements: Sequence[Any]) -> dict[Any, _Size]:
    """The sizes of elements in the order of the page, each from its children's: a page may be nested 2,000 deep."""
    sizes: dict[Any, _Size] = {}
    for element in reversed(elements):
        texts = [element.text or "", *(child.tail or "" for child in element)]
        inside = [sizes[child] for child in element]
        links = [sizes[child] for child in element if child.tag == "a" and child.get("href") is not None]
        words = [word for text in texts for word in text.split()]
        sizes[element] = _Size(
            sum(len(text.strip()) for text in texts) + sum(size.length for size in inside),
            sum(map(len, words)) + sum(size.letters for size in inside),
            len(words) + sum(size.words for size in inside),
            len(links) + sum(size.links for size in inside),
            sum(size.letters for size in links) + sum(size.linked_letters for size in inside),
            sum(size.words for size in links) + sum(size.linked_words for size in inside),
        )
    return sizes


def _remove_around(root: Any) -> None:
    elements = [*root.iter("*")]
    sizes = _sizes(elements)
    for element in elements:
        parent = element.getparent()
        if parent is None or element.tag in ("html", "body"):
            continue
        size = sizes[element]
        around = element.tag in _AROUND or (
            2 * size.length < sizes[root].length and _is_around(element, size)
        )
        if around or element.tag in ("script", "style"):
            previous, tail = element.getprevious(), element.tail
            parent.remove(element)
            if tail and previous is not None:
                previous.tail = (previous.tail or "") + tail
            elif tail:
                parent.text = (parent.text or "") + tail


def _is_around(element: Any, size: _Size) -> bool:
    """Whether an element looks like a menu or footer."""
    if element.tag not in _AROUND_TAGS:
        return False
    style = (element.get("style") or "").replace(" ", "")
    names = f"{element.get('class') or ''} {element.get('id') or ''}"
    return (
        element.tag == "form"
        or element.get("hidden") is not None
        or "display:none" in style
        or element.get("role") in _AROUND_ROLES
        or _AROUND_NAMES.search(names) is not None
        or _is_menu(size)
    )


def _is_menu(size: _Size) -> bool:
    # A list of sources has long links.
    is_linked = size.links >= _LINKS and size.linked_letters >= _LINKED * size.letters
    return is_linked and size.linked_words < 5 * size.links


def _date(root: Any) -> str:
    for path in (
        ".//meta[@property='article:published_time']",
        ".//meta[@name='date']",
        ".//meta[@name='dcterms.date']",
    ):
        found = root.find(path)
        if found is not None and found.get("content"):
            return clean(found.get("content"))[:40]
    time = root.find(".//time[@datetime]")
    return "" if time is None else clean(time.get("datetime"))[:40]


def _table_rows(table: Any) -> list[list[str]] | None:
    """The cells of a table of data; None for one that arranges a page."""
    if table.find(".//table") is not None:
        return None
    rows = [
        ["".join(_cell_text(cell)) for cell in row if cell.tag in ("td", "th")] for row in table.iter("tr")
    ]
    if rows and table.get("role") == "table":
        return rows
    cells = [cell for row in rows for cell in row]
    if len(rows) < 2 or not 2 <= max(map(len, rows)) <= _MAX_COLUMNS or max(map(len, cells)) > _LONGEST_CELL:
        return None
    return rows


def _cell_text(cell: Any) -> Iterator[str]:
    for element in cell.iter():
        if element.tag not in _DROPPED and element.text:
            yield element.text
        if element is not cell and element.tail:
            yield element.tail
        elif element.tag in _BLOCKS or element.tag == "br":
            yield " "


def _has_header(table: Any) -> bool | None:
    """Whether the first row has the names of the columns; None if nothing says so."""
    row = next(table.iter("tr"))
    names = [cell.tag == "th" for cell in row if cell.tag in ("td", "th")]
    return True if names and all(names) else None


def read_epub(blob: Blob) -> Iterator[SourceDocument]:
    """A book: its pages in the order of its spine, with its title and date."""
    with parsing(blob.where, "an EPUB book"):
        archive = open_package(blob, blob.limits.max_decompressed)
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
        folder = place.rpartition("/")[0]
        pages = (
            unquote(items.get(reference, "")).partition("#")[0]
            for reference in package.xpath("//*[local-name()='spine']/*[local-name()='itemref']/@idref")
        )
        # From the folder of the book's description; `..` leads no further than to the top.
        members = (posixpath.normpath(f"/{folder}/{page}").lstrip("/") for page in pages if page)
        # A page is read once, however often, and by how many names, the book has it.
        for member in dict.fromkeys(members):
            if member not in archive.NameToInfo:
                continue
            check_size(
                blob.where, archive.NameToInfo[member].file_size, min(blob.limits.max_decompressed, _MAX_PAGE)
            )
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
