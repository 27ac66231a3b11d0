"""What a file becomes: a text with its title, date and labelled parts; and the bytes that it is read from."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

from attar.documents.columns import with_tables
from attar.documents.tables import row_texts
from attar.errors import AttarError, FormatError, MissingError, install_command
from attar.files import replace_surrogates
from attar.options import FileLimits

# The most parts of a document, so that a hostile file cannot fill a list of documents; what follows has no part.
MAX_PARTS = 10_000
# The most characters of a document: a few kilobytes of a file can stand for gigabytes of text.
MAX_TEXT = 2**26
_LONGEST_LABEL = 80
_PIECE = 2**20
# Control characters without tab and line feed, soft hyphens, and marks of zero width or of direction.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u2060\ufeff]")
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")
# "Bill to:      Invoice date: 3 May" are two lines next to each other.
_BEFORE_LABEL = re.compile(r"(?<=\S)[^\S\n]{3,}(?=[^\W_][^\s:]*(?: [^\s:]+){0,3}:(?:\s|\Z))")

OnBad = Callable[[AttarError], None]


class Part(NamedTuple):
    """Where a part of a text begins, and its label, such as "page 3"; an empty label ends the part before."""

    start: int
    label: str


class SourceDocument(NamedTuple):
    """A text with its title, date (ISO 8601) and parts, and its name; `read_sources` adds where it is from.

    A file's only document has no name of its own until `read_stream` gives it the file's. `incomplete` says what of the
    file is missing in the text, if anything. `pictures` are pages whose text has to be recognised: `FileReader` does.
    """

    text: str
    title: str = ""
    date: str = ""
    parts: tuple[Part, ...] = ()
    name: str = ""
    incomplete: str = ""
    pictures: tuple[bytes, ...] = ()
    source: str = ""


@dataclass
class Budget:
    """What an archive and all archives in it may still hold, and whether one of their members was refused."""

    members: int
    bytes: int
    refused: bool = False


@dataclass(frozen=True)
class Blob:
    """The bytes of a file, or of a member of an archive; `where` is its name in errors, `name` the document's.

    `report` is called with the error of a member that cannot be read; the others are read nevertheless.
    """

    where: str
    name: str
    file: IO[bytes]
    limits: FileLimits
    compressed: bool = False
    depth: int = 0
    report: OnBad | None = None
    budget: Budget | None = field(default=None, compare=False)

    def data(self) -> bytes:
        """All bytes; of a compressed file at most `limits.max_decompressed`."""
        if not self.compressed:
            return self.file.read()
        data = bytearray()
        # In pieces: to read at most a gigabyte, Python takes a gigabyte.
        while piece := self.file.read(_PIECE):
            data += piece
            check_size(self.where, len(data), self.limits.max_decompressed)
        return bytes(data)


class TextBuilder:
    r"""Joins paragraphs with blank lines between them, and notes where parts begin.

    >>> builder = TextBuilder()
    >>> builder.begin("page 1")
    >>> builder.add("Ann  left.")
    >>> builder.begin("page 2")
    >>> builder.add("Bob\ncame.")
    >>> builder.build()[0], builder.build().parts[1]
    ('Ann left.\n\nBob\ncame.', Part(start=11, label='page 2'))
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._label: str | None = None
        self._parts: list[Part] = []
        self._missing = ""

    def leave_out(self, missing: str) -> None:
        """Note that the file has more than the text; the first such note is kept."""
        self._missing = self._missing or missing

    def begin(self, label: str) -> None:
        """Give the next paragraph and those after it a label; an empty one ends the part."""
        self._label = label

    def add(self, paragraph: str, joint: str = "\n\n") -> None:
        """Add a paragraph, a table in columns of spaces as its rows; a blank one is left out."""
        for part in with_tables(paragraph):
            self._add(_BEFORE_LABEL.sub("\n", part), joint)
            joint = "\n\n"

    def _add(self, paragraph: str, joint: str = "\n\n") -> None:
        text = clean(paragraph)
        if not text:
            return
        if self._length + len(text) > MAX_TEXT:
            self.leave_out(f"what follows after {self._length:,} characters")
            return
        if self._pieces:
            self._pieces.append(joint)
            self._length += len(joint)
        if self._label is not None:
            self._note(self._length, short(self._label))
            self._label = None
        self._pieces.append(text)
        self._length += len(text)

    def heading(self, text: str) -> None:
        """Add a heading, which is also the label of what follows."""
        if title := clean(text):
            self.begin(title)
            self.add(title)

    def table(self, rows: Sequence[Sequence[str]], header: bool | None = None) -> None:
        """Add the rows of a table as sentences, each row a paragraph."""
        for row in row_texts([[clean(cell) for cell in row] for row in rows], header):
            self._add(row.text)

    def build(self, title: str = "", date: str = "") -> SourceDocument:
        """The text so far."""
        text = "".join(self._pieces)
        return SourceDocument(text, short(title), short(date), tuple(self._parts), incomplete=self._missing)

    def _note(self, start: int, label: str) -> None:
        if (self._parts[-1].label if self._parts else "") == label or len(self._parts) > MAX_PARTS:
            return
        # The last one ends the part before, rather than giving its label to all that follows.
        self._parts.append(Part(start, label if len(self._parts) < MAX_PARTS else ""))


def clean(text: str) -> str:
    r"""Collapse spaces and blank lines, and remove invisible characters.

    >>> clean(" caf\xe9\xa0 noir \n \n\n is\xadn't ")
    "café noir\n\nisn't"
    """
    text = replace_surrogates(_INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    return _BLANK_LINES.sub("\n\n", _LINE_ENDS.sub("\n", _SPACES.sub(" ", text))).strip()


def short(label: str) -> str:
    """A label or title on one line, cut if it is long."""
    line = " ".join(clean(label).split())
    return line if len(line) <= _LONGEST_LABEL else line[: _LONGEST_LABEL - 1] + "…"


def report(error: AttarError, on_bad: OnBad | None) -> None:
    """Tell of what cannot be read, so that the rest is read nevertheless; without anybody to tell, raise it."""
    if on_bad is None:
        raise error
    on_bad(error)


def check_size(where: str, size: int, max_bytes: int) -> None:
    """Refuse a compressed file that grows to more than `max_bytes`."""
    if size > max_bytes:
        # That of `attar add`: a server's option of this name does not raise this limit.
        remedy = "decompress it first, or raise --max-file-memory-mb of attar add"
        raise FormatError.expected(where, f"at most {max_bytes:,} bytes when decompressed", "more", remedy)


@contextmanager
def parsing(where: str, expected: str) -> Iterator[None]:
    """Report in one line that a file cannot be parsed: parsers of damaged files raise errors of any kind.

    A package that is not installed is reported with the command that installs it.
    """
    try:
        yield
    except (AttarError, MemoryError):
        raise
    except ImportError as fault:
        package = (fault.name or str(fault)).partition(".")[0]
        sentence = f"{where}: reading {expected} needs the package {package}"
        raise MissingError(sentence, install_command("documents")) from fault
    except Exception as fault:
        reason = " ".join(str(fault).split())[:120] or type(fault).__name__
        remedy = "open it and save it again, or leave it out"
        raise FormatError(f"{where} is not {expected}, or is damaged ({reason})", remedy) from fault


def parse_xml(data: bytes) -> Any:
    """The root of XML from a stranger: entities are not expanded, and nothing is fetched."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)
