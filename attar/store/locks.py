"""Who may use a store when: threads of one process at its gate, processes by locks that die with them."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attar.store.faults import BusyError, StoreError

# The longest that a waiting process sleeps between two tries, in seconds.
PATIENCE = 0.02

# What another thread may take to end its reading before the map grows or the file is compacted, in seconds.
GATE_TIMEOUT = 60.0


class Gate:
    """Lets any number of transactions in, or one thread alone, for LMDB must not move its map under anybody.

    A thread that is inside may come in again while another waits to be alone; else the two wait forever.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        # The threads inside, each as often as it came in. A list's own changes are atomic: no lock on the way
        # in and out, which would take as long as LMDB takes to find a document.
        self._inside: list[int] = []
        self._alone = False

    def enter(self) -> int:
        """Come in; `leave` takes what this gives."""
        thread = threading.get_ident()
        self._inside.append(thread)
        while self._alone and self._inside.count(thread) == 1:
            self.leave(thread)
            with self._changed:
                self._changed.wait_for(lambda: not self._alone)
            self._inside.append(thread)
        return thread

    def leave(self, thread: int) -> None:
        """Go out again."""
        self._inside.remove(thread)
        if self._alone:
            with self._changed:
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self, timeout: float = GATE_TIMEOUT) -> Iterator[None]:
        """Wait until everybody is out, and keep the gate shut meanwhile."""
        what = f"store {self._path}"
        with self._changed:
            if threading.get_ident() in self._inside:
                remedy = "end them first"
                raise StoreError(what, "no open reading or changes in this thread", "some", remedy)
            if not self._changed.wait_for(lambda: not self._alone, timeout):
                raise BusyError(what, "its other threads to be done", "one that is not", "wait for it")
            self._alone = True
            if not self._changed.wait_for(lambda: not self._inside, timeout):
                self._alone = False
                self._changed.notify_all()
                remedy = "end it: a reading is for the moment"
                raise BusyError(what, "an end of every reading", f"one open for {timeout:.0f} s", remedy)
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


class Turn:
    """One writer at a time, over all threads and processes; a killed writer's turn ends with it.

    LMDB has a lock of its own for this, which cannot be waited for with a limit, nor interrupted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = threading.Lock()
        self._owner: int | None = None

    @contextlib.contextmanager
    def taken_here(self, timeout: float | None) -> Iterator[None]:
        """Wait for the turn among this process's threads."""
        if self._owner == threading.get_ident():
            remedy = "make this change through the changes that are open, or after them"
            raise StoreError(
                f"store {self._path}", "one change at a time", "a second within the first", remedy
            )
        if not self._thread.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise self._busy(timeout)
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._thread.release()

    @contextlib.contextmanager
    def taken(self, open_file: Callable[[], int], timeout: float | None) -> Iterator[None]:
        """Wait for the turn among all processes, at most `timeout` seconds, by a lock on the data file."""
        end = None if timeout is None else time.monotonic() + timeout
        with self.taken_here(timeout):
            file = open_file()
            if not locked(file, fcntl.LOCK_EX, end):
                raise self._busy(timeout)
            process = os.getpid()
            try:
                yield
            finally:
                # In a fork the lock is the other's.
                if process == os.getpid():
                    fcntl.flock(file, fcntl.LOCK_UN)

    def _busy(self, timeout: float | None) -> BusyError:
        came = f"another writer, still at work after {timeout or 0:g} s"
        return BusyError(f"store {self._path}", "a turn to write", came, "wait for it, or allow more time")


def locked(file: int, kind: int, end: float | None) -> bool:
    """Lock an open file, or tell that it could not be had until the moment `end`."""
    if end is None:
        fcntl.flock(file, kind)
        return True
    pause = 0.0005
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, PATIENCE)


def sync_folder(path: Path) -> None:
    """Bring a folder's own entries to the disk: a new or renamed file is only then sure to be there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
