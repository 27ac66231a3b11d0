"""Files: their names, atomic writes and locks."""

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from attar.errors import AttarError, BusyError, FormatError, OptionError, StoreError, writing_to

# The most that is decompressed into memory at once: a compressed file can claim a thousand times its size.
MAX_DECOMPRESSED = 2**30
_SURROGATE = re.compile("[\ud800-\udfff]")
# The longest pause between two attempts to take a lock, in seconds.
_LONGEST_PAUSE = 0.02
# Seconds to wait for another run to end: the workers of a killed run hold its lock, and check only every 5 seconds
# whether it is alive.
_RUN_TIMEOUT = 6.0


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success it replaces `path`, after an error it is removed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


class NamedFile(NamedTuple):
    """The bytes of a file, its name, by which its kind is known, and its path, if it has one."""

    name: str
    data: bytes
    path: str


def read_named_file(file: str | os.PathLike[str] | bytes, name: str | None) -> NamedFile:
    """Read a file at a path, or take bytes, which need a name."""
    if isinstance(file, bytes):
        if name is None:
            raise OptionError("the file needs a name, by which its kind is known", 'for example name="a.pdf"')
        return NamedFile(name, file, "")
    try:
        data = Path(file).read_bytes()
    except OSError as fault:
        remedy = "add it with add_folder" if os.path.isdir(file) else "check the path"
        raise FormatError(f"cannot read {file}: {fault.strerror or fault}", remedy) from fault
    return NamedFile(Path(file).name if name is None else name, data, os.path.abspath(file))


def refuse_existing(files: Iterable[Path], remedy: str) -> None:
    """Refuse to overwrite: the error names the first of these files that exists."""
    for file in files:
        if os.path.lexists(file):
            raise OptionError(f"{file} exists already", remedy)


@contextlib.contextmanager
def atomic_files(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Make a folder, and yield what gives a temporary path for each of its files; on success all of them appear."""
    with writing_to(folder), contextlib.ExitStack() as files:
        folder.mkdir(parents=True, exist_ok=True)
        yield lambda name: files.enter_context(atomic_file(folder / name))


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


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Make and lock the folder of a training run: a second run is refused. The lock of a killed run is released."""
    remedy = "choose another --out"
    with writing_to(folder, remedy):
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not lock_file(file, fcntl.LOCK_EX, time.monotonic() + _RUN_TIMEOUT):
            raise AttarError(f"another run uses {folder}", f"wait for it, stop it, or {remedy}")
        yield
    finally:
        os.close(file)


@dataclass
class WriterLock:
    """One writer at a time over all threads and processes; the lock of a killed writer ends with it.

    `what` names the locked thing in error messages.
    """

    what: str
    _thread: threading.Lock = field(default_factory=threading.Lock, init=False)
    _owner: int | None = field(default=None, init=False)

    @contextlib.contextmanager
    def held_in_process(self, timeout: float | None) -> Iterator[None]:
        """Hold the lock among this process's threads."""
        if self._owner == threading.get_ident():
            remedy = "make this change in the open transaction, or after it"
            raise StoreError(f"{self.what}: this thread has a transaction open already", remedy)
        if not self._thread.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise self._busy()
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._thread.release()

    @contextlib.contextmanager
    def held(self, open_file: Callable[[], int], timeout: float | None) -> Iterator[None]:
        """Hold the lock among all processes; waits at most `timeout` seconds for it, by a lock on the file."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.held_in_process(timeout):
            file = open_file()
            if not lock_file(file, fcntl.LOCK_EX, deadline):
                raise self._busy()
            process = os.getpid()
            try:
                yield
            finally:
                # In a fork the lock still belongs to the parent.
                if process == os.getpid():
                    fcntl.flock(file, fcntl.LOCK_UN)

    def _busy(self) -> BusyError:
        return BusyError(f"{self.what}: another writer is at work", "wait for it")


def sync_folder(path: Path) -> None:
    """Write a folder's entries to the disk: only then does a new or renamed file survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_surrogates(name: str) -> str:
    r"""Replace what UTF-8 cannot encode: a file name in another encoding, half of a surrogate pair in JSON.

    >>> replace_surrogates("emma"), replace_surrogates("caf\udce9") == "caf\ufffd"
    ('emma', True)
    """
    return _SURROGATE.sub("\ufffd", name)
