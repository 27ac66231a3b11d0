"""A connection that bounds what uvicorn leaves open, and answers busy requests itself.

The bounds: how large a head may be, how long it may take, and answers that are not taken.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from attar.server.gate import Gate
from attar.server.passage import Headers
from attar.server.shortcut import LONGEST_BODY, Shortcut, is_short

# As h11, uvicorn's other parser, has it.
LARGEST_HEAD = 65_536
# Seconds for a request's head, from its connection's beginning on.
HEAD_TIMEOUT = 10.0

# Bytes of a body that are copied to stand behind its head; more are written apart.
LARGEST_JOINED = 65_536

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """uvicorn's protocol on httptools, with limits to a request's head, and a short way for busy routes.

    A busy request whose body comes along with its head is held until both are read, and then answered without a
    task (`attar.server.shortcut`).
    """

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._head = 0
        self._late: asyncio.TimerHandle | None = None
        # Bytes of answers that the client had not taken when it was last looked at.
        self._untaken = 0
        self._reading = False
        self._held: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, and not for ever."""
        super().connection_made(Joining(transport, self.loop))  # type: ignore[arg-type]
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
        self._reading = True
        super().data_received(data)
        self._reading = False
        if self._held is not None:
            self._answer_held(self._held, self.app)
        still_in_head = self.cycle is None or self.cycle.response_complete
        if not still_in_head:
            self._head = 0
            return
        if self._late is None and self._head:
            # A part of the next request's head on a connection that was kept.
            self._late = self.loop.call_later(HEAD_TIMEOUT, self._end, TOO_SLOW)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self._end(TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._on_time()
        if self._head > LARGEST_HEAD and head_of(self.headers) > LARGEST_HEAD:
            # The parser stops, and uvicorn answers with 400.
            raise ValueError("too many headers")
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._reading and isinstance(app, Gate) and is_short(app, cycle):
            self._held = cycle
        else:
            self.start_task(cycle, app)

    def start_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Have an application answer a request."""
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """The request is there, with its body."""
        super().on_message_complete()
        self._head = 0
        if self._held is not None:
            self._answer_held(self._held, self.app)

    def _answer_held(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._held = None
        # A client that takes its answers slowly is waited for on the usual way.
        if cycle.more_body or len(cycle.body) > LONGEST_BODY or self.flow.write_paused:
            self.start_task(cycle, app)
        else:
            Shortcut(app, self, cycle).take()

    def answer(self, cycle: RequestResponseCycle, headers: Headers, body: bytes) -> None:
        """Give a good answer, and leave all as uvicorn does after one.

        It is written when the loop has heard all who have something to say (`Joining`): answers written one by one
        wake as many clients, which take turns with the server on the machine's cores.
        """
        if cycle.disconnected:
            return
        lines = [b"HTTP/1.1 200 OK", *(b"%b: %b" % each for each in (*cycle.default_headers, *headers))]
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close what is not used; wait for a client that takes its answer slowly, not for one that has stopped."""
        untaken = self.transport.get_write_buffer_size()
        if untaken and untaken != self._untaken:
            self._untaken = untaken
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif untaken:
            # Closed in a friendly way it would stay open, and its answer in memory, until all is taken.
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

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


class Joining:
    """A transport that writes an answer's head and its body at once: each writing wakes the other side."""

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write what has waited and this, or let this wait: for what is written next, or for the loop's next turn."""
        if self._head and len(data) < LARGEST_JOINED:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif self._head:
            self._flush()
            self._transport.write(data)
        else:
            self._head = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Write what has waited, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


def head_of(headers: list[tuple[bytes, bytes]]) -> int:
    """The bytes that headers take, with what is between and behind them.

    >>> head_of([(b"host", b"localhost")])
    17
    """
    return sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)
