"""Some documents of a library: chosen by names, folder, tags and dates (`attar.results.Subset`)."""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, date, datetime

from attar.errors import AttarError, OptionError, UnknownDocumentError, quoted
from attar.results import Subset
from attar.store.records import DocumentEntry, Fault, key_of
from attar.store.transactions import Reading

# Subsets whose documents are kept until the library changes.
_KEPT = 16


class Selection:
    """Says of each document whether it is in a subset."""

    def __init__(self, subset: Subset) -> None:
        self._subset = subset
        self._names, self._tags = frozenset(subset.names), frozenset(subset.tags)
        self._folder = _components(subset.folder)

    def has(self, entry: DocumentEntry) -> bool:
        if self._names and entry.name not in self._names:
            return False
        if not self._tags.issubset(entry.tags):
            return False
        if self._folder and not any(map(self._is_below, (entry.source, entry.name))):
            return False
        return self._subset.since is None or _date_of(entry) >= self._subset.since

    def _is_below(self, path: str) -> bool:
        """Whether a file is in the folder, whose path is given from the root or from anywhere below."""
        folders, size = _components(path)[:-1], len(self._folder)
        starts = range(1 if self._folder[0] == "" else len(folders) - size + 1)
        return any(folders[at : at + size] == self._folder for at in starts)


def _components(path: str) -> list[str]:
    """The parts of a path, the first of an absolute one empty; case does not count.

    >>> _components("/home/Ann/letters/"), _components("./letters"), _components("")
    (['', 'home', 'ann', 'letters'], ['letters'], [])
    """
    if not path:
        return []
    return os.path.normpath(path).replace(os.sep, "/").casefold().rstrip("/").split("/")


def _date_of(entry: DocumentEntry) -> date:
    """The document's own date, or else the day on which it was added."""
    try:
        return date.fromisoformat(entry.date[:10])
    except ValueError:
        return datetime.fromtimestamp(entry.created / 1e6, UTC).date()


def entries_in(now: Reading, subset: Subset, after: str | None = None) -> Iterator[DocumentEntry]:
    """The entries of a subset's documents, in the order of names; damaged ones are left out."""
    selection = Selection(subset)
    if subset.names:
        for name in sorted(set(subset.names)):
            entry = now.find(name)
            if entry is not None and selection.has(entry) and (after is None or name > after):
                yield entry
        return
    for listed in now.documents(after):
        if not isinstance(listed, Fault) and selection.has(listed):
            yield listed


class SubsetCache:
    """The keys of the documents of the last subsets, as long as the library stays the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: OrderedDict[tuple[int, Subset], frozenset[bytes]] = OrderedDict()

    def keys(self, now: Reading, subset: Subset) -> frozenset[bytes]:
        """The keys of a subset's documents, as of a state of the store."""
        which = (now.signatures.change, subset)
        with self._lock:
            known = self._keys.get(which)
        if known is None:
            known = frozenset(key_of(entry.name) for entry in entries_in(now, subset))
            with self._lock:
                self._keys[which] = known
                while len(self._keys) > _KEPT:
                    self._keys.popitem(last=False)
        return known


def nothing_in(subset: Subset) -> AttarError:
    """The error for a subset without documents."""
    if subset.names and subset == Subset(names=subset.names):
        return UnknownDocumentError.named(subset.names[0])
    given = [f"the name {quoted(name)}" for name in subset.names[:1]]
    given += [f"the folder {quoted(subset.folder)}"] if subset.folder else []
    given += [f"the tag {quoted(tag)}" for tag in subset.tags]
    given += [f"a date since {subset.since}"] if subset.since is not None else []
    return OptionError(f"no document has {' and '.join(given)}", "see what there is: attar list STORE")
