"""Store: memories on disk by their documents' names; what it has acknowledged, it keeps."""

import os
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from attar.errors import OptionError
from attar.memory import Memory
from attar.store import check as checking
from attar.store import compact as compacting
from attar.store.changes import Changes
from attar.store.environment import DATA, LOCK, Environment
from attar.store.faults import StoreError, lines_for
from attar.store.head import make_or_bring_up_to_date
from attar.store.opening import MAP_SIZE, Durability
from attar.store.reading import Reading
from attar.store.record import About, Facts, Record
from attar.store.sharing import release, share
from attar.store.stats import Stats, stats_of

PRECISIONS = ("float32", "float16", "int8")

# Listed in one go: a listing that somebody reads slowly must not hold a moment of the store open.
PAGE = 256


class Store:
    """A folder of memories. Many processes may read it while one writes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Store.open(folder, reader="r1") as store:
    ...     len(store), "emma" in store, store.reader
    (0, False, 'r1')
    """

    def __init__(self, environment: Environment, reader: str | None, read_only: bool) -> None:
        self.path = environment.folder
        self.read_only = read_only
        self._environment = environment
        self._reader = reader
        self._forgotten = weakref.finalize(self, release, environment)
        self._forgotten.atexit = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        reader: str | None = None,
        create: bool = True,
        read_only: bool = False,
        durability: Durability = "sync",
        dtype: str | None = None,
        map_size: int = MAP_SIZE,
    ) -> "Store":
        """Open the store in a folder, or make it.

        `reader` is the fingerprint of the reader whose memories it shall hold; `dtype` ("float32" unless said)
        the type of number in which a new store keeps them. `durability` "relaxed" may undo the last change
        when the power fails, and "none" may damage the store then; a killed process loses nothing in any.
        """
        if dtype not in (None, *PRECISIONS):
            raise OptionError("dtype", " or ".join(map(repr, PRECISIONS)), repr(dtype))
        folder = folder_for(Path(path), create and not read_only)
        environment = share(folder, read_only=read_only, durability=durability, map_size=map_size)
        try:
            about = make_or_bring_up_to_date(environment, dtype, create and not read_only)
            refuse_another(folder, about, reader, dtype)
        except BaseException:
            release(environment)
            raise
        return cls(environment, reader, read_only)

    def close(self) -> None:
        """Let go of the file; what was written is written already."""
        if self._forgotten.alive:
            release(self._environment)
            self._forgotten.detach()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reading(self) -> Reading:
        """Hold a moment of the store: `with store.reading() as now: now.memory(name)`, without copying."""
        return Reading(self._opened(), self)

    def writing(self, timeout: float | None = None) -> Changes:
        """Make several changes as one: `with store.writing() as changes: changes.put(name, memory)`.

        Waits for another writer's end, at most `timeout` seconds.
        """
        if self.read_only:
            remedy = "open it without read_only"
            raise StoreError(f"store {self.path}", "a store open for writing", "one open for reading", remedy)
        return Changes(self._opened(), self, self._reader, timeout)

    def put(
        self,
        name: str,
        memory: Memory,
        *,
        title: str = "",
        text: str | None = None,
        digest: bytes | None = None,
        timeout: float | None = None,
    ) -> Facts:
        """Write a document, or write it anew; it is on the disk when this returns."""
        with self.writing(timeout) as changes:
            return changes.put(name, memory, title=title, text=text, digest=digest)

    def remove(self, name: str, *, timeout: float | None = None) -> None:
        """Take a document out."""
        with self.writing(timeout) as changes:
            changes.remove(name)

    def get(self, name: str) -> Record:
        """Give all that the store keeps of a document, checked, on bytes of its own."""
        with self.reading() as now:
            return now.get(name).copied()

    def get_many(self, names: Iterable[str]) -> list[Record]:
        """Give many documents of one moment, checked, on bytes of their own."""
        with self.reading() as now:
            return [now.get(name).copied() for name in names]

    def memory(self, name: str) -> Memory:
        """Give a document's memory, checked, on bytes of its own; `reading` gives it faster."""
        with self.reading() as now:
            data = bytes(now.view(name, check=True))
        return Memory.from_bytes(data, check=False)

    def facts(self, name: str) -> Facts:
        """Give what can be said of a document without its memory."""
        with self.reading() as now:
            return now.facts(name)

    def documents(self, *, after: str | None = None, limit: int | None = None) -> Iterator[Facts]:
        """Yield documents' facts in the order of names, those behind `after`, `limit` at most."""
        while limit is None or limit > 0:
            page = PAGE if limit is None else min(PAGE, limit)
            with self.reading() as now:
                found = [facts for facts, _ in zip(now.documents(after), range(page), strict=False)]
            yield from found
            if len(found) < page:
                return
            after = found[-1].name
            limit = None if limit is None else limit - page

    def __contains__(self, name: str) -> bool:
        with self.reading() as now:
            return name in now

    def __len__(self) -> int:
        return self.about.documents

    def __bool__(self) -> bool:
        return True

    @property
    def about(self) -> About:
        """The store's own head: reader, type of number, and how many of everything."""
        with self.reading() as now:
            return now.about()

    @property
    def reader(self) -> str | None:
        """The fingerprint of the reader whose memories these are; None before the first."""
        return self.about.reader or self._reader

    @property
    def dtype(self) -> str:
        """The type of number in which memories are kept."""
        return self.about.dtype

    def check(self) -> Iterator[checking.Fault]:
        """Go through every page and every record, and yield what is wrong; nobody writes meanwhile."""
        return checking.faults_in(self._opened())

    def compact(self, *, timeout: float = 0.0) -> int:
        """Give the space of what was removed back to the disk, and say how many bytes; needs the store alone."""
        if self.read_only:
            raise StoreError(f"store {self.path}", "a store open for writing", "one open for reading")
        return compacting.compact(self._opened(), timeout)

    def stats(self) -> Stats:
        """Say how much of everything there is; takes no longer for a million documents than for one."""
        return stats_of(self._opened())

    def _opened(self) -> Environment:
        if not self._forgotten.alive:
            raise StoreError(f"store {self.path}", "an open store", "a closed one", "open it again")
        return self._environment

    def __repr__(self) -> str:
        if not self._forgotten.alive:
            return f"Store({str(self.path)!r}, closed)"
        return f"Store({str(self.path)!r}, {len(self):,} documents)"


def folder_for(path: Path, create: bool) -> Path:
    """The folder of a store, made if it may be; a folder of other things is left alone."""
    path = path.absolute()
    what = f"store {path}"
    with lines_for(path):
        if path.exists() and not path.is_dir():
            raise StoreError(what, "a folder", "a file", "name another place")
        if not (path / DATA).exists():
            if not create:
                raise StoreError(what, "a store", "no such folder" if not path.exists() else "none in it")
            if path.exists() and set(os.listdir(path)) - {LOCK, DATA}:
                raise StoreError(
                    what, "a store or an empty folder", "a folder with other files", "name another"
                )
            path.mkdir(parents=True, exist_ok=True)
    return path


def refuse_another(folder: Path, about: About, reader: str | None, dtype: str | None) -> None:
    """Refuse a store of another reader's memories, or in another type of number than was asked for."""
    if None not in (reader, about.reader) and reader != about.reader:
        remedy = f"open it with the reader {about.reader!r}"
        expected = f"its reader {about.reader!r}"
        raise OptionError(f"store {folder}", expected, f"the reader {reader!r}", remedy)
    if dtype not in (None, about.dtype):
        remedy = "export it and import it into a new one"
        raise OptionError(f"store {folder}", f"dtype {about.dtype!r}, as it was made", repr(dtype), remedy)
