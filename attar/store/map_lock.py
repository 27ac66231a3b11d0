"""The lock of LMDB's map within a process."""

import contextlib
import threading
from collections.abc import Iterator

from attar.errors import BusyError, StoreError


class MapLock:
    """Admits any number of transactions, or one thread alone: LMDB must not move its map during a transaction.

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
    def exclusive(self, timeout: float = 60.0) -> Iterator[None]:
        """Wait, at most `timeout` seconds, until all transactions have ended, and let none begin meanwhile."""
        with self._changed:
            if threading.get_ident() in self._holders:
                expected = "no open snapshot or transaction in this thread"
                raise StoreError(self._what, expected, "one", "end it first")
            if not self._changed.wait_for(lambda: not self._exclusive, timeout):
                raise BusyError(self._what, "exclusive access", "another thread that has it", "wait for it")
            self._exclusive = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._holders, timeout):
                    came, remedy = f"one that is open after {timeout:.0f} s", "keep snapshots short"
                    raise BusyError(self._what, "the end of every snapshot", came, remedy)
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()
