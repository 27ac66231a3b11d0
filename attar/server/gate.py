"""The gate of every request: who comes, how many, how much and how long; counted and logged on the way out."""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from attar.server.deadlines import Deadlines
from attar.server.metrics import IN_FLIGHT, Metrics
from attar.server.passage import Passage, closing, too_large
from attar.server.problems import Refusal, refusal_of
from attar.server.settings import Settings

if TYPE_CHECKING:
    from attar.server.shortcut import Begun

log = logging.getLogger("attar.server")

# What needs no token: signs of life, the page's files, and what documents the rest.
OPEN = re.compile(r"/(?!v1(/|$)|metrics$)")

# Where a request's scope says under which name it is counted.
ROUTE = "attar.route"
# Python refuses to read numbers of thousands of digits.
LONGEST_LENGTH = 18

# Answers a request that was posted to its path.
Answering = Callable[[Passage], Awaitable[object]]
# Answers a body without waiting, or begins to: see `attar.server.shortcut`.
Short = Callable[[bytes | bytearray], "bytes | Begun"]


class Gate:
    """An ASGI application around the routes, which raise what they refuse.

    `busy` are routes that are answered here, by their path: Starlette's way to a route and back takes longer than
    a lookup. `short` are the same for a connection that needs no task to answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        busy: Mapping[str, Answering],
        short: Mapping[str, Short],
    ) -> None:
        self.app, self.settings, self.metrics, self.busy, self.short = app, settings, metrics, busy, short
        self._token = None if settings.token is None else b"Bearer " + settings.token.encode()
        self._inside = 0
        self.deadlines = Deadlines(settings.timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, and answer for what becomes of it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        passage = Passage(scope, receive, send, self.settings.max_body)
        self.enter(passage)
        await self.pass_through(passage, self._answer)

    async def pass_through(self, passage: Passage, answering: Answering) -> None:
        """Answer a request that has entered, and answer for what becomes of it."""
        fault: Exception | None = None
        refusal: Refusal | None = None
        try:
            await self._answer_in_time(passage, answering)
        except ClientDisconnect as gone:
            fault, refusal = gone, Refusal(499, "client: expected its whole request, got a part of it")
        except Exception as raised:
            fault, refusal = raised, refusal_of(raised)
            await self._refuse(passage, raised, refusal)
        finally:
            self.leave(passage, fault, refusal)

    async def _answer_in_time(self, passage: Passage, answering: Answering) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.deadlines.begin(task)
        try:
            await answering(passage)
        except asyncio.CancelledError:
            if self.deadlines.end(task):
                raise TimeoutError from None
            raise
        finally:
            self.deadlines.end(task)

    async def _answer(self, passage: Passage) -> None:
        self.admit(passage)
        answering = self.busy.get(passage.path)
        if answering is None:
            # Routes that are not found, or not with this method, raise only where there is an application.
            passage.scope["app"] = self
            await self.app(passage.scope, passage.receive, passage.send)
        elif passage.scope["method"] == "POST":
            passage.scope[ROUTE] = passage.path.rpartition("/")[2]
            await answering(passage)
        else:
            raise HTTPException(405, headers={"allow": "POST"})

    def enter(self, passage: Passage) -> None:
        """Count a request in."""
        self._count(passage, 1)

    def admit(self, passage: Passage) -> None:
        """Refuse a request that has entered where it may not, or with too many others, or with too much."""
        headers, settings = passage.headers, self.settings
        if settings.hosts and host_of(headers.get(b"host", b"")) not in settings.hosts:
            raise Refusal(421, "host: expected one of this server's own names, got another", closing())
        if self._token is not None and not OPEN.match(passage.path):
            came = headers.get(b"authorization", b"")
            if not hmac.compare_digest(came, self._token):
                said = "another one" if came else "none"
                detail = f"authorization: expected Bearer and the server's token, got {said}"
                raise Refusal(401, detail, {"www-authenticate": "Bearer"} | closing())
        if passage.counted and self._inside > settings.max_concurrent:
            detail = f"server: expected at most {settings.max_concurrent} requests at a time, got more"
            raise Refusal(503, detail)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > LONGEST_LENGTH or int(length) > settings.max_body:
            raise too_large(settings.max_body)

    async def _refuse(self, passage: Passage, raised: Exception, refusal: Refusal | None) -> None:
        if passage.status:
            # Half an answer cannot be taken back; the connection ends without its end.
            raise raised
        if refusal is None:
            detail = "server: expected to answer, got a fault of its own; its log has it under this id"
            refusal = Refusal(500, detail)
        await refusal.response(passage.request_id)(passage.scope, passage.receive, passage.send)

    def leave(self, passage: Passage, fault: Exception | None = None, refusal: Refusal | None = None) -> None:
        """Count a request out, and tell of it."""
        self._count(passage, -1)
        seconds = time.perf_counter() - passage.began
        status = passage.status or 499  # gone before there was an answer
        route: str = passage.scope.get(ROUTE, "page")
        self.metrics.answered(route, status, seconds)
        broken = fault is not None and refusal is None
        own = broken or (refusal is not None and refusal.own)
        level = logging.ERROR if own else logging.WARNING if status >= 400 else logging.INFO
        if not log.isEnabledFor(level):
            return
        fields = {
            "request": passage.request_id,
            "method": passage.scope["method"],
            # As it came, percent-encoded: a name may hold line ends.
            "path": (passage.scope.get("raw_path") or b"").decode("latin-1"),
            "status": status,
            "seconds": round(seconds, 6),
        }
        if fault is not None and not isinstance(fault, HTTPException):
            fields["fault"] = str(fault) or type(fault).__name__
        log.log(level, "request", extra={"fields": fields}, exc_info=fault if broken else None)

    def _count(self, passage: Passage, change: int) -> None:
        if passage.counted:
            self._inside += change
            self.metrics.now(IN_FLIGHT, self._inside)


@lru_cache(256)
def host_of(header: bytes) -> str:
    """The host that a request names, without its port.

    >>> host_of(b"localhost:8000"), host_of(b"[::1]:8000")
    ('localhost', '[::1]')
    """
    return re.sub(r":\d*$", "", header.decode("latin-1")).lower()
