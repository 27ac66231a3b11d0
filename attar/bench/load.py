"""A load on a server: so many connections, each with one request at a time, for so many seconds."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np


@dataclass
class Load:
    """What came of it: a latency for every answer, and how often each status came."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def a_second(self) -> float:
        """Requests that were answered well, a second."""
        return self.statuses[200] / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """The latency that so many of a hundred answers stay below, in seconds.

        >>> Load(1.0, [0.1, 0.2, 0.3]).percentile(50)
        0.2
        """
        return float(np.percentile(self.latencies, share)) if self.latencies else 0.0


class Talk(asyncio.Protocol):
    """One connection: the next request goes out when the last answer is in."""

    def __init__(self, load: Load, requests: Iterator[bytes], end: float) -> None:
        self.load, self.requests, self.end = load, requests, end
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's are of no class of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self.began = time.perf_counter()
        self.transport.write(next(self.requests))

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
        self.buffer = b""
        if now < self.end:
            self._send()
        else:
            self.transport.close()

    def connection_lost(self, fault: Exception | None) -> None:
        """A connection that ends before its time is counted as status 0."""
        if time.perf_counter() < self.end:
            self.load.statuses[0] += 1
        if not self.done.done():
            self.done.set_result(None)


async def drive(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    """Send requests in turn over so many connections to this machine's own port."""
    load, loop = Load(), asyncio.get_running_loop()
    turn, began = itertools.cycle(requests), time.perf_counter()
    opened = [
        await loop.create_connection(lambda: Talk(load, turn, began + seconds), "127.0.0.1", port)
        for _ in range(connections)
    ]
    await asyncio.gather(*(talk.done for _, talk in opened))
    load.seconds = time.perf_counter() - began
    return load


def request_for(path: str, body: bytes, media: str = "application/json") -> bytes:
    """A POST as it goes over the wire.

    >>> request_for("/v1/ask", b"{}").count(b"\\r\\n")
    5
    """
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
