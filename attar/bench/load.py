"""A load on a server: so many connections, each with one request at a time, as fast as it can or at a pace."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np


@dataclass
class Load:
    """What came of it: a latency for every good answer and when it came, and how often each status came."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    # Seconds from the beginning, one for each latency.
    moments: list[float] = field(default_factory=list)

    @property
    def a_second(self) -> float:
        """Requests that were answered well, a second."""
        return self.statuses[200] / self.seconds if self.seconds else 0.0

    @property
    def offered(self) -> float:
        """Requests that were answered at all, a second."""
        return self.statuses.total() / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """The latency that so many of a hundred answers stay below, in seconds.

        >>> Load(1.0, [0.1, 0.2, 0.3]).percentile(50)
        0.2
        """
        return float(np.percentile(self.latencies, share)) if self.latencies else 0.0


@dataclass(frozen=True)
class Turns:
    """Whose turn it is: requests one after the other, until an end, each connection's no sooner than its pace."""

    requests: Iterator[bytes]
    began: float
    end: float
    pace: float = 0.0  # seconds from one request of a connection to its next


class Talk(asyncio.Protocol):
    """One connection: the next request goes out when the last answer is in, and its time has come."""

    def __init__(self, load: Load, turns: Turns, due: float = 0.0) -> None:
        self.load, self.turns, self.due = load, turns, due
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.buffer = b""
        self.began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's are of no class of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self._send_when_due()

    def _send_when_due(self) -> None:
        now = time.perf_counter()
        if now >= self.turns.end:
            self.transport.close()
        elif now < self.due:
            self.loop.call_later(min(self.due, self.turns.end) - now, self._send_when_due)
        elif not self.transport.is_closing():
            # What could not be sent in time is not made up for.
            self.due = max(self.due, now - self.turns.pace) + self.turns.pace
            self.began = now
            self.transport.write(next(self.turns.requests))

    def data_received(self, data: bytes) -> None:
        """Count an answer once it is whole, and ask again."""
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
            self.load.moments.append(now - self.turns.began)
        self.buffer = b""
        self._send_when_due()

    def connection_lost(self, fault: Exception | None) -> None:
        """A connection that ends before its time is counted as status 0."""
        if time.perf_counter() < self.turns.end:
            self.load.statuses[0] += 1
        if not self.done.done():
            self.done.set_result(None)


async def drive(
    port: int, requests: Sequence[bytes], connections: int, seconds: float, rate: float | None = None
) -> Load:
    """Send requests in turn over so many connections to this machine's own port; at most so many a second."""
    load, loop = Load(), asyncio.get_running_loop()
    began, pace = time.perf_counter(), 0.0 if rate is None else connections / rate
    turns = Turns(itertools.cycle(requests), began, began + seconds, pace)

    def talk(number: int) -> Callable[[], Talk]:
        # Connections begin one after the other, so that their requests do not all come at once.
        return lambda: Talk(load, turns, began + pace * number / connections)

    opened = await asyncio.gather(
        *(loop.create_connection(talk(number), "127.0.0.1", port) for number in range(connections))
    )
    await asyncio.gather(*(talk.done for _, talk in opened))
    load.seconds = time.perf_counter() - began
    return load


def drive_now(
    port: int, requests: Sequence[bytes], connections: int, seconds: float, rate: float | None = None
) -> Load:
    """`drive` on a loop of its own, the fastest that is installed."""
    return run(drive(port, requests, connections, seconds, rate))


def run(work: Coroutine[Any, Any, Load]) -> Load:
    """Run a load on uvloop, where it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def request_for(path: str, body: bytes, media: str = "application/json", method: str = "POST") -> bytes:
    """A request as it goes over the wire.

    >>> request_for("/v1/ask", b"{}").count(b"\\r\\n")
    5
    """
    lines = ["host: localhost", f"content-type: {media}", f"content-length: {len(body)}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "\r\n"]).encode() + body
