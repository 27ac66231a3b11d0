"""HTTP/1.1 connections: uvicorn's own, with bounds on what a client may send ahead, hold open or leave unread.

uvicorn parses everything that has arrived, bounds neither heads nor trailers, and waits for ever for a client that
is silent or does not read. Here the parser is given one request at a time: what comes after it waits in one buffer,
and reading is paused until the answer is sent. Overridden are methods of `asyncio.Protocol` and callbacks of
httptools, and two methods of uvicorn (`on_response_complete`, `send_400_response`); pyproject.toml pins its version.
"""

import asyncio
import logging
import random
from typing import cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from attar.server.metrics import METRICS, new_request_id
from attar.server.problems import ProblemError

log = logging.getLogger("attar.server")

# The label in metrics of what is refused as HTTP.
_ROUTE = "connection"
# Bytes of a head, of trailers, or between two chunks of a body; as h11, uvicorn's other HTTP parser, has it.
_MAX_HEAD = 65_536
_MAX_FIELDS = 256
# What is read at once is less; more comes only where large bodies are pipelined.
_MAX_AHEAD = 2**20
# A chunked body shows its end only to the parser, which is therefore given little at a time.
_PART = 1_024
_CHUNKED = -1
# The fewest bytes a second that a client must read.
_READ_RATE = 1_024
# How many connections are looked at when an idle one is closed to make room.
_CANDIDATES = 64


class Connection(HttpToolsProtocol):
    # Seconds for a request's head, and for an answer of which nothing is read.
    patience = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; where there are too many, in place of one that is idle."""
        self.transport, self.headers = transport, []
        # What has arrived, what of it is parsed, and how much of the current body is still to come.
        self._arrived, self._parsed, self._left = b"", 0, 0
        # Bytes since the last progress: the end of a head, a part of a body, or the end of a request.
        self._overhead = 0
        self._paused = False
        self._fault: ProblemError | None = None
        # When the client was last answered, and what it had not read at the last check.
        self._since = self.loop.time()
        self._checked = self._since, 0
        self._timer = self.loop.call_later(self.patience / 2, self._check)
        # At its limit uvicorn itself refuses all requests, those of connections that it has accepted too.
        full = self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency - 1
        if not full or self._make_room():
            super().connection_made(transport)
        else:
            self._refuse(ProblemError(503, "there are too many connections; try again later"))

    def _make_room(self) -> bool:
        """Close a connection that owes its client no answer; whether there is one.

        First those that were refused and do not send the rest, then the one that is idle for the longest time: a client
        that has just connected must not be closed for one that floods.
        """
        every = cast(list[Connection], list(self.connections))
        # At random: the first ones are always those that came last, in the places of others that were closed.
        some = random.sample(every, min(len(every), _CANDIDATES))
        answered = (connection for connection in some if connection._answered)
        oldest = min(answered, key=lambda connection: (connection._idle, connection._since), default=None)
        if oldest is None:
            return False
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what belongs to the current request; the rest waits."""
        if self._parsed < len(self._arrived):
            data = self._arrived[self._parsed :] + data
        self._arrived, self._parsed = data, 0
        if len(data) > _MAX_AHEAD:
            self.transport.close()
        else:
            self._parse()

    def _parse(self) -> None:
        size = len(self._arrived)
        while self._parsed < size and not self.transport.is_closing():
            # As `_answering`, which takes longer.
            cycle = self.cycle
            if cycle is not None and not cycle.more_body and not cycle.response_complete:
                break
            self._parse_part()
        if self._parsed < size:
            self._paused = True
            self.transport.pause_reading()
            return
        self._arrived, self._parsed = b"", 0
        if self._paused and not self.transport.is_closing():
            self._paused = False
            # uvicorn pauses on its own while a body waits to be read.
            if not self.flow.read_paused:
                self.transport.resume_reading()

    def _parse_part(self) -> None:
        """Parse what surely belongs to the current request."""
        arrived, at, left = self._arrived, self._parsed, self._left
        if left:
            part = arrived[at : at + (_PART if left == _CHUNKED else left)]
        else:
            end, most = arrived.find(b"\r\n\r\n", at) + 4, at + _MAX_HEAD + 1 - self._overhead
            part = arrived[at : end if 3 < end < most else most]
        self._parsed += len(part)
        self._overhead += len(part)
        super().data_received(part)
        if self._overhead > _MAX_HEAD or len(self.headers) > _MAX_FIELDS:
            self._refuse(_too_large())

    def on_headers_complete(self) -> None:
        """Begin a request; its trailers, if there are any, are not among its headers."""
        self._overhead = 0
        if len(self.headers) > _MAX_FIELDS:
            self._fail(_too_large())
        for name, value in self.headers:
            if name == b"content-length":
                self._left = int(value)
            elif name == b"transfer-encoding":
                self._left = _CHUNKED
                if value.lower() != b"chunked":
                    self._fail(ProblemError(400, "transfer-encoding: expected chunked, got another"))
        # The parser takes a body after an upgrade for the other protocol's, which this server does not speak.
        if self._left and self.parser.should_upgrade():
            self._fail(ProblemError(400, "a request with an upgrade must have no body"))
        super().on_headers_complete()
        self.headers = []

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        if self._left > 0:
            self._left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._overhead = self._left = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Parse the next request, if it has arrived."""
        super().on_response_complete()
        self._since = self.loop.time()
        if self._parsed < len(self._arrived):
            self._parse()

    def _fail(self, problem: ProblemError) -> None:
        """End parsing: httptools turns what its callbacks raise into an error, which uvicorn answers as below."""
        self._fault = problem
        raise problem

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; the answer to an earlier request would have to come first."""
        if self._answering:
            self.transport.close()
        else:
            self._refuse(self._fault or ProblemError(400, "the request is not HTTP/1.1"))
        # It refers to its frame, and that to this connection.
        self._fault = None

    def _refuse(self, problem: ProblemError) -> None:
        """Answer with a problem, and close the connection."""
        request_id = new_request_id()
        response = problem.response(request_id)
        response.headers.update({"connection": "close", "x-request-id": request_id})
        head = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
        self.transport.write(b"%s%s\r\n%s" % (STATUS_LINE[problem.status], head, bytes(response.body)))
        self.transport.close()
        if metrics := self.app_state.get(METRICS):
            metrics.count_request(_ROUTE, problem.status, 0.0)
        client = (self.transport.get_extra_info("peername") or ["unknown"])[0]
        fields = {"request": request_id, "client": client, "status": problem.status, "fault": problem.detail}
        log.warning("refused", extra={"fields": fields})

    @property
    def _idle(self) -> bool:
        """Whether the client is to send a request, or the rest of one that is answered already."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _answered(self) -> bool:
        """Whether all answers are sent; after a refusal, `_idle` follows only when its body was read, or some seconds.

        Otherwise clients without a token could hold all connections by bodies that they do not send.
        """
        cycle = self.cycle
        sent = cycle is not None and cycle.response_started and cycle.chunked_encoding is False
        return self._idle or (sent and cycle.expected_content_length == 0)

    @property
    def _answering(self) -> bool:
        """Whether there is a whole request that is not answered yet."""
        return not self._idle and not self.cycle.more_body

    def _check(self) -> None:
        """Close the connection if its client is silent, too slow to send a head, or does not read."""
        unread, period = self.transport.get_write_buffer_size(), self.patience / 2
        since, before = self._checked
        if unread and since == self._since and unread > before - period * _READ_RATE:
            self.transport.abort()
            return
        self._checked = self._since, unread
        self._timer = self.loop.call_later(period, self._check)
        if not self._idle or self.transport.is_closing() or self.loop.time() - self._since < self.patience:
            return
        if self._overhead and not self._left:
            self._refuse(ProblemError(408, f"the head did not arrive within {self.patience:g} seconds"))
        else:
            self.transport.close()


def _too_large() -> ProblemError:
    what = f"at most {_MAX_HEAD:,} bytes and {_MAX_FIELDS} fields"
    return ProblemError(431, f"head and trailers: expected {what}, got more")
