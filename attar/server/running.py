"""Running the application on uvicorn: one process or several, each with its own library on one store."""

import gc
import logging
import socket
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from attar.errors import OptionError
from attar.ops import COMPILED
from attar.server import logs
from attar.server.app import make_app, open_library
from attar.server.connection import Connection
from attar.server.settings import Settings

log = logging.getLogger("attar.server")

# uvloop takes one connection from a socket in each turn of its loop, and busy turns are long: where a hundred
# clients come at once the last would wait a second. The same socket so many times is as many in a turn.
ACCEPTING = 16
# How many new objects, and how often, before Python looks for garbage; its own are 700, 10 and 10.
GARBAGE = (20_000, 20, 20)


@dataclass(frozen=True)
class Place:
    """Where a server listens, in how many processes, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    ssl_keyfile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile_password: str | None = None


def app_of_process(settings: Settings) -> ASGIApp:
    """The application of a worker process, which computes on one thread: others have the other cores."""
    import torch

    torch.set_num_threads(1)
    # The loop gets its turn beside a thread that computes after this, and not after Python's 5 ms.
    sys.setswitchinterval(0.0005)
    logs.set_up(settings)
    library = open_library(settings)
    library.reader  # noqa: B018  # loaded when it is first asked for
    # Not behind the first lookups, which would take turns with the compiler for seconds.
    COMPILED.now()
    # What is loaded by now stays, and requests leave hardly any cycles of objects behind: Python need not look
    # through all of torch for garbage every so often, which would take a hundred milliseconds.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    return make_app(settings, library)


def serve(settings: Settings, place: Place) -> None:
    """Serve until a signal says to stop; what was accepted is finished first."""
    if place.workers == 1:
        run(settings, place)
        return
    with tempfile.TemporaryDirectory(prefix="attar-") as folder:
        run(replace(settings, board=Path(folder) / "board"), place)


def run(settings: Settings, place: Place) -> None:
    """Run uvicorn, here or in worker processes that are started again when they die."""
    logs.set_up(settings)
    config = uvicorn.Config(
        partial(app_of_process, settings),
        factory=True,
        host=place.host,
        port=place.port,
        workers=place.workers,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Whoever is in front of the server says who they are by a token, not by a header.
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.timeout) + 5,
        # A worker on a busy machine is not dead; one that was killed just as it was asked is found out after this.
        timeout_worker_healthcheck=10,
        ssl_keyfile=place.ssl_keyfile,
        ssl_certfile=place.ssl_certfile,
        ssl_keyfile_password=place.ssl_keyfile_password,
    )
    listening = listen(place)
    log.info("%s at %s", settings.store, address_of(place, listening[0]))
    try:
        if place.workers > 1:
            Multiprocess(config, sockets=listening).run()
            return
        server = uvicorn.Server(config)
        server.run(listening)
        if not server.started:
            sys.exit(uvicorn.config.STARTUP_FAILURE)
    except KeyboardInterrupt:
        # uvicorn raises the signal again once it has stopped well.
        pass
    finally:
        for each in listening:
            each.close()


def listen(place: Place) -> list[socket.socket]:
    """The socket at an address, several times over, or a line that says why there is none."""
    try:
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        listening = socket.socket(family)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as fault:
        what, remedy = f"address {place.host}:{place.port}", "give another --host or --port"
        came = getattr(fault, "strerror", None) or str(fault)
        raise OptionError(what, "one that is free here", came.lower(), remedy) from fault
    sockets = [listening, *(listening.dup() for _ in range(ACCEPTING - 1))]
    for each in sockets:
        each.set_inheritable(True)
    return sockets


def address_of(place: Place, listening: socket.socket) -> str:
    """The address as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http{'s' if place.ssl_certfile else ''}://{f'[{host}]' if ':' in host else host}:{port}"
