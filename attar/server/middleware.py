"""ASGI middleware around all routes, one duty each; `attar.server.app` puts them in order.

One that refuses a request raises a `ProblemError`, which `Problems` answers and `Observe` counts and logs.
"""

import asyncio
import hmac
import re
from collections.abc import Collection
from contextlib import suppress
from typing import cast

from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attar.server.metrics import ERROR, HEADERS, READ_ONLY, REQUEST_ID, Metrics
from attar.server.problems import CLOSE, DISCONNECTED, OverloadedError, ProblemError, problem_for

# Seconds after which an overloaded server refuses: clients that try again at once would take its time from others.
_PAUSE = 0.5
# Seconds for which the rest of a refused body is read, at most.
_LINGER = 10.0
# Seconds for which a request is answered before its connection is watched.
_UNWATCHED = 0.1
# What a client is told of a bug.
_INTERNAL = "internal error; the log has it under this request id"
# Python refuses to parse numbers of thousands of digits.
_MAX_LENGTH_DIGITS = 18
# Proxies differ in which of two they take.
_SINGLE = (b"authorization", b"host", b"content-type")
# Paths may be percent-encoded only where a document's name follows: a proxy that guards "/v1/" must see it.
_NAMED = b"/v1/documents/"
# The port after a host's name.
_PORT = re.compile(r":\d*$")
# Paths that need no token: health checks, the page's files and the API's description.
_PUBLIC = re.compile(r"/(?!v1(/|$)|metrics$)")
# The page loads nothing from other sites, cannot be framed, and is revalidated so that an upgrade shows.
_PAGE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    ),
]


class StripPrefix:
    """Removes the path prefix under which a proxy serves this server; many proxies have removed it already."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == self._prefix:
            # The links of the page are relative to the path with a slash.
            await RedirectResponse(f"{self._prefix}/", 308)(scope, receive, send)
            return
        if path.startswith(f"{self._prefix}/"):
            raw_path = (scope.get("raw_path") or b"").removeprefix(self._prefix.encode())
            scope = {**scope, "path": path.removeprefix(self._prefix), "raw_path": raw_path}
        await self.app(scope, receive, send)


class Problems:
    """Answers a request that was refused, or failed, with a problem object."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope[HEADERS]
        is_unread = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
        is_started = False

        async def receive_part() -> Message:
            nonlocal is_unread
            message = await receive()
            is_unread = message.get("more_body", False)
            return message

        async def send_part(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        # Starlette's router raises 404 and 405 only inside of an application.
        scope["app"] = self
        try:
            await self.app(scope, receive_part, send_part)
        except Exception as error:
            known = problem_for(error)
            scope[ERROR] = error, known
            has_left = known is not None and known.status == DISCONNECTED
            if is_started and not has_left:
                # The server can only close the connection.
                raise
            if known is not None:
                # It is not logged, and its frames hold the request: a cycle that would stay for long.
                error.__traceback__ = None
            problem = known or ProblemError(500, _INTERNAL)
        else:
            return
        if problem.status == DISCONNECTED:
            return
        if isinstance(problem, OverloadedError):
            await asyncio.sleep(_PAUSE)
        response = problem.response(scope[REQUEST_ID])
        if is_unread and "connection" in problem.headers:
            await _refuse_and_drain(response, scope, receive_part, send)
        else:
            await response(scope, receive, send)


async def _refuse_and_drain(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response, and read the rest of the body, for some seconds, before the connection is closed.

    A client or proxy that is still sending when it is closed gets an error instead of the response.
    """

    async def send_without_end(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await response(scope, receive, send_without_end)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            while (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b""})


class RefuseAmbiguous:
    """Refuses what a proxy in front may have read differently: headers that are given twice, encoded paths."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(scope[HEADERS]) < len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            for name in _SINGLE:
                if (count := names.count(name)) > 1:
                    raise ProblemError(400, f"{name.decode()}: expected one header, got {count}", CLOSE)
        raw_path = scope.get("raw_path") or b""
        if b"%" in raw_path and not raw_path.startswith(_NAMED):
            raise ProblemError(404, "there is no such path: only documents' names may be percent-encoded")
        await self.app(scope, receive, send)


class RequireHost:
    """Refuses requests to other host names than the server's own: against DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = scope[HEADERS].get(b"host", b"").decode("latin-1")
        if _PORT.sub("", sent) not in self._hosts:
            raise ProblemError(400, f"host: expected {' or '.join(sorted(self._hosts))}, got another", CLOSE)
        await self.app(scope, receive, send)


class RequireToken:
    """Refuses requests without a bearer token, which is compared in constant time; some tokens may only ask."""

    def __init__(self, app: ASGIApp, token: str, read_tokens: Collection[str]) -> None:
        self.app, self._token = app, token.encode()
        self._read_tokens = [read_token.encode() for read_token in read_tokens]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _PUBLIC.match(scope["path"]):
            sent = scope[HEADERS].get(b"authorization", b"")
            scheme, _, token = sent.partition(b" ")
            is_full = hmac.compare_digest(token.strip(), self._token)
            may_read = [hmac.compare_digest(token.strip(), read_token) for read_token in self._read_tokens]
            if scheme.lower() != b"bearer" or not (is_full or any(may_read)):
                detail = (
                    "the token is wrong" if sent else "a token is missing; send Authorization: Bearer TOKEN"
                )
                raise ProblemError(401, detail, {"www-authenticate": "Bearer"} | CLOSE)
            scope[READ_ONLY] = not is_full
        await self.app(scope, receive, send)


class LimitBody:
    """Refuses bodies over a number of bytes, by their declared length or as they arrive."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = scope[HEADERS].get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS:
            raise self._too_large()
        self._check(int(length))
        received = 0

        async def receive_part() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            self._check(received)
            return message

        await self.app(scope, receive_part, send)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise self._too_large()

    def _too_large(self) -> ProblemError:
        return ProblemError(413, f"body: expected at most {self._limit:,} bytes, got more", CLOSE)


class LimitConcurrency:
    """Refuses a request to the API while there are too many; operators and the page are answered."""

    def __init__(self, app: ASGIApp, limit: int, metrics: Metrics) -> None:
        self.app, self._limit, self._gauge = app, limit, metrics.in_flight
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith("/v1/"):
            await self.app(scope, receive, send)
            return
        if self._in_flight >= self._limit:
            raise OverloadedError
        self._in_flight += 1
        self._gauge.set(self._in_flight)
        try:
            await self.app(scope, receive, send)
        finally:
            self._in_flight -= 1
            self._gauge.set(self._in_flight)


class GiveUp:
    """Ends a request that takes longer than some seconds, or whose client has closed the connection."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self.app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())
        is_read, is_answered, has_left = asyncio.Event(), False, False
        watching: list[asyncio.Task[None]] = []

        async def receive_part() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                is_read.set()
            return message

        async def send_part(message: Message) -> None:
            nonlocal is_answered
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        async def watch() -> None:
            nonlocal has_left
            # What comes after the body can only be the end of the connection.
            await is_read.wait()
            while (await receive())["type"] != "http.disconnect":
                pass
            if not is_answered:
                has_left = True
                task.cancel()

        # Quick requests are not watched: that would cost 25 µs for each.
        timer = loop.call_later(_UNWATCHED, lambda: watching.append(loop.create_task(watch())))
        try:
            async with asyncio.timeout(self._seconds):
                await self.app(scope, receive_part, send_part)
        except asyncio.CancelledError:
            # Someone else may have cancelled it too, for example a server that stops.
            if not has_left or task.uncancel() > 0:
                raise
            raise ClientDisconnect from None
        finally:
            timer.cancel()
            if watching:
                watching.pop().cancel()  # its frame refers to the list


class PageHeaders:
    """Adds the headers that keep the page safe in a browser to everything but the API."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith("/v1/"):
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_PAGE_HEADERS]}
            await send(message)

        await self.app(scope, receive, send_with_headers)
