"""A server in its own process, its library, and requests to it, for the benchmarks that drive one."""

import contextlib
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from attar.errors import OptionError
from attar.library.library import Library
from benchmarks.load import Load, request_for
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import save_tiny_reader

QUESTION = "Who left the house before the night?"
# Different requests, sent in turn.
VARIANTS = 2_000
# Memory counts as constant if it grows by at most this share.
GROWTH = 0.05
# Loading the default reader takes seconds, and minutes where a dozen other programs run.
STARTUP_SECONDS = 600.0


@dataclass(frozen=True)
class ServerProcess:
    """The port and the process of a running server."""

    port: int
    process: int

    def memory(self) -> int:
        """The resident memory in bytes; 0 on systems other than Linux."""
        return resident_memory(self.process)


def resident_memory(process: int) -> int:
    """The resident memory of a process in bytes; 0 if it is gone, or on systems other than Linux."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0


def family_of(process: int) -> list[int]:
    """A process, its children and theirs, without those that have ended."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    family = [process]
    for each in family:
        family += children.get(each, [])
    return family


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(folder: Path, reader: Path | None, *options: str) -> Iterator[ServerProcess]:
    """A server on a library, at a free port, with options of `attar serve`."""
    port = free_port()
    command = [sys.executable, "-m", "attar", "serve", str(folder), "--port", str(port)]
    command += ["--log-level", "error", *options, *([] if reader is None else ["--reader", str(reader)])]
    process = subprocess.Popen(command)
    try:
        wait_until_ready(process, port)
        yield ServerProcess(port, process.pid)
    finally:
        process.terminate()
        code = process.wait()
    if code not in (0, -signal.SIGTERM, signal.SIGTERM):  # the last by Ray
        raise OptionError.expected("server", "one that ends when it is told to", f"exit code {code}")


@contextlib.contextmanager
def watched(look: Callable[[], int], pause: float) -> Iterator[list[int]]:
    """What is seen at every look, in a thread of its own, while the block runs."""
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(pause):
            seen.append(look())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Wait until a server answers; raises if it does not start."""
    end = time.monotonic() + STARTUP_SECONDS
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise OptionError.expected("server", "one that starts", "one that did not", "see its output above")


def json_request(path: str, body: object, method: str = "POST") -> bytes:
    """A request with a JSON body."""
    return request_for(path, msgspec.json.encode(body), method=method)


def questions(documents: int, count: int = VARIANTS) -> list[bytes]:
    """Requests with one question each, to random documents."""
    rng = random.Random(0)
    return [
        json_request("/v1/ask", {"document": f"story {rng.randrange(documents)}", "question": QUESTION})
        for _ in range(count)
    ]


def check_statuses(what: str, load: Load, allowed: Sequence[int]) -> None:
    """Refuse to count a load with other statuses."""
    if set(load.statuses) - set(allowed):
        raise OptionError.expected(what, f"responses with status {allowed}", str(dict(load.statuses)))


def growth_of(before: int, after: int) -> float:
    """The share by which memory has grown.

    >>> growth_of(100, 110), growth_of(0, 0)
    (0.1, 0.0)
    """
    return (after - before) / max(before, 1)


def fill(folder: Path, reader: Path | None, documents: int) -> Path:
    """Read stories into a library with a reader, or a tiny one beside it; the reader's path."""
    if reader is None:
        reader = save_tiny_reader(folder.with_name("reader"))
    with Library(folder, reader) as library:
        stories = tell_stories(0, documents)
        library.add_many((f"story {at}", story.text) for at, story in enumerate(stories))
    return reader
