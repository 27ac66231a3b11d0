"""A server in its own process, its library, and load on it: connections with one request at a time each."""

import asyncio
import contextlib
import http.client
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import numpy as np

from attar.errors import OptionError
from attar.library.library import Library
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import save_tiny_reader

QUESTION = "Who left the house before the night?"
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


@dataclass
class Load:
    """What was counted: responses by status, and of each 200 the latency and the time since the start."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    moments: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Responses with status 200 per second."""
        return self.statuses[200] / self.seconds if self.seconds else 0.0

    @property
    def all_per_second(self) -> float:
        """Responses of any status per second."""
        return self.statuses.total() / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """A percentile of the latencies, in seconds.

        >>> Load(1.0, [0.1, 0.2, 0.3]).percentile(50)
        0.2
        """
        return float(np.percentile(self.latencies, share)) if self.latencies else 0.0


@dataclass(frozen=True)
class _Plan:
    """The requests that connections send in turn until the end; `interval` is per connection, in seconds."""

    requests: Iterator[bytes]
    began: float
    end: float
    interval: float = 0.0


class _Connection(asyncio.Protocol):
    """Sends the next request when the last response is complete and the next one is due."""

    def __init__(self, load: Load, plan: _Plan, due: float = 0.0) -> None:
        self.load, self.plan, self.due = load, plan, due
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.buffer = b""
        self.began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # uvloop's transports are not subclasses of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self._send_when_due()

    def _send_when_due(self) -> None:
        now = time.perf_counter()
        if now >= self.plan.end:
            self.transport.close()
        elif now < self.due:
            self.loop.call_later(min(self.due, self.plan.end) - now, self._send_when_due)
        elif not self.transport.is_closing():
            # A request that could not be sent in time is not sent later.
            self.due = max(self.due, now - self.plan.interval) + self.plan.interval
            self.began = now
            self.transport.write(next(self.plan.requests))

    def data_received(self, data: bytes) -> None:
        """Count a complete response and send the next request."""
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.buffer.find(b"content-length: ") + 16
        length = int(self.buffer[at : self.buffer.find(b"\r\n", at)])
        if len(self.buffer) < head + 4 + length:
            return
        now = time.perf_counter()
        status = int(self.buffer[9:12])
        self.load.statuses[status] += 1
        if status == 200:
            self.load.latencies.append(now - self.began)
            self.load.moments.append(now - self.plan.began)
        self.buffer = b""
        self._send_when_due()

    def connection_lost(self, error: Exception | None) -> None:
        """Count a connection that ends too early as status 0."""
        if time.perf_counter() < self.plan.end:
            self.load.statuses[0] += 1
        if not self.done.done():
            self.done.set_result(None)


def drive_now(
    port: int, requests: Sequence[bytes], connections: int, seconds: float, rate: float | None = None
) -> Load:
    """Send requests to a port of this machine, in an event loop of uvloop's if it is installed.

    `rate` limits the requests per second of all connections.
    """

    async def drive() -> Load:
        load, loop = Load(), asyncio.get_running_loop()
        began, interval = time.perf_counter(), 0.0 if rate is None else connections / rate
        plan = _Plan(itertools.cycle(requests), began, began + seconds, interval)

        def connection(number: int) -> Callable[[], _Connection]:
            # Starts are spread, so that requests do not arrive all at once.
            return lambda: _Connection(load, plan, began + interval * number / connections)

        opening = (loop.create_connection(connection(at), "127.0.0.1", port) for at in range(connections))
        await asyncio.gather(*(protocol.done for _, protocol in await asyncio.gather(*opening)))
        load.seconds = time.perf_counter() - began
        return load

    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run(drive())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(drive())


def request_for(path: str, body: bytes, media: str = "application/json", method: str = "POST") -> bytes:
    """A request as it is sent.

    >>> request_for("/v1/ask", b"{}").count(b"\\r\\n")
    5
    """
    lines = ["host: localhost", f"content-type: {media}", f"content-length: {len(body)}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "\r\n"]).encode() + body
