"""Files: locks and atomic writes."""

import fcntl
import os
import time
from pathlib import Path

# The longest pause between two attempts to take a lock, in seconds.
_LONGEST_PAUSE = 0.02


def lock_file(file: int, kind: int, deadline: float | None) -> bool:
    """Lock an open file (`fcntl.LOCK_EX` or `LOCK_SH`); returns False if that fails until the deadline.

    The deadline is a time of `time.monotonic()`; None waits without limit. The lock ends with the process.
    """
    if deadline is None:
        fcntl.flock(file, kind)
        return True
    pause = 0.0005
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)


def sync_folder(path: Path) -> None:
    """Write a folder's entries to the disk: only then does a new or renamed file survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
