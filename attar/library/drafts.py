"""Documents to be added: checked, and in batches that take about two seconds."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from attar.errors import AttarError, DtypeError, FormatError, OptionError, quoted
from attar.store import Origin, check_name, digest_of

# About the seconds of work that a kill loses, and the most and the least text that is read before it is written.
_SECONDS = 2.0
_CHARACTERS, _FEWEST_CHARACTERS = 2**21, 2**16


class Draft(NamedTuple):
    """A checked document that can be added; the digest identifies its text."""

    name: str
    text: str
    title: str
    digest: bytes
    origin: Origin = Origin()

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
