"""Runs end with the comparison that started them, however that ended."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The argument that tells a run to watch its standard input.
WATCHED = "--watched"


@contextmanager
def lifeline() -> Iterator[int]:
    """A pipe's end for the standard input of runs: it is cut when this process ends, even by SIGKILL.

    Nothing is ever written to it, and no child inherits the other end.
    """
    end, held = os.pipe()
    try:
        yield end
    finally:
        os.close(end)
        os.close(held)


def end_when_cut() -> None:
    """End this process as soon as its standard input does; what a run has kept, it goes on from."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        print("attar: ended, for the comparison that started this run has", file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


@contextmanager
def sigterm_ends() -> Iterator[None]:
    """Let SIGTERM end this process as an exit does, through everything that ends and removes what was begun."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
