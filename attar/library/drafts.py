"""Documents to be added: read from files, checked, and in batches that take about two seconds."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attar.errors import AttarError, DtypeError, FormatError, OptionError, quoted
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.search.records import Collector
from attar.search.signatures import Sums
from attar.search.statistics import Projection
from attar.store.origin import Origin
from attar.store.records import Fault, check_name, digest_of
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.documents.extracted import OnBad
    from attar.documents.sources import SourceFile
    from attar.documents.workers import FileReader
    from attar.reader.reader import Reader

# About the seconds of work that a kill loses, and the most and the least text that is read before it is written.
_SECONDS = 2.0
_CHARACTERS, _FEWEST_CHARACTERS = 2**21, 2**16
# By the path of each file that was read in full: its name, and those of its documents.
ReadNames = dict[str, tuple[str, set[str]]]


class Encoded(NamedTuple):
    """What reading a text makes of it: its memory, and the sums of its signature with what they were made with."""

    memory: Memory
    sums: Sums | None
    statistics: bytes


class Draft(NamedTuple):
    """A checked document that can be added; the digest identifies its text.

    `encoded` is there if another process has read the text.
    """

    name: str
    text: str
    title: str
    digest: bytes
    origin: Origin = Origin()
    encoded: Encoded | None = None

    @classmethod
    def of(cls, name: str, text: str, title: str = "", origin: Origin | None = None) -> "Draft":
        """Check and hash a document.

        >>> Draft.of("emma", " ")
        Traceback (most recent call last):
        attar.errors.FormatError: text of 'emma': expected text, got blanks only; leave it out
        """
        check_string("name", name)
        check_name(name)
        check_text(name, text)
        check_string("title", title)
        return cls(name, text, title, digest_of(text), origin or Origin())


def check_string(what: str, value: object) -> None:
    """Refuse a value that is not a string."""
    if not isinstance(value, str):
        raise DtypeError.expected(what, "a string", type(value).__name__)


def check_text(name: str, text: str) -> None:
    """Refuse an empty or blank text."""
    what = f"text of {quoted(name)}"
    check_string(what, text)
    if not text or text.isspace():
        raise FormatError.expected(what, "text", "blanks only" if text else "nothing", "leave it out")


def read_files(
    files: "Sequence[SourceFile]",
    on_bad: "OnBad | None" = None,
    progress: Callable[[int], None] = lambda done: None,
    read: ReadNames | None = None,
    *,
    reader: "FileReader | None" = None,
) -> Iterator[Draft]:
    """Yield the checked documents of files; `progress` is called with the number of bytes that are read.

    A file that cannot be read raises, or `on_bad` is called with its error and the others are read. `read` gets the
    names of what was read, for `gone_documents`. `reader` has the limits of what reading a file may cost.
    """
    # Imported here: whoever adds no files does not wait for what reads them.
    from attar.documents.workers import FileReader

    if reader is None:
        with FileReader() as reader:
            yield from read_files(files, on_bad, progress, read, reader=reader)
        return
    before = 0
    for file in files:
        inside, names, faults = 0, set[str](), list[AttarError]()
        source = os.path.abspath(file.path)

        def report(fault: AttarError, faults: list[AttarError] = faults) -> None:
            faults.append(fault)
            if on_bad is None:
                raise fault
            on_bad(fault)

        for document in reader.read(file, report):
            try:
                origin = Origin(source, document.date, document.parts, document.incomplete)
                draft = Draft.of(document.name, document.text, document.title, origin)
            except AttarError as fault:
                report(FormatError.expected(str(file.path), "documents to add", str(fault)))
                continue
            names.add(draft.name)
            yield draft
            # An estimate for compressed files and JSON lines.
            inside = min(inside + len(document.text), file.bytes)
            progress(before + inside)
        if read is not None and not faults:
            read[source] = file.name, names
        before += file.bytes
        progress(before)


def read_upload(files: "FileReader", name: str, data: bytes) -> Iterator[Draft]:
    """Yield the checked documents of a file that was sent; they have no file of their own."""
    for document in files.read_bytes(name, data):
        origin = Origin("", document.date, document.parts, document.incomplete)
        yield Draft.of(document.name, document.text, document.title, origin)


def gone_documents(store: Store, folders: Iterable[Path], read: ReadNames) -> list[str]:
    """The names of documents that came from folders and are not there any more, in files that `read_files` has read."""
    places = [Path(os.path.abspath(folder)) for folder in folders]
    gone = []
    for entry in store.documents():
        if isinstance(entry, Fault) or not entry.source:
            continue
        if any(Path(entry.source).is_relative_to(place) for place in places):
            now = read.get(entry.source)
            if _is_missing(entry.source) if now is None else _is_gone(entry.name, *now):
                gone.append(entry.name)
    return gone


def _is_missing(path: str) -> bool:
    """Whether there is no file. One in a folder that may not be read is not missing: its document must stay."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_gone(name: str, file: str, names: set[str]) -> bool:
    """Whether the file no longer contains this document.

    The same file has another name if another folder was given: its documents are not gone.

    >>> _is_gone("d-2", "sub/d", {"d-1"}), _is_gone("sub/b", "b", {"b"}), _is_gone("x.zip/b", "x.zip", {"x.zip/a"})
    (True, False, True)
    """
    if name in names or file in names:
        return False
    return name.startswith(file + "/") or not any(each.startswith(file + "/") for each in names)


def encode_texts(
    reader: "Reader",
    projection: Projection | None,
    texts: Sequence[str],
    *,
    progress: Progress = ignore_progress,
) -> list[Encoded]:
    """Read texts: their memories, and the sums that their signatures are made of, from the same pass."""
    collector = None if projection is None else Collector(projection)
    more: dict[str, Any] = {} if collector is None else {"on_states": collector}
    memories = reader.read_many(texts, progress=progress, **more)
    statistics = b"" if projection is None else projection.digest
    return [
        Encoded(memory, None if collector is None else collector.of(at), statistics)
        for at, memory in enumerate(memories)
    ]


class Pace:
    """How much text is read before it is written: what takes about two seconds, as measured."""

    def __init__(self) -> None:
        self.characters = 2 * _FEWEST_CHARACTERS

    @contextmanager
    def measured(self, drafts: Sequence[Draft]) -> Iterator[None]:
        """Measure how long the reading of drafts takes."""
        began = time.monotonic()
        yield
        if drafts:
            rate = sum(len(draft.text) for draft in drafts) / max(time.monotonic() - began, 1e-6)
            most = min(4 * self.characters, _CHARACTERS)
            self.characters = max(_FEWEST_CHARACTERS, min(most, int(_SECONDS * rate)))


def batches(drafts: Iterable[Draft], size: int, pace: Pace | None = None) -> Iterator[list[Draft]]:
    """Yield batches of at most `size` documents, fewer if they are long or slow to come; no name twice in one.

    If the source of documents fails, those before the failure are yielded first.

    >>> drafts = [Draft.of(name, "Ann left.") for name in ("a", "b", "c", "c", "d")]
    >>> ["".join(draft.name for draft in batch) for batch in batches(drafts, 2)]
    ['ab', 'c', 'cd']
    """
    if size < 1:
        raise OptionError.expected("batch_size", "a whole number from 1 up", repr(size))
    batch: dict[str, Draft] = {}
    characters, began = 0, time.monotonic()
    pace = pace or Pace()
    try:
        for draft in drafts:
            full = len(batch) >= size or characters + len(draft.text) > pace.characters
            if batch and (full or draft.name in batch or time.monotonic() - began > _SECONDS):
                yield list(batch.values())
                batch, characters, began = {}, 0, time.monotonic()
            batch[draft.name] = draft
            characters += len(draft.text)
    except AttarError:
        if batch:
            yield list(batch.values())
        raise
    if batch:
        yield list(batch.values())
