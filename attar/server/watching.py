"""A folder that a server follows: a process of low priority reads what changes, and ends with the server."""

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from attar.errors import AttarError
from attar.progress import StoppedError, stopped_by_signals, yield_to_others
from attar.results import FolderChanges
from attar.server.logs import log, set_up_logging
from attar.server.settings import Settings, open_library

# Seconds in which it ends after it is told to: it stops at the next window of a text.
_SECONDS = 10.0


@contextmanager
def watching(settings: Settings, folder: Path) -> Iterator[None]:
    """Follow a folder in another process until the end of the block."""
    process = multiprocessing.get_context("spawn").Process(
        target=_follow, args=(settings, folder), name="watch", daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _follow(settings: Settings, folder: Path) -> None:
    """Follow a folder until the server ends; a mistake is one line in the log, and the server goes on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends at Ctrl+C, and then this
    set_up_logging(settings)
    yield_to_others()
    from attar.library.folders import follow

    with stopped_by_signals(signal.SIGTERM) as stop, suppress(StoppedError):
        threading.Thread(target=_end_with_server, args=(stop,), daemon=True).start()
        try:
            with open_library(replace(settings, read_only=False)) as library:
                for number, changes in enumerate(follow(lambda: library, folder, stop=stop)):
                    _log(folder, changes, is_first=not number)
        except StoppedError:
            raise
        except AttarError as fault:
            log.error("watch: %s", fault)


def _end_with_server(stop: threading.Event) -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()  # also if it was killed
        stop.set()


def _log(folder: Path, done: FolderChanges, *, is_first: bool) -> None:
    for change in done.changes:
        if change.change != "unchanged":
            log.info("watch: %s %s", change.change, change.name)
    for name in done.removed:
        log.info("watch: removed %s", name)
    for line in done.refused:
        log.warning("watch: %s", line)
    if is_first:
        log.info("watch: the library is in line with %s; following its changes", folder)
