"""The gate of every request: who comes, how many, how much and how long; counted and logged on the way out."""

import asyncio
import hmac
import logging
import re
import secrets
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attar.server.metrics import Metrics
from attar.server.problems import Refusal, refusal_of
from attar.server.settings import Settings

log = logging.getLogger("attar.server")

# A client's own id is taken over if it is one that a log can hold.
REQUEST_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
# What needs no token: signs of life, the page's files, and what documents the rest.
OPEN = re.compile(r"/(?!v1(/|$)|metrics$)")
# The page takes nothing from elsewhere, and sits in nobody's frame.
PAGE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'",
    ),
]


class Gate:
    """An ASGI application around the routes, which raise what they refuse."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, labels: dict[Any, str]) -> None:
        self.app, self.settings, self.metrics, self.labels = app, settings, metrics, labels
        self._token = None if settings.token is None else b"Bearer " + settings.token.encode()
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, and answer for what becomes of it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        # Routes that are not found, or not with this method, raise only where there is an application.
        scope["app"] = self
        passage = Passage(scope, receive, send, self.settings.max_body)
        counted = scope["path"].startswith("/v1/")
        if counted:
            self._count(1)
        fault: Exception | None = None
        try:
            self._admit(passage, counted)
            async with asyncio.timeout(self.settings.timeout):
                await self.app(scope, passage.receive, passage.send)
        except Exception as raised:
            fault = raised
            await self._refuse(passage, raised)
        finally:
            if counted:
                self._count(-1)
            self._tell(passage, fault)

    def _admit(self, passage: "Passage", counted: bool) -> None:
        headers, settings = passage.headers, self.settings
        if settings.hosts and host_of(headers.get(b"host", b"")) not in settings.hosts:
            raise Refusal(421, "host: expected one of this server's own names, got another", closing())
        if self._token is not None and not OPEN.match(passage.scope["path"]):
            came = headers.get(b"authorization", b"")
            if not hmac.compare_digest(came, self._token):
                said = "another one" if came else "none"
                detail = f"authorization: expected Bearer and the server's token, got {said}"
                raise Refusal(401, detail, {"www-authenticate": "Bearer"} | closing())
        if counted and self._inside > settings.max_concurrent:
            detail = f"server: expected at most {settings.max_concurrent} requests at a time, got more"
            raise Refusal(503, detail)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > settings.max_body:
            raise too_large(settings.max_body)

    async def _refuse(self, passage: "Passage", raised: Exception) -> None:
        refusal = refusal_of(raised)
        if refusal is None:
            detail = "server: expected to answer, got a fault of its own; its log has it under this id"
            refusal = Refusal(500, detail)
        if passage.status:
            # Half an answer cannot be taken back; the connection ends without its end.
            raise raised
        await refusal.response(passage.request_id)(passage.scope, passage.receive, passage.send)

    def _count(self, change: int) -> None:
        self._inside += change
        self.metrics.now("requests_in_flight", self._inside)

    def _tell(self, passage: "Passage", fault: Exception | None) -> None:
        seconds = time.perf_counter() - passage.began
        status = passage.status or 499  # gone before there was an answer
        route = self.labels.get(passage.scope.get("endpoint"), "page")
        self.metrics.answered(route, status, seconds)
        broken = fault is not None and refusal_of(fault) is None
        level = logging.ERROR if broken else logging.WARNING if status >= 400 else logging.INFO
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


class Passage:
    """One request on its way: its id, its headers, its body as far as that may go, its answer's status."""

    __slots__ = ("_limit", "_receive", "_send", "began", "headers", "request_id", "scope", "status", "taken")

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        self.began = time.perf_counter()
        self.scope, self._receive, self._send, self._limit = scope, receive, send, limit
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.request_id = given.decode() if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self.status = 0
        self.taken = 0

    async def receive(self) -> Message:
        """Hand the body on, up to its limit."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.taken += len(message.get("body", b""))
            if self.taken > self._limit:
                raise too_large(self._limit)
        return message

    async def send(self, message: Message) -> None:
        """Hand the answer on, with the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self.request_id.encode())]
            if not self.scope["path"].startswith("/v1/"):
                headers += PAGE_HEADERS
            message = {**message, "headers": headers}
        await self._send(message)


def too_large(limit: int) -> Refusal:
    """The refusal of a body, whose rest is not waited for."""
    return Refusal(413, f"body: expected at most {limit:,} bytes, got more", closing())


def closing() -> dict[str, str]:
    """Headers of an answer after which nothing more is read from the connection."""
    return {"connection": "close"}


def host_of(header: bytes) -> str:
    """The host that a request names, without its port.

    >>> host_of(b"localhost:8000"), host_of(b"[::1]:8000")
    ('localhost', '[::1]')
    """
    return re.sub(r":\d*$", "", header.decode("latin-1")).lower()
