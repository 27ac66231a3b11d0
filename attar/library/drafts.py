"""Documents to be added: checked, hashed, read, and in batches that take about two seconds."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from attar.errors import AttarError, DtypeError, FormatError, OptionError, quoted
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.search.records import Collector
from attar.search.signatures import Sums
from attar.search.statistics import Projection
from attar.store.origin import Origin
from attar.store.records import check_name, digest_of

if TYPE_CHECKING:
    from attar.documents.sources import SourceDocument
    from attar.reader.reader import Reader

# About the seconds of work that a kill loses.
_SECONDS = 2.0
# The most text that is read before it is written.
_CHARACTERS = 2**21
# The least text that is read before it is written.
_FEWEST_CHARACTERS = 2**16


class Encoded(NamedTuple):
    """What reading a text makes of it: its memory, and the sums of its signature with what they were made with."""

    memory: Memory
    sums: Sums | None
    statistics: bytes


class Draft(NamedTuple):
    """A document that can be added, checked; its digest identifies the text.

    `encoded` is there if another process has read the text.
    """

    name: str
    text: str
    title: str
    data: bytes  # the text in UTF-8
    digest: bytes
    origin: Origin = Origin()
    encoded: Encoded | None = None

    @classmethod
    def of(cls, name: str, text: str, title: str = "", origin: Origin | None = None) -> "Draft":
        """Check and hash a document.

        >>> Draft.of("emma", " ")
        Traceback (most recent call last):
        attar.errors.FormatError: the text of 'emma' is blank; leave it out
        """
        check_string("name", name)
        check_string("title", title)
        check_string(f"text of {quoted(name)}", text)
        if not text or text.isspace():
            raise FormatError(f"the text of {quoted(name)} is {'blank' if text else 'empty'}", "leave it out")
        return cls._hashed(name, text, title, origin or Origin())

    @classmethod
    def of_source(cls, document: "SourceDocument", source: str = "") -> "Draft":
        """Hash a document of a file, whose text is not blank; `source` is the file's path, if it stays there."""
        origin = Origin(source, document.date, document.parts, document.incomplete)
        return cls._hashed(document.name, document.text, document.title, origin)

    @classmethod
    def _hashed(cls, name: str, text: str, title: str, origin: Origin) -> "Draft":
        check_name(name)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            message = f"the text of {quoted(name)} has half of a surrogate pair"
            raise OptionError(message, "decode it as UTF-8") from None
        return cls(name, text, title, data, digest_of(data), origin)


def check_string(what: str, value: object) -> None:
    """Refuse a value that is not a string."""
    if not isinstance(value, str):
        raise DtypeError.expected(what, "a string", type(value).__name__)


def encode_texts(
    reader: "Reader",
    projection: Projection | None,
    texts: Sequence[str],
    *,
    progress: Progress = ignore_progress,
) -> list[Encoded]:
    """Read texts: their memories, and the sums that their signatures are made of, from the same pass."""
    if projection is None:
        return [Encoded(memory, None, b"") for memory in reader.read_many(texts, progress=progress)]
    collector = Collector(projection)
    memories = reader.read_many(texts, progress=progress, on_states=collector)
    return [Encoded(memory, collector.of(at), projection.digest) for at, memory in enumerate(memories)]


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
