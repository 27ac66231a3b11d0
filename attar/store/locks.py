"""Locks of a store: LMDB's map between the threads of a process, and writing between all processes."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attar.errors import BusyError, StoreError
from attar.files import lock_file

# How long another thread's transaction may take to end before the map grows or the file is compacted, in seconds.
_EXCLUSIVE_TIMEOUT = 60.0


class MapLock:
    """Admits any number of transactions, or one thread alone: LMDB must not move its map during a transaction.

    A thread with an open transaction may begin another while a second thread waits for exclusive access;
    otherwise the two would wait for each other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
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
    def exclusive(self, timeout: float = _EXCLUSIVE_TIMEOUT) -> Iterator[None]:
        """Wait until all transactions have ended, and let none begin meanwhile."""
        what = f"store {self._path}"
        with self._changed:
            if threading.get_ident() in self._holders:
                expected = "no open snapshot or transaction in this thread"
                raise StoreError(what, expected, "one", "end it first")
            if not self._changed.wait_for(lambda: not self._exclusive, timeout):
                raise BusyError(what, "exclusive access", "another thread that has it", "wait for it")
            self._exclusive = True
            if not self._changed.wait_for(lambda: not self._holders, timeout):
                self._exclusive = False
                self._changed.notify_all()
                came, remedy = f"one that is open after {timeout:.0f} s", "keep snapshots short"
                raise BusyError(what, "the end of every snapshot", came, remedy)
        try:
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()


class WriterLock:
    """One writer at a time over all threads and processes; the lock of a killed writer ends with it.

    LMDB has a lock of its own for this, but waiting for it has no time limit and cannot be interrupted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = threading.Lock()
        self._owner: int | None = None

    @contextlib.contextmanager
    def held_in_process(self, timeout: float | None) -> Iterator[None]:
        """Hold the lock among this process's threads."""
        if self._owner == threading.get_ident():
            remedy = "make this change in the open transaction, or after it"
            came = "a second within the first"
            raise StoreError(f"store {self._path}", "one transaction at a time", came, remedy)
        if not self._thread.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise self._busy(timeout)
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._thread.release()

    @contextlib.contextmanager
    def held(self, open_file: Callable[[], int], timeout: float | None) -> Iterator[None]:
        """Hold the lock among all processes; waits at most `timeout` seconds for it, by a lock on the data file."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.held_in_process(timeout):
            file = open_file()
            if not lock_file(file, fcntl.LOCK_EX, deadline):
                raise self._busy(timeout)
            process = os.getpid()
            try:
                yield
            finally:
                # In a fork the lock still belongs to the parent.
                if process == os.getpid():
                    fcntl.flock(file, fcntl.LOCK_UN)

    def _busy(self, timeout: float | None) -> BusyError:
        came = f"another writer, still at work after {timeout or 0:g} s"
        return BusyError(
            f"store {self._path}", "the lock for writing", came, "wait for it, or allow more time"
        )
