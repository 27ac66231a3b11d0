"""The folder that a run writes: one that can be written to, and one run's at a time."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attar.errors import AttarError, writing_to
from attar.files import lock_file

LOCK = "lock"
ANOTHER = "choose another --out"
# How long another run may take to be gone, in seconds: the processes that made a killed run's batches hold its
# lock with it, and look every 5 seconds whether it is still there.
GOING = 6.0


def need_writable(folder: Path) -> None:
    """Refuse what is no folder and cannot become one, before minutes are spent on what would be written there."""
    with writing_to(folder, ANOTHER):
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"the file {place}")
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{place}, which must not be written to")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have a folder to oneself: a second run is refused, in this process too; a killed one's lock dies with it."""
    with writing_to(folder, ANOTHER):
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with writing_to(folder, ANOTHER):
            had = lock_file(file, fcntl.LOCK_EX, time.monotonic() + GOING)
        if not had:
            remedy = "wait for it, end it, or choose another --out"
            raise AttarError(str(folder), "a folder that no run is at work in", "another run's", remedy)
        yield
    finally:
        os.close(file)
