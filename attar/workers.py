"""Processes for work in Python, of which one process does only one thing at a time; they load no more than it needs."""

import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
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
        try:
            self._connection.send(request)
            return self._connection.recv()
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
