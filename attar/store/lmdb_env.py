"""The LMDB environment of a store: opening its file, replacing it; its errors."""

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb

from attar.errors import AttarError, BusyError, RecordError, StoreError
from attar.files import WriterLock, lock_file, sync_folder

# LMDB's own names in a folder.
DATA = "data.mdb"
LOCK = "lock.mdb"
# A new file that replaces the store's once it is whole.
COPY = "data.mdb.copy"
# Followed by the number of the process that creates the store.
NEW = "data.mdb.new-"
LmdbTransaction = Any  # it returns views into the map

# In a folder of shards (`attar.cluster`), which is no store.
SHARDS = "shards.json"
# Address space, not memory or disk: no store is larger.
MAP_SIZE = 2**40
_SMALLEST_MAP = 2**20
# Seconds to wait for a writer, on opening, if its last change is not visible yet.
_CATCH_UP = 1.0
# Seconds to wait for snapshots to end, where the map must be moved.
_SNAPSHOT = 60.0
_OPTIONS: dict[str, Any] = {"mode": 0o644, "max_readers": 1024, "max_spare_txns": 1, "meminit": False}
# A write that found room for only its beginning is an input/output error to LMDB.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise what LMDB or the system reports about the store at `path` as an error of this package."""
    try:
        yield
    except AttarError:
        raise
    except (lmdb.Error, OSError) as fault:
        raise store_error(path, fault) from fault


def no_store(path: Path) -> StoreError:
    if (path / SHARDS).is_file():
        remedy = (
            f"name one (a folder in it), attar serve all, or join them: attar shard {path} --into 1 --out NEW"
        )
        return StoreError(f"{path} is a folder of shards, not a store", remedy)
    if " " in path.name and path.name.endswith("?"):  # a question, in the place of the library
        remedy = f'the library comes first: attar ask LIBRARY "{path.name}"'
        return StoreError(f"there is no library at {path}", remedy)
    return StoreError(f"there is no library at {path}", f"add documents first: attar add {path} FILE")


def store_error(path: Path, fault: lmdb.Error | OSError) -> AttarError:
    """The package's error for one of LMDB or the system."""
    what = f"store {path}"
    mentioned = {code for code in _FULL | _FORBIDDEN if os.strerror(code) in str(fault)}
    if isinstance(fault, lmdb.DiskError) or mentioned & _FULL:
        remedy = "free some space and try again; the store is as it was before this change"
        return StoreError(f"{what}: the disk is full, or broken", remedy)
    if isinstance(fault, lmdb.ReadonlyError) or mentioned:
        remedy = "grant it, or copy the store (readers write to lock.mdb too)"
        return StoreError(f"{what}: no permission to write to its folder and files", remedy)
    if isinstance(fault, FileNotFoundError):
        return StoreError(f"{what}: its folder does not exist", "create it first")
    if isinstance(fault, lmdb.VersionMismatchError):
        return RecordError(f"{what} was written by another version of LMDB", "open it where it was made")
    if isinstance(fault, (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError)):
        return damaged(path, f"the store file is damaged ({str(fault).split(': ', 1)[-1]})")
    if isinstance(fault, lmdb.MapFullError | lmdb.MapResizedError):
        remedy = "raise its limit (ulimit -v), or split the library: attar shard"
        return StoreError(f"{what} is larger than the addresses of this process", remedy)
    if isinstance(fault, lmdb.TxnFullError):
        return StoreError(f"{what}: the transaction does not fit into memory", "use smaller batches")
    if isinstance(fault, lmdb.ReadersFullError):
        return StoreError(f"{what}: too many processes read it", "end some of them")
    return StoreError(f"{what}: {str(fault).replace(chr(10), ' ')}")


def damaged(path: Path, sentence: str) -> RecordError:
    """The error for a file that is not as it was written."""
    remedy = f"restore a copy, or keep what is readable: attar store repair {path}"
    return RecordError(f"store {path}: {sentence}", remedy)


def open_file(file: Path, **options: Any) -> lmdb.Environment:
    """Open one LMDB file without its lock, for reading unless `options` say otherwise."""
    return lmdb.open(str(file), subdir=False, lock=False, **({"readonly": True} | options))


def _open_map(folder: Path, read_only: bool, size: int) -> lmdb.Environment:
    """Open the file in a folder, with a smaller map where the system limits addresses (`ulimit -v`)."""
    while True:
        try:
            return lmdb.open(str(folder), map_size=size, readonly=read_only, create=not read_only, **_OPTIONS)
        except lmdb.MemoryError:
            if size <= _SMALLEST_MAP:
                raise
            size //= 2


def _create_file(folder: Path) -> None:
    """Create an empty file, atomically: an empty or truncated one is then always a damaged one."""
    partial = folder / f"{NEW}{os.getpid()}"
    try:
        options = {"subdir": False, "lock": False, "mode": _OPTIONS["mode"], "map_size": _SMALLEST_MAP}
        lmdb.open(str(partial), **options).close()
        try:
            os.link(partial, folder / DATA)
        except OSError:  # another process was faster, or the file system has no hard links
            if not (folder / DATA).exists():
                os.replace(partial, folder / DATA)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(folder)


class MapLock:
    """Admits any number of transactions, or one thread alone: LMDB must not close its map during a transaction.

    A thread with an open transaction may begin another while a second thread waits for exclusive access;
    otherwise the two would wait for each other.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._changed = threading.Condition()
        # The threads that hold the lock, once per transaction. A list's append and remove are atomic: a lock here
        # would take as long as LMDB takes to find a document.
        self._holders: list[int] = []
        self._exclusive = False

    def acquire(self) -> int:
        """Begin a transaction; `release` takes what this returns."""
        thread = threading.get_ident()
        self._holders.append(thread)
        while self._exclusive and self._holders.count(thread) == 1:
            self.release(thread)
            with self._changed:
                self._changed.wait_for(lambda: not self._exclusive)
            self._holders.append(thread)
        return thread

    def release(self, thread: int) -> None:
        """End a transaction."""
        self._holders.remove(thread)
        if self._exclusive:
            with self._changed:
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait, at most a minute, until all transactions have ended, and let none begin meanwhile."""
        with self._changed:
            if threading.get_ident() in self._holders:
                raise StoreError(
                    f"{self._what}: this thread has a snapshot or transaction open", "end it first"
                )
            if not self._changed.wait_for(lambda: not self._exclusive, _SNAPSHOT):
                raise BusyError(f"{self._what}: another thread has exclusive access", "wait for it")
            self._exclusive = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._holders, _SNAPSHOT):
                    message = f"{self._what}: a snapshot is still open after {_SNAPSHOT:.0f} s"
                    raise BusyError(message, "keep snapshots short")
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()


class Environment:
    """One open LMDB file; all stores of this process that are open in the same folder share it."""

    def __init__(self, folder: Path, *, read_only: bool, map_size: int) -> None:
        self.folder = folder
        self.read_only = read_only
        self.map_lock = MapLock(f"store {folder}")
        # LMDB's own lock for writers cannot be interrupted, and waiting for it has no time limit.
        self.writer_lock = WriterLock(f"store {folder}")
        self._map_size = map_size
        # A fork of the process that opened the file must not touch it: LMDB's reader slot and its locks belong
        # to the parent.
        self.forked = False
        self._lmdb: lmdb.Environment | None = None
        self._data = -1
        # Locked (shared) while the store is open here, so that whoever replaces the file can wait for all others.
        self._in_use = os.open(folder, os.O_RDONLY)
        try:
            self._open()
        except BaseException:
            os.close(self._in_use)
            raise

    def _open(self) -> None:
        with store_errors(self.folder):
            fcntl.flock(self._in_use, fcntl.LOCK_SH)
            try:
                if not self.read_only:
                    # Nobody can be replacing the file now, so this is what a killed process left.
                    (self.folder / COPY).unlink(missing_ok=True)
                    if not (self.folder / DATA).exists():
                        _create_file(self.folder)
                self._data = os.open(self.folder / DATA, os.O_RDONLY)
                if not self.file_bytes():
                    # LMDB would take it for a new one.
                    raise damaged(self.folder, "the store file is empty")
                self._lmdb = _open_map(self.folder, self.read_only, self._map_size)
                self._refuse_truncated_file()
                self._lmdb.reader_check()
                if self._shows_an_earlier_change():
                    self._finish_killed_commit()
            except BaseException:
                self._close()
                fcntl.flock(self._in_use, fcntl.LOCK_UN)
                raise

    def file_bytes(self) -> int:
        return os.fstat(self._data).st_size

    def _missing_bytes(self) -> int:
        """Return by how much the file is shorter than its pages."""
        pages = self.map.info()["last_pgno"] + 1
        return max(0, pages * self.map.stat()["psize"] - self.file_bytes())

    def _refuse_truncated_file(self) -> None:
        # LMDB trusts its file: it reads pages beyond the end of a truncated one, and the system kills the process.
        # A file may also be short because LMDB freed its last pages before they were ever written, and the process
        # was killed before `extend_file`. Only reading all of it tells the two apart.
        if not self._missing_bytes():
            return
        from attar.store.repair import is_readable  # it opens stores

        fcntl.flock(self._data, fcntl.LOCK_EX)
        try:
            # Checked again: it may have been a writer that had yet to extend the file.
            if self._missing_bytes() and not is_readable(self.folder / DATA):
                raise damaged(self.folder, "the store file is truncated")
            self.extend_file()
        finally:
            fcntl.flock(self._data, fcntl.LOCK_UN)

    def extend_file(self) -> None:
        """Make the file as long as its pages, after each commit: a truncated one is then known by its length."""
        missing = self._missing_bytes()
        # macOS has no posix_fallocate, and reads all of a short file when it opens it.
        if missing and not self.read_only and hasattr(os, "posix_fallocate"):
            # The commit is done. If this fails, the next opening reads all of the file.
            with contextlib.suppress(OSError), open(self.folder / DATA, "r+b") as file:
                # It never shortens the file, whatever another process is writing.
                os.posix_fallocate(file.fileno(), self.file_bytes() + missing - 1, 1)

    def _shows_an_earlier_change(self) -> bool:
        with contextlib.suppress(lmdb.Error), self.map.begin() as transaction:
            shown: int = transaction.id()
            last: int = self.map.info()["last_txnid"]
            return shown < last
        return False

    def _finish_killed_commit(self) -> None:
        """Make the last change visible, if its writer was killed after writing it and before telling the others.

        As long as any process has the store open, LMDB shows the change only once somebody begins to write.
        """
        # Busy: a writer that is at work has done it already. Other errors: this process has no permission to write.
        with contextlib.suppress(BusyError, lmdb.Error), self.writing(_CATCH_UP):
            if not self.read_only:
                self.map.begin(write=True).abort()
                return
            self.map.close()
            self._lmdb = None
            try:
                with _open_map(self.folder, False, self._map_size) as writable:
                    writable.begin(write=True).abort()
            finally:
                self._lmdb = _open_map(self.folder, True, self._map_size)

    @property
    def map(self) -> lmdb.Environment:
        if self._lmdb is None:
            raise StoreError(f"store {self.folder} is closed", "open it again")
        return self._lmdb

    def begin(self, write: bool = False, repairs: int = 8) -> tuple[LmdbTransaction, int]:
        """Begin a transaction under the map's lock; whoever ends it calls `map_lock.release` with the number."""
        self.refuse_fork()
        thread = self.map_lock.acquire()
        try:
            return (self._lmdb or self.map).begin(None, None, write, True), thread
        except BaseException as fault:
            self.map_lock.release(thread)
            if not isinstance(fault, lmdb.Error):
                raise
            if not repairs or not self._repaired(fault):
                raise store_error(self.folder, fault) from fault
        return self.begin(write, repairs - 1)

    @contextlib.contextmanager
    def transaction(self, write: bool = False) -> Iterator[LmdbTransaction]:
        """Read within one transaction, or write and commit."""
        transaction, thread = self.begin(write)
        try:
            with store_errors(self.folder):
                yield transaction
                if write:
                    transaction.commit()
        finally:
            if not self.forked:
                transaction.abort()
                self.map_lock.release(thread)

    def refuse_fork(self) -> None:
        """Raise in a fork of the process that opened the file."""
        if self.forked:
            # LMDB allows one environment per file and process, and a fork that closed the inherited one would
            # invalidate the pages of the parent's snapshots.
            remedy = "close it before forking, or start processes by spawning them"
            raise StoreError(f"store {self.folder} was opened before this process was forked", remedy)

    def _repaired(self, fault: lmdb.Error) -> bool:
        """Repair what kept a transaction from beginning; returns whether another attempt makes sense."""
        if isinstance(fault, lmdb.ReadersFullError):
            return self.map.reader_check() > 0
        if isinstance(fault, lmdb.PanicError):
            # The disk failed during a commit. Opened again, LMDB continues from its last sound state.
            with self.map_lock.exclusive(), store_errors(self.folder):
                self.map.close()
                self._lmdb = None
                self._lmdb = _open_map(self.folder, self.read_only, self._map_size)
        # BadRslotError: a fork that has ended gave up the cached reader slot; LMDB takes another.
        return isinstance(fault, lmdb.PanicError | lmdb.BadRslotError)

    def writing(self, timeout: float | None = None) -> contextlib.AbstractContextManager[None]:
        return self.writer_lock.held(self._data_file, timeout)

    def _data_file(self) -> int:
        """The data file to lock; looked up once the thread has its turn, because the file may be replaced."""
        self.refuse_fork()
        if self._data < 0:
            raise StoreError(f"store {self.folder} is closed", "open it again")
        return self._data

    def compact(self) -> int:
        """Put a copy of the file without its free pages in its place, and return the bytes saved.

        Every other process is kept away. The old file is the store until the copy is whole and on the disk.
        """
        self.refuse_fork()
        with self.writer_lock.held_in_process(0.0), self.map_lock.exclusive(), store_errors(self.folder):
            self._close()
            try:
                if not lock_file(self._in_use, fcntl.LOCK_EX, time.monotonic()):
                    raise BusyError(f"store {self.folder}: another process has it open", "end that first")
                return self._replace_by_copy()
            finally:
                self._open()

    def _replace_by_copy(self) -> int:
        data, copy = self.folder / DATA, self.folder / COPY
        before = data.stat()

        def with_mode(path: str, flags: int) -> int:
            return os.open(path, flags, before.st_mode & 0o777)

        with open_file(data) as source, open(copy, "wb", opener=with_mode) as file:
            source.copyfd(file.fileno(), compact=True)
            os.fsync(file.fileno())
            expected = source.stat()["entries"]
        with open_file(copy) as target:
            copied = target.stat()["entries"]
        if copied != expected:
            raise damaged(self.folder, f"a copy of the store file has {copied:,} of {expected:,} values")
        os.replace(copy, data)
        sync_folder(self.folder)
        return before.st_size - data.stat().st_size

    def close(self) -> None:
        """Close the file, once every transaction has ended."""
        with self.map_lock.exclusive():
            self._close()
            os.close(self._in_use)

    def forget(self) -> None:
        """Release the file in a fork, but not LMDB's object: closing it would end the parent's transactions."""
        self.forked = True
        for file in (self._data, self._in_use):
            if file >= 0:
                os.close(file)

    def _close(self) -> None:
        if self._lmdb is not None:
            self._lmdb.close()
            self._lmdb = None
        if self._data >= 0:
            os.close(self._data)
            self._data = -1

    def serves(self, folder: Path) -> bool:
        """Return whether this is the file in that folder now: folders are deleted, and their inodes reused."""
        thread = self.map_lock.acquire()
        try:
            return self._data >= 0 and os.path.samestat(os.fstat(self._data), os.stat(folder / DATA))
        except OSError:
            return False
        finally:
            self.map_lock.release(thread)
