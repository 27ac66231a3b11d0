"""Progress of long work: the type of the function that is called with it."""

from collections.abc import Callable

# What is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


def ignore_progress(what: str, done: int, total: int) -> None:
    """Ignore progress: the default."""
