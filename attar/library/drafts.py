"""Documents to be added: checked, and in batches that take about two seconds."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from attar.errors import AttarError, DtypeError, FormatError, OptionError, quoted
from attar.memory import Memory
from attar.progress import Progress, tell_nobody
from attar.search import Collector, Projection, Sums
from attar.store import Origin, check_name, digest_of

if TYPE_CHECKING:
    from attar.reader import Reader

# About the seconds of work that a kill loses, and the most and the least text that is read before it is written.
_SECONDS = 2.0
_CHARACTERS, _FEWEST_CHARACTERS = 2**21, 2**16


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
        raise DtypeError(what, "a string", type(value).__name__)


def check_text(name: str, text: str) -> None:
    """Refuse an empty or blank text."""
    what = f"text of {quoted(name)}"
    check_string(what, text)
    if not text or text.isspace():
        raise FormatError(what, "text", "blanks only" if text else "nothing", "leave it out")


def encode_texts(
    reader: "Reader",
    projection: Projection | None,
    texts: Sequence[str],
    *,
    shared_names: bool = False,
    progress: Progress = tell_nobody,
) -> list[Encoded]:
    """Read texts: their memories, and the sums that their signatures are made of, from the same pass."""
    collector = None if projection is None else Collector(projection)
    more: dict[str, Any] = {} if collector is None else {"on_states": collector}
    memories = reader.read_many(texts, shared_names=shared_names, progress=progress, **more)
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
        raise OptionError("batch", "a whole number from 1 up", repr(size))
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
