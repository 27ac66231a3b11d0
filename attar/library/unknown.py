"""A name that the library does not have, and the names that may have been meant."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from itertools import chain

from attar.errors import UnknownDocumentError
from attar.store import Store

# Of a million documents' names not all are compared: the first ones, and those that would be neighbours.
FIRST, NEIGHBOURS = 10_000, 500
# difflib takes the square of the length.
LONGEST = 120


@contextlib.contextmanager
def suggesting(store: Store, names: Iterable[str]) -> Iterator[None]:
    """Say of a name that is not there which ones are near."""
    try:
        yield
    except UnknownDocumentError:
        for name in names:
            if name not in store:
                raise UnknownDocumentError(name, near_names(store, name)) from None
        raise


def near_names(store: Store, name: str) -> list[str]:
    """The three names at most that are most alike, whatever their case, with their folders or without."""
    neighbours = store.documents(after=name[: len(name) // 2] or None, limit=NEIGHBOURS)
    listed = chain(store.documents(limit=FIRST), neighbours)
    spelled: dict[str, list[str]] = {}
    for other in dict.fromkeys(facts.name for facts in listed):
        for spelling in {plain(other), plain(other.rpartition("/")[2])}:
            spelled.setdefault(spelling, []).append(other)
    alike = difflib.get_close_matches(plain(name), spelled, n=3, cutoff=0.6)
    return list(dict.fromkeys(other for spelling in alike for other in spelled[spelling]))[:3]


def plain(name: str) -> str:
    """A name as it is compared.

    >>> plain("Emma")
    'emma'
    """
    return name[:LONGEST].lower()
