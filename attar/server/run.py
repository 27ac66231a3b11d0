"""Running the application on uvicorn, in one process or several, with its log and a folder that it follows."""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.supervisors import Multiprocess

from attar.errors import AttarError, OptionError
from attar.progress import StoppedError, stopped_by_signals, yield_to_others
from attar.results import FolderChanges
from attar.server.connections import Connection
from attar.server.problems import printable
from attar.server.settings import Address, Settings, open_library

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from attar.library.served import ServedLibrary

# Connections that wait to be accepted; uvicorn's default.
_BACKLOG = 2048
# A worker that does not answer the parent's health check for this many seconds is killed. A replacement has as long to
# start (SIGHUP); importing torch and compiling may take most of it on a busy machine.
_HEALTH_CHECK_SECONDS = 60
# Python's own thresholds are 700, 10 and 10.
_GC_THRESHOLDS = (20_000, 20, 20)


def serve(settings: Settings, address: Address, library: "ServedLibrary | None" = None) -> None:
    """Serve until a signal stops the server; accepted requests are finished first.

    The library is that of the settings, or a given one, for which there is one process.
    """
    with tempfile.TemporaryDirectory(prefix="attar-") as folder:
        if address.workers > 1:
            # The workers' prometheus_client reads it when it is imported.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        with nullcontext() if settings.watch is None else watching(settings, settings.watch):
            _run(replace(settings, shared=Path(folder)), address, library)


def _run(settings: Settings, address: Address, library: "ServedLibrary | None" = None) -> None:
    """Run uvicorn in this process, or in worker processes that are restarted when they die."""
    set_up_logging(settings)
    config = uvicorn.Config(
        partial(_make_worker_app, settings, library),
        factory=True,
        host=address.host,
        port=address.port,
        workers=address.workers,
        timeout_worker_healthcheck=_HEALTH_CHECK_SECONDS,
        ssl_keyfile=address.ssl_keyfile,
        ssl_certfile=address.ssl_certfile,
        **uvicorn_options(settings),
    )
    with listen(address) as listening:
        host, port = listening.getsockname()[:2]
        scheme = "https" if address.ssl_certfile else "http"
        log.info("%s at %s://%s:%s", settings.store, scheme, f"[{host}]" if ":" in host else host, port)
        # uvicorn raises the signal again after a clean shutdown.
        with suppress(KeyboardInterrupt):
            if address.workers > 1:
                Multiprocess(config, sockets=[listening]).run()
                return
            server = uvicorn.Server(config)
            server.run([listening])
            if not server.started:
                sys.exit(uvicorn.config.STARTUP_FAILURE)


def uvicorn_options(settings: Settings) -> dict[str, Any]:
    return {
        "http": Connection,
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Only for the log: clients authenticate with a token, not with a proxy's headers.
        "proxy_headers": settings.forwarded_allow_ips is not None,
        "forwarded_allow_ips": settings.forwarded_allow_ips,
        "limit_concurrency": settings.max_connections + 1,
        "timeout_graceful_shutdown": int(settings.timeout) + 5,
    }


def _make_worker_app(settings: Settings, library: "ServedLibrary | None") -> "ASGIApp":
    """The application of a worker process, which computes on one thread: other workers use the other cores."""
    # Imported here because a worker answers the parent's health check only after it has imported this module.
    from attar.server.app import make_app

    # The event loop waits at most this long for a computing thread, not Python's 5 ms.
    sys.setswitchinterval(0.0005)
    set_up_logging(settings)
    library = open_library(settings) if library is None else library
    library.prepare()
    # What is loaded by now stays, and requests leave few reference cycles: a full collection, which would walk
    # through all of torch's objects, would take a hundred milliseconds.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    return make_app(settings, library)


def listen(address: Address) -> socket.socket:
    """A socket that listens at the address.

    Not left to uvicorn, which listens when the reader is loaded: until then another server could bind the address too,
    and would say that it had started.
    """
    try:
        family, *_, found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listening = socket.create_server(found, family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    except (OSError, OverflowError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        where = f"{address.host}:{address.port}"
        raise OptionError(
            f"cannot listen at {where}: {reason.lower()}", "give another --host or --port"
        ) from error
    listening.set_inheritable(True)
    return listening


log = logging.getLogger("attar.server")

# Characters of a line in the log; a request's own text in it is cut before.
_MAX_LINE = 4_000


class LogFormatter(logging.Formatter):
    """An event with its fields on one line, or as a JSON object; the trace of a bug has further lines, or a field."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        trace = self.formatException(record.exc_info).split("\n") if record.exc_info else []
        trace = [printable(line, _MAX_LINE) for line in trace]  # its message may be a client's text
        message = record.getMessage()
        if self._as_json:
            level, shown = record.levelname.lower(), printable(message, _MAX_LINE)
            event = {"time": record.created, "level": level, "message": shown} | fields
            return msgspec.json.encode(event | ({"trace": "\n".join(trace)} if trace else {})).decode()
        told = "".join(f" {name}={value}" for name, value in fields.items())
        line = f"{self.formatTime(record)} {record.levelname} {message}{told}"
        return "\n".join([printable(line, _MAX_LINE), *trace])


def set_up_logging(settings: Settings) -> None:
    """Write the logs of the server and of uvicorn to stderr, in one format; tokens are never logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(as_json=settings.log_format == "json"))
    handler.addFilter(_is_no_cancellation)
    for name in (log.name, "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(settings.log_level.upper())
        logger.propagate = False


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether a record says more than that a second Ctrl+C cancelled a request, of which uvicorn logs a traceback."""
    kind = record.exc_info[0] if record.exc_info else None
    is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
    return not is_cancelled and not record.getMessage().rstrip().endswith("asyncio.exceptions.CancelledError")


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
    from attar.library.drafts import follow

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
