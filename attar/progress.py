"""Long work: how it tells its progress, how it is told to stop, how many threads it takes, and the memory it leaves."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

from attar.errors import AttarError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Called with what is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]
# What is done of files, in bytes: the progress of adding a folder.
BYTES = "bytes"
# The priority of work that nobody waits for, as in the command nice.
_NICENESS = 10


def ignore_progress(what: str, done: int, total: int) -> None:
    """The progress of work that nobody watches."""


class StoppedError(AttarError):
    """Work that was given up: whoever asked for it has left, or has waited for too long."""


_should_stop: ContextVar[Callable[[], bool]] = ContextVar("should_stop", default=lambda: False)


@contextmanager
def stopped_by(should_stop: Callable[[], bool]) -> Iterator[None]:
    """Let the work of this thread end with `StoppedError` soon after `should_stop` returns true.

    >>> with stopped_by(lambda: True):
    ...     check_stopped()
    Traceback (most recent call last):
    attar.progress.StoppedError: the work was stopped
    """
    token = _should_stop.set(should_stop)
    try:
        yield
    finally:
        _should_stop.reset(token)


def check_stopped() -> None:
    """Called by all long work between two windows, batches, documents or files."""
    if _should_stop.get()():
        raise StoppedError("the work was stopped")


@contextmanager
def stopped_by_signals(*signals: int) -> Iterator[threading.Event]:
    """An event that signals set: the work inside ends with `StoppedError`; a signal that comes again does as before."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in signals}

    def end(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    try:
        for number in signals:
            signal.signal(number, end)
        with stopped_by(stop.is_set):
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def yield_to_others() -> None:
    """Let other processes have the processor first, and compute on one thread: called before torch is loaded."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if hasattr(os, "nice"):
        os.nice(_NICENESS)


@cache
def _libraries() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController  # a list of documents needs none

    return ThreadpoolController()


class _OneThread(AbstractContextManager[None]):
    """A limit of the whole process: the first thread that comes sets it, the last that leaves takes it back."""

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit.enter_context(_libraries().limit(limits=1, user_api="blas"))
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.close()


_one_thread = _OneThread()


def one_thread() -> AbstractContextManager[None]:
    """Let numpy's matrix products use one thread.

    With several they round in another way, and a signature must have the same bytes wherever a document is read. The
    products of a question are small, too: where other programs keep the cores busy, threads that wait for each other
    took 360 ms of CPU time for a question that takes 26 with one.
    """
    return _one_thread


def return_memory() -> None:
    """Give freed memory back to the system: glibc keeps 118 MB after the records of 100,000 documents."""
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
