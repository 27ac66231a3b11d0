"""A board of counts that worker processes write side by side, each in a row of its own, and any of them reads.

A row belongs to the process that holds the lock on its byte. A process that is killed lets go of it; the next
one takes the row over and counts on, so that totals never go down.
"""

import fcntl
import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError

# Rows: more than the worker processes that one machine runs.
ROWS = 64

Counts = NDArray[np.float64]


class Board:
    """So many counts a process, and the sums over all processes.

    >>> board = Board(3)
    >>> board.own[1] += 2
    >>> board.sums().tolist()
    [0.0, 2.0, 0.0]
    """

    def __init__(self, width: int, path: Path | None = None) -> None:
        if path is None:
            self.all: Counts = np.zeros((1, width))
            self.row = 0
        else:
            # Not closed: the lock is the process's as long as it lives.
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            size = 8 * width * ROWS
            # Growing a file to the size that it has changes nothing: whoever comes first makes it.
            os.ftruncate(self._file, size)
            self.all = np.frombuffer(mmap.mmap(self._file, size), np.float64).reshape(ROWS, width)
            self.row = free_row(self._file)
        self.own = self.all[self.row]

    def sums(self) -> Counts:
        """The sums over all processes `[width]`."""
        total: Counts = self.all.sum(0)
        return total


def free_row(file: int) -> int:
    """Lock the first row that no process holds."""
    for row in range(ROWS):
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
        except OSError:
            continue
        return row
    raise OptionError("--workers", f"at most {ROWS} processes", "more")
