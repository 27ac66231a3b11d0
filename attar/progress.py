"""How long work tells how far it is, without knowing who listens."""

from collections.abc import Callable

# What is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


def tell_nobody(what: str, done: int, total: int) -> None:
    """Listen to nothing."""
