"""Load on a server: a number of connections, each with one request at a time, at full speed or at a given rate."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np


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
