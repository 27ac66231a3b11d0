"""A connection that bounds what uvicorn leaves open: how many headers, and how long they may take to come."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# As h11, uvicorn's other parser, has it.
LARGEST_HEAD = 65_536
# Seconds for a request's head, from its connection's beginning on.
HEAD_TIMEOUT = 10.0

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """uvicorn's protocol on httptools, with limits to a request's head."""

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._head = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, and not for ever."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_TIMEOUT, self._end, TOO_SLOW)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._on_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has become too large, even before one of its lines is whole."""
        if self.transport.is_closing():
            return
        in_head = self.cycle is None or self.cycle.response_complete
        if in_head:
            self._head += len(data)
        super().data_received(data)
        still_in_head = self.cycle is None or self.cycle.response_complete
        if not still_in_head:
            self._head = 0
        elif self._head > LARGEST_HEAD and not self.transport.is_closing():
            self._end(TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin to count the time of a request's head, where the connection was kept."""
        super().on_message_begin()
        if self._late is None:
            self._late = self.loop.call_later(HEAD_TIMEOUT, self._end, TOO_SLOW)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._on_time()
        if self._head > LARGEST_HEAD and head_of(self.headers) > LARGEST_HEAD:
            # The parser stops, and uvicorn answers with 400.
            raise ValueError("too many headers")
        super().on_headers_complete()

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, answer: bytes) -> None:
        self._late = None
        if not self.transport.is_closing():
            # Browsers open connections that they may want later; nothing was asked there.
            if self._head:
                self.transport.write(answer)
            self.transport.close()


def head_of(headers: list[tuple[bytes, bytes]]) -> int:
    """The bytes that headers take, with what is between and behind them.

    >>> head_of([(b"host", b"localhost")])
    17
    """
    return sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)
