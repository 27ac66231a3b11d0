"""Documents on their way into a library: looked at before anything is read, and put into groups."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attar.errors import AttarError, DtypeError, FormatError, OptionError, quoted
from attar.store import check_name, digest_of

# As much text as is read before it is on the disk: a kill loses a second or two of work.
CHARACTERS = 2**21


class Draft(NamedTuple):
    """A document that can be added: a name, a text and the digest by which that is known again."""

    name: str
    text: str
    title: str
    digest: bytes

    @classmethod
    def of(cls, name: str, text: str, title: str = "") -> "Draft":
        """A draft of a document, if it has a name and a text.

        >>> Draft.of("emma", " ")
        Traceback (most recent call last):
        attar.errors.FormatError: text of 'emma': expected text, got blanks only; leave it out
        """
        if not isinstance(name, str):
            raise DtypeError("name", "a string", type(name).__name__)
        check_name(name)
        check_text(name, text)
        return cls(name, text, title, digest_of(text))


def check_text(name: str, text: object) -> None:
    """Refuse what is no text, or none that says anything."""
    what = f"text of {quoted(name)}"
    if not isinstance(text, str):
        raise DtypeError(what, "a string", type(text).__name__)
    if not text or text.isspace():
        raise FormatError(what, "text", "blanks only" if text else "nothing", "leave it out")


def in_groups(drafts: Iterable[Draft], batch: int) -> Iterator[list[Draft]]:
    """Yield so many documents at a time, fewer if they are long; no name twice in one group.

    A fault of what yields them comes after the documents before it.

    >>> drafts = [Draft.of(name, "Ann left.") for name in ("a", "b", "c", "c", "d")]
    >>> ["".join(draft.name for draft in group) for group in in_groups(drafts, 2)]
    ['ab', 'c', 'cd']
    """
    if batch < 1:
        raise OptionError("batch", "a whole number from 1 up", repr(batch))
    group: dict[str, Draft] = {}
    characters = 0
    try:
        for draft in drafts:
            full = len(group) >= batch or characters + len(draft.text) > CHARACTERS
            if group and (full or draft.name in group):
                yield list(group.values())
                group, characters = {}, 0
            group[draft.name] = draft
            characters += len(draft.text)
    except AttarError:
        if group:
            yield list(group.values())
        raise
    if group:
        yield list(group.values())


def by_name(drafts: Iterable[Draft]) -> list[Draft]:
    """All of the documents as one group; two texts under one name are refused."""
    group: dict[str, Draft] = {}
    for draft in drafts:
        if group.setdefault(draft.name, draft).digest != draft.digest:
            what = f"document {quoted(draft.name)}"
            raise OptionError(what, "one text of that name", "two", "give each a name of its own")
    return list(group.values())
