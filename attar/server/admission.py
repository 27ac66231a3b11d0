"""Admission: a server that is full refuses a request cheaply, before its body is read.

An overloaded server spends its time on refusals unless they are cheap and few. Cheap: the reply is made of constants,
and neither routed, parsed nor logged one by one. Few: a client that does not wait for the time in `Retry-After` is made
to. Its connection is not read for a while after the refusal.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec
from starlette.types import Message, Scope, Send

from attar.server.metrics import Metrics
from attar.server.problems import MEDIA_TYPE, ProblemError
from attar.wire import Problem

log = logging.getLogger("attar.server")

# Seconds for which a connection is not read after a refusal: at least, and at most. Between these, it grows with the
# number of refused connections, so that at most _REFUSALS follow per second. The shortest is less than `Retry-After`:
# a client that waits as told is read at once.
_SHORTEST, _LONGEST, _REFUSALS = 0.5, 5.0, 1_000
# The rest of a longer body is not read: the connection ends instead.
_SHORT_BODY = 65_536
# Seconds between two log lines about refusals.
_LOG_SECONDS = 1.0
_RETRY_AFTER = 1


class Admission:
    """Counts the requests in flight, at most `limit`; `queues` by path tell whether another question can wait."""

    def __init__(self, limit: int, metrics: Metrics, queues: Mapping[str, Callable[[], bool]]) -> None:
        self._limit, self._metrics, self._queues = limit, metrics, queues
        self._in_flight = self._held = self._unlogged = 0
        detail = "server: expected fewer requests than it can answer in time, got more; try again later"
        problem = ProblemError(503, detail)
        struct = Problem(problem.title, 503, detail, kind=problem.kind, instance="urn:request:\0")
        # The request's id belongs between both.
        self._before, self._after = msgspec.json.encode(struct).split(b"\\u0000")

    def count(self, change: int) -> None:
        """Count a request that begins (1) or ends (-1)."""
        self._in_flight += change
        self._metrics.set_in_flight(self._in_flight)

    def is_full(self, path: str) -> bool:
        """Whether a request to this path would have to wait for too long."""
        if self._in_flight >= self._limit and path.startswith("/v1/"):
            return True
        is_full = self._queues.get(path)
        return is_full is not None and is_full()

    async def refuse(self, scope: Scope, request_id: str, send: Send) -> None:
        """Refuse a request, and read nothing from its connection for a while."""
        headers = dict(scope["headers"])
        wait = min(max(_SHORTEST, self._held / _REFUSALS), _LONGEST)
        body = b"".join((self._before, request_id.encode(), self._after))
        reply = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"retry-after", b"%d" % max(_RETRY_AFTER, round(wait))),
            (b"x-request-id", request_id.encode()),
        ]
        if not _is_short(headers):
            reply.append((b"connection", b"close"))
        start: Message = {"type": "http.response.start", "status": 503, "headers": reply}
        await send(start)
        self._note_refusal()
        if headers.get(b"connection", b"").lower() != b"close" and scope["http_version"] != "1.0":
            # The client has the whole reply now. While its end is not declared, the server starts no other request of
            # this connection, and stops reading when one arrives.
            await send({"type": "http.response.body", "body": body, "more_body": True})
            body = b""
            self._held += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._held -= 1
        await send({"type": "http.response.body", "body": body})

    def _note_refusal(self) -> None:
        if not self._unlogged:
            asyncio.get_running_loop().call_later(_LOG_SECONDS, self._log_refusals)
        self._unlogged += 1

    def _log_refusals(self) -> None:
        log.warning("overload", extra={"fields": {"status": 503, "refused": self._unlogged}})
        self._unlogged = 0


def _is_short(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request's body is short enough to be read and dropped."""
    length = headers.get(b"content-length", b"0")
    known = b"transfer-encoding" not in headers and length.isdigit() and len(length) < len(str(_SHORT_BODY))
    return known or length == b"0"
