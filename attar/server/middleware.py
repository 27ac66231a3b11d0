"""The middleware around all routes: authentication, limits, timeout, request ids, errors, metrics and logs."""

import asyncio
import hmac
import itertools
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attar.server.admission import Admission
from attar.server.metrics import Metrics
from attar.server.problems import ProblemError, new_request_id, printable, problem_for
from attar.server.settings import Settings

log = logging.getLogger("attar.server")

# The key of a request's scope under which the application puts the name of its route.
ROUTE = "attar.route"
# Paths that need no token: health checks, the page's files and the API's description.
_PUBLIC = re.compile(r"/(?!v1(/|$)|metrics$)")
# Python refuses to parse numbers of thousands of digits.
_MAX_LENGTH_DIGITS = 18
# A client's own request id is kept if it is safe to log.
_REQUEST_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
# Characters of a path and of a client's address in the log; the address may be what a proxy was told.
_MAX_PATH, _MAX_CLIENT = 200, 60
# Paths may be percent-encoded only where a document's name follows: a proxy that guards "/v1/" must see it.
_NAMED = b"/v1/documents/"
# Proxies differ in which of two they take.
_SINGLE = (b"authorization", b"host", b"content-type")
_CLOSE = {"connection": "close"}
# Seconds for which the rest of a refused body is read, at most.
_LINGER = 10.0
# The page loads nothing from other sites, cannot be framed, and is revalidated so that an upgrade shows.
_PAGE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'",
    ),
]


class Middleware:
    """An ASGI middleware; errors that the application raises become problem objects."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        admission: Admission,
        route_name: Callable[[Scope], str],
    ) -> None:
        self.app, self._settings, self._metrics, self._route_name = app, settings, metrics, route_name
        self._admission = admission
        self._prefix = settings.prefix
        self._deadlines = _Deadlines(settings.timeout)
        self._token = None if settings.token is None else settings.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            if self._prefix:
                if scope["path"] == self._prefix:
                    # The links of the page are relative to the path with a slash.
                    await RedirectResponse(f"{self._prefix}/", 308)(scope, receive, send)
                    return
                scope = _without_prefix(scope, self._prefix)
            if self._admission.is_full(scope["path"]):
                await self._refuse(scope, send)
                return
            await self._handle(_Exchange(scope, receive, send, self._settings.max_body))
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _refuse(self, scope: Scope, send: Send) -> None:
        """Refuse a request of which nothing was read: count it, but neither route nor log it."""
        started = time.perf_counter()
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        route = self._route_name(scope)
        self._metrics.count_request(route, 503, time.perf_counter() - started)
        await self._admission.refuse(scope, _request_id(given), send)

    async def _handle(self, exchange: "_Exchange") -> None:
        error: Exception | None = None
        problem: ProblemError | None = None
        self._count(exchange, 1)
        try:
            self._check(exchange)
            # Starlette's router raises 404 and 405 only inside of an application.
            exchange.scope["app"] = self
            await self._deadlines.run(self.app(exchange.scope, exchange.receive, exchange.send))
        except ClientDisconnect as gone:
            error, problem = gone, ProblemError(499, "client: expected the whole request, got a part of it")
        except Exception as raised:
            error, problem = raised, problem_for(raised)
            if exchange.status:
                # The reply has begun: the server can only close the connection.
                raise
            detail = "server: expected to answer, got an internal error; the log has it under this request id"
            response = (problem or ProblemError(500, detail)).response(exchange.request_id)
            await response(exchange.scope, exchange.receive, exchange.send)
        finally:
            self._count(exchange, -1)
            self._record(exchange, error, problem)
            # An error refers to this frame, and through the handler's to the body: a cycle that would stay in memory
            # until the garbage collector's next full run.
            error = problem = None
        await exchange.end()

    def _check(self, exchange: "_Exchange") -> None:
        """Refuse a request from the wrong client, or of too large a size."""
        headers, settings = exchange.headers, self._settings
        if len(headers) < len(exchange.scope["headers"]):
            _check_single(exchange.scope["headers"])
        if settings.hosts and _host_name(headers.get(b"host", b"")) not in settings.hosts:
            raise ProblemError(421, "host: expected one of this server's names, got another", _CLOSE)
        if self._token is not None and not _PUBLIC.match(exchange.path):
            scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(sent.strip(), self._token):
                came = "another one" if scheme else "none"
                detail = f"authorization: expected Bearer and the server's token, got {came}"
                raise ProblemError(401, detail, {"www-authenticate": "Bearer"} | _CLOSE)
        if b"%" in exchange.raw_path and not exchange.raw_path.startswith(_NAMED):
            raise ProblemError(
                404, "path: expected percent-encoding in documents' names only, got it elsewhere"
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS or int(length) > settings.max_body:
            raise _body_too_large(settings.max_body)

    def _record(self, exchange: "_Exchange", error: Exception | None, problem: ProblemError | None) -> None:
        """Count and log a finished request."""
        seconds = time.perf_counter() - exchange.started
        status = exchange.status or 499  # the client closed the connection before there was a reply
        # A request that was refused before routing counts for the route that it asked for.
        route = exchange.scope.get(ROUTE) or self._route_name(exchange.scope)
        self._metrics.count_request(route, status, seconds)
        is_bug = error is not None and problem is None
        is_fault = is_bug or (problem is not None and problem.server_fault)
        level = logging.ERROR if is_fault else logging.WARNING if status >= 400 else logging.INFO
        if not log.isEnabledFor(level):
            return
        fields = {
            "request": exchange.request_id,
            "client": printable((exchange.scope.get("client") or ["unknown"])[0], _MAX_CLIENT),
            "method": exchange.scope["method"],
            # Percent-encoded, as it was sent: a name may contain line ends.
            "path": printable(exchange.raw_path.decode("latin-1"), _MAX_PATH),
            "status": status,
            "seconds": round(seconds, 6),
        }
        if error is not None and not isinstance(error, HTTPException):
            fields["fault"] = printable(str(error)) or type(error).__name__
        log.log(level, "request", extra={"fields": fields}, exc_info=error if is_bug else None)

    def _count(self, exchange: "_Exchange", change: int) -> None:
        if exchange.is_api:
            self._admission.count(change)


class _Deadlines:
    """Ends what runs for longer than the time limit.

    As `asyncio.timeout`, but with one timer for all requests: they have one limit, so the first ends first.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # The task and the end of each, in the order of their ends, and those whose end has passed.
        self._running: dict[int, tuple[asyncio.Task[None], float]] = {}
        self._expired: set[int] = set()
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, work: Awaitable[None]) -> None:
        """Wait for the work, or raise `TimeoutError`."""
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        task = cast("asyncio.Task[None]", asyncio.current_task(loop))
        end = loop.time() + self._seconds
        self._running[number] = task, end
        if self._timer is None:
            self._timer = loop.call_at(end, self._expire)
        try:
            await work
        except asyncio.CancelledError:
            # Someone else may have cancelled the task too, for example a server that stops.
            if number in self._expired and task.uncancel() <= 0:
                raise TimeoutError from None
            raise
        finally:
            self._running.pop(number, None)
            self._expired.discard(number)

    def _expire(self) -> None:
        """Cancel what has reached its end, and wait for the next end."""
        loop, self._timer = asyncio.get_running_loop(), None
        while self._running:
            number, (task, end) = next(iter(self._running.items()))
            if end > loop.time():
                self._timer = loop.call_at(end, self._expire)
                return
            del self._running[number]
            self._expired.add(number)
            task.cancel()


class _Exchange:
    """A request and its response: limits the body, adds response headers, and notes the status."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_body: int) -> None:
        self.started = time.perf_counter()
        self.scope, self._receive, self._send, self._max_body = scope, receive, send, max_body
        self.path: str = scope["path"]
        self.raw_path: bytes = scope.get("raw_path") or b""
        self.is_api = self.path.startswith("/v1/")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = _request_id(self.headers.get(b"x-request-id"))
        self.status = 0
        self._received = 0
        # Whether a part of the body is still to come, the connection is to be closed, and the response has no end yet.
        self._more = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        self._closes = self._open = False

    async def receive(self) -> Message:
        """Receive a part of the body, up to the limit."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._more = message.get("more_body", False)
            self._received += len(message.get("body", b""))
            if self._received > self._max_body:
                raise _body_too_large(self._max_body)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self.request_id.encode())]
            self._closes = (b"connection", b"close") in headers
            if not self.is_api:
                headers += _PAGE_HEADERS
            message = {**message, "headers": headers}
        elif self._closes and self._more and not message.get("more_body", False):
            self._open, message = True, {**message, "more_body": True}
        await self._send(message)

    async def end(self) -> None:
        """Read the rest of a refused body, for some seconds, before the connection is closed.

        A client or proxy that is still sending when it is closed gets an error instead of the response.
        """
        if not self._open:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while (await self._receive()).get("more_body", False):
                    pass
        await self._send({"type": "http.response.body", "body": b""})


def _without_prefix(scope: Scope, prefix: str) -> Scope:
    """The scope of a request as it would be without the proxy; many proxies have removed the prefix already.

    >>> _without_prefix({"path": "/attar/docs", "raw_path": b"/attar/docs"}, "/attar")
    {'path': '/docs', 'raw_path': b'/docs'}
    """
    if not scope["path"].startswith(f"{prefix}/"):
        return scope
    raw_path = (scope.get("raw_path") or b"").removeprefix(prefix.encode())
    return {**scope, "path": scope["path"].removeprefix(prefix), "raw_path": raw_path}


def _request_id(given: bytes | None) -> str:
    """The client's own id if it is safe to log, or a new one."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return new_request_id()


def _body_too_large(limit: int) -> ProblemError:
    return ProblemError(413, f"body: expected at most {limit:,} bytes, got more", _CLOSE)


def _check_single(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse headers of which there may be only one."""
    counts = Counter(name for name, _ in headers)
    for name in _SINGLE:
        if counts[name] > 1:
            raise ProblemError(400, f"{name.decode()}: expected one header, got {counts[name]}", _CLOSE)


@lru_cache(256)
def _host_name(header: bytes) -> str:
    """The host of a Host header, without its port.

    >>> _host_name(b"localhost:8000"), _host_name(b"[::1]:8000")
    ('localhost', '[::1]')
    """
    return re.sub(r":\d*$", "", header.decode("latin-1")).lower()
