"""How far adding is, on stderr and in a terminal only, once it has taken two seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

WAIT = 2.0


class AddingBar:
    """Documents a second, and the time left by the bytes of the files that are done."""

    def __init__(self, bar: "Progress", task: "TaskID") -> None:
        self._bar, self._task = bar, task
        self._began = monotonic()
        self._documents = 0
        self._part = ""

    def read(self, done: int) -> None:
        """Hear how many bytes of the files are done."""
        self._bar.update(self._task, completed=done)
        self._show()

    def added(self) -> None:
        """Hear that one more document is on the disk."""
        self._documents += 1
        self._show()

    def reading(self, what: str, done: int, total: int) -> None:
        """Hear how many of the tokens that are read at a time are done."""
        self._part = f", {what} {done / max(total, 1):.0%} of {total:,} tokens"
        self._show()

    def _show(self) -> None:
        seconds = monotonic() - self._began
        # Where there is no terminal a bar would show nothing, and its end would be an empty line.
        if seconds > WAIT and self._bar.console.is_terminal:
            self._bar.start()
            rate = f"{self._documents:,} documents, {self._documents / seconds:,.1f}/s"
            self._bar.update(self._task, description=rate + self._part)


@contextmanager
def adding_bar(total: int) -> Iterator[AddingBar]:
    """Show how much of so many bytes is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}")
    parts = (words, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    # Lines printed meanwhile belong above the bar if both are on a terminal, and else where they were sent.
    bar = Progress(*parts, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
    try:
        yield AddingBar(bar, bar.add_task("", total=total))
    finally:
        if bar.live.is_started:
            bar.stop()
