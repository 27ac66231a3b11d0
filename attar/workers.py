"""Processes for work in Python, of which one process does only one thing at a time; they load no more than it needs."""

import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection, wait
from threading import Lock
from typing import Any

from attar.errors import AttarError

_PROGRAM = "from attar.workers import main; main()"


def count_workers() -> int:
    """As many as there are cores, but for the one of this process."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


class EndedError(AttarError):
    """A process that has ended though somebody waits for its reply: it was killed, or had too little memory."""


class Worker:
    """A process that calls a function with a connection and some settings; it ends when the connection is closed.

    Whoever needs several calls in a row holds its `lock`.
    """

    def __init__(self, function: Callable[..., None], settings: tuple[Any, ...]) -> None:
        ours, theirs = socket.socketpair()
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            # One thread each: they are as many as there are cores.
            "TOKENIZERS_PARALLELISM": "false",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with theirs:
            command = [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        self._connection, self.lock = Connection(ours.detach()), Lock()
        self.stop = weakref.finalize(self, _stop, self._connection, self.process)
        self._connection.send((function.__module__, function.__name__, settings))

    def call(self, request: Any) -> Any:
        """The reply to a request."""
        self.send(request)
        return self.receive()

    def send(self, request: Any) -> None:
        """Send a request, whose reply is received later."""
        with _noticing_ends():
            self._connection.send(request)

    def receive(self) -> Any:
        """Wait for a reply."""
        with _noticing_ends():
            return self._connection.recv()


def receive(workers: Sequence[Worker], timeout: float | None = None) -> list[tuple[Worker, Any]]:
    """Wait for replies of some workers, at most `timeout` seconds, and take all that have come."""
    by_connection = {worker._connection: worker for worker in workers}
    with _noticing_ends():
        ready = [by_connection[connection] for connection in wait(list(by_connection), timeout)]  # type: ignore[index]
    return [(worker, worker.receive()) for worker in ready]


@contextmanager
def _noticing_ends() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as fault:
        raise EndedError("a process has ended that worked for this one", "try again with less") from fault


def _stop(connection: Connection, process: "subprocess.Popen[bytes]") -> None:
    connection.close()
    process.kill()
    process.wait()


def main() -> None:
    """The other process: run its function until the connection is closed."""
    connection = Connection(int(sys.argv[1]))
    try:
        module, name, settings = connection.recv()
        getattr(import_module(module), name)(connection, *settings)
    except (EOFError, OSError, KeyboardInterrupt):
        pass
