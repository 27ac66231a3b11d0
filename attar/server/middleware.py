"""ASGI middleware around all routes, one duty each; `attar.server.app` puts them in order. All see requests only.

A middleware that refuses a request raises a `ProblemError`, which `Problems` answers and `Observe` counts and logs.
"""

import asyncio
import hmac
import itertools
import logging
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attar.server.metrics import Metrics
from attar.server.problems import CLOSE, OverloadedError, ProblemError, printable, problem_for

log = logging.getLogger("attar.server")

# Keys of a request's scope: the name of its route, its id, and the error that it was refused with.
ROUTE = "attar.route"
REQUEST_ID = "attar.request_id"
_ERROR = "attar.error"
# The key of the lifespan's state with the metrics, in which connections count what they refuse.
METRICS = "attar.metrics"
# Labels of requests that have no route: static files, and paths below /v1 that do not exist.
_PAGE = "page"
_UNMATCHED = "unmatched"
# A client's own request id is kept if it is safe to log.
_SAFE_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
# Characters of a path in the log.
_MAX_PATH = 200
# Characters of a client's address in the log, which may be what a proxy was told.
_MAX_CLIENT = 60
# Seconds between two log lines about refusals of an overloaded server.
_LOG_SECONDS = 1.0
# The status of a request whose client is gone: nobody reads a response.
_DISCONNECTED = 499
# Seconds for which the rest of a refused body is read, at most.
_LINGER = 10.0
# What a client is told of a bug.
_INTERNAL = "internal error; the log has it under this request id"
# Python refuses to parse numbers of thousands of digits.
_MAX_LENGTH_DIGITS = 18
# Proxies differ in which of two they take.
_SINGLE = (b"authorization", b"host", b"content-type")
# Paths may be percent-encoded only where a document's name follows: a proxy that guards "/v1/" must see it.
_NAMED = b"/v1/documents/"
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
# Random ids take a system call each: these are a prefix per process, and a number.
_ID_PREFIX = secrets.token_hex(4)
_ID_NUMBERS = itertools.count(1)


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


class Observe:
    """Gives each request an id, counts it, and logs it in one line."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Mapping[tuple[str, str], str]) -> None:
        self.app, self._metrics, self._routes = app, metrics, routes
        self._overloads = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = scope[REQUEST_ID] = _request_id(scope)
        status = _DISCONNECTED

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # An error refers to its frames, which refer to the scope: without `pop` a cycle that holds the body.
        error: Exception | None = scope.pop(_ERROR, None)
        method, path = scope["method"], scope["path"]
        other = _UNMATCHED if path.startswith("/v1/") else _PAGE
        # A request that was refused before routing counts for the route that it asked for.
        route = scope.get(ROUTE) or self._routes.get((method, path), other)
        self._metrics.count_request(route, status, seconds)
        if isinstance(error, OverloadedError):
            self._note_overload()
            return
        problem = None if error is None else problem_for(error)
        is_bug = error is not None and problem is None
        is_fault = is_bug or (problem is not None and problem.server_fault)
        level = logging.ERROR if is_fault else logging.WARNING if status >= 400 else logging.INFO
        if not log.isEnabledFor(level):
            return
        fields = {
            "request": scope[REQUEST_ID],
            "client": printable((scope.get("client") or ["unknown"])[0], _MAX_CLIENT),
            "method": method,
            # Percent-encoded, as it was sent: a name may contain line ends.
            "path": printable((scope.get("raw_path") or b"").decode("latin-1"), _MAX_PATH),
            "status": status,
            "seconds": round(seconds, 6),
        }
        if error is not None and not isinstance(error, HTTPException):
            fields["fault"] = printable(str(error)) or type(error).__name__
        log.log(level, "request", extra={"fields": fields}, exc_info=error if is_bug else None)

    def _note_overload(self) -> None:
        if not self._overloads:
            asyncio.get_running_loop().call_later(_LOG_SECONDS, self._log_overloads)
        self._overloads += 1

    def _log_overloads(self) -> None:
        log.warning("overload", extra={"fields": {"status": 503, "refused": self._overloads}})
        self._overloads = 0


class Problems:
    """Answers a request that was refused, or failed, with a problem object."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
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
            scope[_ERROR] = error
            if is_started:
                # The server can only close the connection.
                raise
            problem = problem_for(error) or ProblemError(500, _INTERNAL)
            if problem.status < 500:
                # Its frames hold the request, which may take long to end.
                error.__traceback__ = None
        else:
            return
        if problem.status == _DISCONNECTED:
            return
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
        names = [name for name, _ in scope["headers"]]
        for name in _SINGLE:
            if (count := names.count(name)) > 1:
                raise ProblemError(400, f"{name.decode()}: expected one header, got {count}", CLOSE)
        raw_path = scope.get("raw_path") or b""
        if b"%" in raw_path and not raw_path.startswith(_NAMED):
            raise ProblemError(404, "there is no such path: only documents' names may be percent-encoded")
        await self.app(scope, receive, send)


class RequireToken:
    """Refuses requests without the bearer token, which is compared in constant time."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _PUBLIC.match(scope["path"]):
            sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scheme, _, token = sent.partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
                detail = (
                    "the token is wrong" if sent else "a token is missing; send Authorization: Bearer TOKEN"
                )
                raise ProblemError(401, detail, {"www-authenticate": "Bearer"} | CLOSE)
        await self.app(scope, receive, send)


class LimitBody:
    """Refuses bodies over a number of bytes, by their declared length or as they arrive."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
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


class Deadline:
    """Ends a request that takes longer than some seconds."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self.app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.timeout(self._seconds):
            await self.app(scope, receive, send)


class StopWhenGone:
    """Cancels a request whose client has closed the connection: nobody waits for its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = asyncio.current_task()
        assert answering is not None
        watching: asyncio.Task[None] | None = None
        is_gone = is_answered = False

        async def watch() -> None:
            nonlocal is_gone
            while (await receive())["type"] != "http.disconnect":
                pass
            if not is_answered:
                is_gone = True
                answering.cancel()

        async def receive_part() -> Message:
            nonlocal watching
            message = await receive()
            # What comes after the body can only be the end of the connection.
            if watching is None and message["type"] == "http.request" and not message.get("more_body", False):
                watching = asyncio.create_task(watch())
            return message

        async def send_part(message: Message) -> None:
            nonlocal is_answered
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self.app(scope, receive_part, send_part)
        except asyncio.CancelledError:
            if not is_gone:
                raise
            answering.uncancel()
            raise ClientDisconnect from None
        finally:
            if watching is not None:
                watching.cancel()


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


def new_request_id() -> str:
    """An id for a request that has none that can be used."""
    return f"{_ID_PREFIX}{next(_ID_NUMBERS) & 0xFFFFFFFF:08x}"


def _request_id(scope: Scope) -> str:
    """The client's own id if it is safe to log, or a new one."""
    sent = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return sent.decode() if _SAFE_ID.fullmatch(sent) else new_request_id()
