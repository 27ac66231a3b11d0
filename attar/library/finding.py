"""Finding documents by what people type: the beginning of a name, a file without its folder, a misspelt name.

And what a list shows of one that is found.
"""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain

from msgspec.structs import replace

from attar.errors import OptionError, UnknownDocumentError, quoted
from attar.results import Document
from attar.store.records import DocumentEntry, Fault
from attar.store.store import Store

# Of a million names not all are compared with an unknown one: the first, and those next to it in order.
_FIRST, _NEIGHBOURS = 10_000, 500
# difflib takes quadratic time in the length.
_COMPARED = 120
# Names that an error for an ambiguous one shows.
_SHOWN = 3


def find_document(store: Store, given: str) -> str:
    """The document whose name or file name starts with the input.

    Capitals do not matter, unless two names differ by them only.
    """
    if given and given in store:
        return given
    key = given.casefold()
    by_rank: tuple[list[str], ...] = [], [], []
    for entry in store.documents() if key else ():
        name = (entry.name or "").casefold()
        file = name.rpartition("/")[2]
        if name == key:
            by_rank[0].append(entry.name or "")
        elif file == key:
            by_rank[1].append(entry.name or "")
        elif name.startswith(key) or file.startswith(key):
            by_rank[2].append(entry.name or "")
    for names in by_rank:
        if len(names) == 1:
            return names[0]
        if names:
            shown = ", ".join(map(quoted, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
            message = f"{quoted(given)} is the beginning of {len(names):,} names: {shown}"
            raise OptionError(message, "type more of its name")
    raise UnknownDocumentError.named(given, similar_names(store, given))


@contextlib.contextmanager
def suggesting(store: Store, names: Iterable[str]) -> Iterator[None]:
    """Add similar names to the error for a name that does not exist."""
    try:
        yield
    except UnknownDocumentError:
        for name in names:
            if name not in store:
                raise UnknownDocumentError.named(name, similar_names(store, name)) from None
        raise


def similar_names(store: Store, name: str) -> list[str]:
    """At most three similar names, compared without case, with and without their folders."""
    neighbours = store.documents(after=name[: len(name) // 2] or None, limit=_NEIGHBOURS)
    others = (facts.name or "" for facts in chain(store.documents(limit=_FIRST), neighbours))
    return closest(name, others)


def closest(name: str, others: Iterable[str]) -> list[str]:
    """At most three names similar to this one, the most similar first.

    >>> closest("emm", ["persuasion", "novels/Emma"])
    ['novels/Emma']
    """
    by_spelling: dict[str, list[str]] = {}
    for other in dict.fromkeys(others):
        for spelling in {other[:_COMPARED].lower(), other.rpartition("/")[2][:_COMPARED].lower()}:
            by_spelling.setdefault(spelling, []).append(other)
    similar = difflib.get_close_matches(name[:_COMPARED].lower(), by_spelling, n=3, cutoff=0.6)
    return list(dict.fromkeys(other for spelling in similar for other in by_spelling[spelling]))[:3]


def document_of(entry: DocumentEntry | Fault) -> Document:
    """A document as lists show it, from the store's entry; of a damaged one, its name and its fault."""
    if isinstance(entry, Fault):
        return replace(document_of(DocumentEntry(name=entry.name or "")), fault=entry.line)
    return Document(
        name=entry.name,
        title=entry.title,
        tokens=entry.tokens,
        bytes=entry.memory_bytes,
        text_bytes=entry.text_bytes,
        digest=entry.digest.hex() or None,
        created=datetime.fromtimestamp(entry.created / 1e6, UTC),
        changed=datetime.fromtimestamp(entry.changed / 1e6, UTC),
        date=entry.date or None,
        incomplete=entry.incomplete or None,
    )
