"""Long work: how it tells its progress, and how it is told to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from attar.errors import AttarError

# Called with what is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


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
