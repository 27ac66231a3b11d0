"""Store: memories on disk, by their documents' names."""

import contextlib
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from attar.errors import FormatError, ReaderMismatchError, StoreError
from attar.store.lmdb_env import (
    DATA,
    LOCK,
    MAP_SIZE,
    NEW,
    SHARDS,
    Environment,
    no_store,
    store_errors,
)
from attar.store.records import (
    HEADER_KEY,
    DocumentEntry,
    Fault,
    Header,
    Record,
    now,
    read_header,
    write_header,
)
from attar.store.transactions import Snapshot, Transaction, header_of

# Documents listed per snapshot: a list that is read slowly must not keep a snapshot open.
_PAGE = 256

# A larger file without a header has lost it; a process killed while it creates a store leaves a smaller one.
_NEW_FILE_BYTES = 2**16
# Of LMDB, in each file.
_META_PAGES = 2


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Counts, and sizes in bytes. New documents fill `free_bytes` first; `compact` returns them to the disk."""

    reader: str | None
    documents: int
    tokens: int
    memory_bytes: int
    text_bytes: int
    file_bytes: int
    free_bytes: int


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
        self._finalizer = weakref.finalize(self, _release, environment)
        self._finalizer.atexit = False

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Return whether there is a store in a folder."""
        return (Path(path) / DATA).exists()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        reader: str | None = None,
        create: bool = True,
        read_only: bool = False,
        map_size: int = MAP_SIZE,
    ) -> "Store":
        """Open the store in a folder, or create it.

        `reader` is the fingerprint of the reader that writes its memories.
        """
        folder = _folder_for(Path(path), create and not read_only)
        environment = _share(folder, read_only=read_only, map_size=map_size)
        try:
            header = _read_or_create_header(environment, create and not read_only)
            if None not in (reader, header.reader) and reader != header.reader:
                message = f"store {folder} has memories of the reader {header.reader!r}, not of {reader!r}"
                remedy = "open it with its own reader, or move it: attar reread"
                raise ReaderMismatchError(message, remedy)
        except BaseException:
            _release(environment)
            raise
        return cls(environment, reader, read_only)

    def close(self) -> None:
        """Close the file; every change is on the disk already."""
        if self._finalizer.alive:
            _release(self._environment)
            self._finalizer.detach()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        self.close()

    def snapshot(self) -> Snapshot:
        """Read one state of the store: `with store.snapshot() as now: entry = now.entry(name)`."""
        return Snapshot(self._open(), self)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Make several changes atomic: `with store.transaction() as changes: changes.remove(name)`."""
        with Transaction(self._writable(), self._reader).committed() as changes:
            yield changes  # and keep this store alive: one that nobody refers to is closed

    def get(self, name: str) -> Record:
        """Return all that the store keeps of a document; its parts are checked when they are decoded."""
        with self.snapshot() as now:
            return now.get(name)

    def documents(
        self, *, after: str | None = None, limit: int | None = None
    ) -> Iterator[DocumentEntry | Fault]:
        """Yield the documents' entries in the order of names: those after the name `after`, at most `limit`.

        In place of an entry that cannot be read: its fault, with the name that its key has.
        """
        while limit is None or limit > 0:
            count = _PAGE if limit is None else min(_PAGE, limit)
            with self.snapshot() as snapshot:
                page = list(islice(snapshot.documents(after), count))
            yield from page
            if len(page) < count:
                return
            after = page[-1].name
            limit = None if limit is None else limit - count

    def __contains__(self, name: str) -> bool:
        with self.snapshot() as snapshot:
            return name in snapshot

    def __len__(self) -> int:
        return self.header.documents

    @property
    def header(self) -> Header:
        with self.snapshot() as snapshot:
            return snapshot.header

    @property
    def reader(self) -> str | None:
        """The fingerprint of the reader that wrote the memories; None before the first."""
        return self.header.reader or self._reader

    def check(self) -> Iterator[Fault]:
        """Read every page and every record, and yield the faults found; nobody can write meanwhile."""
        from attar.store.repair import find_faults  # whoever asks and adds does not wait for it

        return find_faults(self._open())

    def compact(self) -> int:
        """Return the space of removed documents to the disk; returns the bytes saved.

        No other process may have the store open.
        """
        return self._writable().compact()

    def stats(self) -> Stats:
        """Return counts and sizes; takes as long for a million documents as for one."""
        with self._open().transaction() as transaction:
            header = header_of(transaction, self._environment)
            pages = transaction.stat(self._environment.map.open_db(None))
            file_bytes = self._environment.file_bytes()
        used = _META_PAGES + pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
        return Stats(
            reader=header.reader,
            documents=header.documents,
            tokens=header.tokens,
            memory_bytes=header.memory_bytes,
            text_bytes=header.text_bytes,
            file_bytes=file_bytes,
            free_bytes=max(0, file_bytes - used * pages["psize"]),
        )

    def _open(self) -> Environment:
        if not self._finalizer.alive:
            raise StoreError(f"store {self.path} is closed", "open it again")
        return self._environment

    def _writable(self) -> Environment:
        if self.read_only:
            raise StoreError(f"store {self.path} is open for reading only", "open it without read_only")
        return self._open()

    def __repr__(self) -> str:
        state = f"{len(self):,} documents" if self._finalizer.alive else "closed"
        return f"Store({str(self.path)!r}, {state})"


def _folder_for(path: Path, create: bool) -> Path:
    """Return the folder of a store, created if it may be; a folder with other files is refused."""
    path = path.absolute()
    with store_errors(path):
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file, not the folder of a store", "name another place")
        if not Store.exists(path):
            if not create or (path / SHARDS).is_file():
                raise no_store(path)
            # Another process may have created the store since.
            files = os.listdir(path) if path.exists() else []
            if any(file not in (DATA, LOCK) and not file.startswith(NEW) for file in files):
                raise StoreError(
                    f"folder {path} has other files, and no store", "name an empty or new folder"
                )
            path.mkdir(parents=True, exist_ok=True)
    return path


def _read_or_create_header(environment: Environment, create: bool) -> Header:
    """Read a store's header; that of a new store is written first if `create` allows it."""
    with environment.transaction() as transaction:
        value = transaction.get(HEADER_KEY)
        if value is not None:
            return read_header(value, str(environment.folder))
        values = transaction.stat(environment.map.open_db(None))["entries"]
    if values or environment.file_bytes() > _NEW_FILE_BYTES:
        message = f"store {environment.folder}: the file is another database, or damaged"
        raise FormatError(message, f"name another place, or try: attar store repair {environment.folder}")
    if not create:
        raise StoreError(f"store {environment.folder} is empty", "name another place")
    with environment.writing():
        with environment.transaction(write=True) as transaction:
            # Another process may have done it while this one waited for the lock.
            if transaction.get(HEADER_KEY) is None:
                transaction.put(HEADER_KEY, write_header(Header(reader=None, created=now())))
        environment.extend_file()
    with environment.transaction() as transaction:
        return header_of(transaction, environment)


# One environment per file in a process: LMDB's locks allow no second.
_registry_lock = threading.RLock()
_environments: dict[tuple[int, int], Environment] = {}
_users: Counter[Environment] = Counter()


def _share(folder: Path, *, read_only: bool, map_size: int) -> Environment:
    """Open the file in a folder, or return the environment that has it open; `_release` it when done."""
    with _registry_lock, store_errors(folder):
        status = os.stat(folder)
        place = (status.st_dev, status.st_ino)
        shared = _environments.get(place)
        if shared is not None:
            shared.refuse_fork()
        if shared is None or not shared.serves(folder):
            shared = Environment(folder, read_only=read_only, map_size=map_size)
            _environments[place] = shared
        elif shared.read_only and not read_only:
            message = f"store {folder} is open in this process read-only"
            raise StoreError(message, "close that first, or open it in the same way")
        _users[shared] += 1
        return shared


def _release(environment: Environment) -> None:
    """Close the file if no other store of this process uses it."""
    if environment.forked:
        return
    with _registry_lock:
        if _users[environment] == 1:
            environment.close()
            for place in [place for place, shared in _environments.items() if shared is environment]:
                del _environments[place]
            del _users[environment]
        else:
            _users[environment] -= 1


def _forget_all() -> None:
    global _registry_lock
    _registry_lock = threading.RLock()
    for environment in _users:
        environment.forget()


os.register_at_fork(after_in_child=_forget_all)
