"""The application: one table of routes, from which routing, OpenAPI and the labels of metrics are made."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Match, Router
from starlette.routing import Route as StarletteRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import attar
from attar import wire
from attar.library.library import Library
from attar.results import Change, DocumentDetails
from attar.server import routes
from attar.server.admission import Admission
from attar.server.backend import Backend
from attar.server.connections import REFUSED
from attar.server.local import LibraryBackend
from attar.server.metrics import CONNECTION, PAGE, UNMATCHED, Metrics
from attar.server.middleware import ROUTE, Middleware
from attar.server.openapi import Route, html_document, openapi_document
from attar.server.requests import JSON, read_body
from attar.server.service import Service
from attar.server.settings import Settings

PAGE_FOLDER = Path(__file__).parent / "page"

_encode = msgspec.json.Encoder().encode


class _AnyConvertor(Convertor[str]):
    """The rest of a path, including line ends, which Starlette's `path` does not match."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _AnyConvertor())


async def openapi(service: Service, request: Request) -> Response:
    """The OpenAPI document."""
    prefix = service.settings.prefix
    return Response(
        _encode(describe_api() | ({"servers": [{"url": prefix}]} if prefix else {})), media_type=JSON
    )


async def docs(service: Service, request: Request) -> Response:
    """The routes as a page of HTML."""
    return HTMLResponse(html_document(_DOCUMENTED))


_DOCUMENT = wire.DOCUMENTS + "/{name:any}"
_LIST_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "after": ("only names after this one", {"type": "string"}),
    "limit": (
        "at most this many documents",
        {"type": "integer", "minimum": 1, "maximum": routes.MAX_PAGE_SIZE, "default": routes.PAGE_SIZE},
    ),
}
_FLAG = {"type": "string", "enum": ["0", "1"], "default": "0"}
_FILE_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "name": ("the file's name", {"type": "string", "minLength": 1, "maxLength": wire.MAX_NAME}),
    "replace": ("1: another text of that name is replaced", _FLAG),
}

# Method, path, handler, body, replies and errors. The first route that matches is taken: the busiest come first, and
# "…/append" before the name alone.
ROUTES = (
    Route("POST", wire.ASK, routes.ask, wire.Ask, {200: wire.Answers | wire.ManyAnswers}, (404,)),
    Route("POST", wire.SEARCH, routes.search, wire.Search, {200: wire.Hits}),
    Route("GET", wire.DOCUMENTS, routes.list_documents, None, {200: wire.Page}, query=_LIST_QUERY),
    Route(
        "POST",
        wire.FILES,
        routes.add_file,
        bytes,
        {200: wire.Changes},
        (403, 409),
        query=_FILE_QUERY,
        required=("name",),
    ),
    Route("POST", wire.MERGE, routes.merge_documents, wire.Merge, {200: Change}, (403, 404, 409)),
    Route("POST", wire.REMOVE, routes.remove_documents, wire.Remove, {204: None}, (403, 404)),
    Route("POST", f"{_DOCUMENT}/append", routes.append_text, wire.AppendText, {200: Change}, (403, 404)),
    Route(
        "PUT", _DOCUMENT, routes.put_document, wire.PutDocument, {201: Change, 200: Change}, (403, 404, 409)
    ),
    Route("GET", _DOCUMENT, routes.show_document, None, {200: DocumentDetails}, (404,)),
    Route("DELETE", _DOCUMENT, routes.remove_document, None, {204: None}, (403, 404)),
    Route("GET", "/healthz", routes.health),
    Route("GET", "/readyz", routes.readiness),
    Route("GET", "/metrics", routes.metrics),
    Route("GET", "/openapi.json", openapi, documented=False),
    Route("GET", "/docs", docs, documented=False),
)
_DOCUMENTED = [route for route in ROUTES if route.documented]


@cache
def describe_api() -> dict[str, Any]:
    """The OpenAPI document of the server.

    >>> describe_api()["openapi"], "/v1/ask" in describe_api()["paths"]
    ('3.1.0', True)
    """
    return openapi_document(_DOCUMENTED, attar.__version__)


def make_app(settings: Settings, library: Library | Backend | None = None) -> ASGIApp:
    """The ASGI application of a library, which is opened from the settings if not given, and closed on shutdown."""
    metrics = Metrics([route.name for route in ROUTES], settings.counters)
    library = library or open_library(settings)
    backend = LibraryBackend(library) if isinstance(library, Library) else library
    service = Service(backend, settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[dict[str, Any]]:
        try:
            await service.open()
            # For the connections, which refuse what is not HTTP before there is a request.
            yield {REFUSED: partial(metrics.count_request, CONNECTION)}
        finally:
            await service.close()

    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    endpoints = {path: _Endpoint(service, methods) for path, methods in by_path.items()}
    routing = [
        StarletteRoute(path, endpoint, methods=list(by_path[path])) for path, endpoint in endpoints.items()
    ]
    # The page is the default and no route: it would match all paths, and hide 405.
    page = StaticFiles(directory=PAGE_FOLDER, html=True) if PAGE_FOLDER.is_dir() else _no_page
    router = _Router(routing, redirect_slashes=False, default=page, lifespan=lifespan)
    router.fixed = {(method, path): endpoints[path] for method, path in _FIXED}
    admission = Admission(settings.max_concurrent, metrics, {wire.ASK: service.asks_are_full})
    return Middleware(router, settings, metrics, admission, partial(_route_name, router))


def open_library(settings: Settings) -> Library:
    """The library of a server."""
    return Library(
        settings.store,
        settings.reader,
        read_only=settings.read_only,
        keep_text=settings.keep_text,
        create=not settings.read_only,
        lists_from=settings.lists_from,
    )


class _Router(Router):
    """Starlette's router, which tries the pattern of each route, and before it a table of paths without a name."""

    fixed: Mapping[tuple[str, str], ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or open and close the application."""
        endpoint = self.fixed.get((scope.get("method", ""), scope.get("path", "")))
        await (endpoint or super().__call__)(scope, receive, send)


class _Endpoint:
    """The ASGI application of one path: reads the body, calls the method's handler and writes its reply."""

    def __init__(self, service: Service, methods: dict[str, Route]) -> None:
        self._service, self._methods = service, methods

    @property
    def first(self) -> Route:
        """The first route of the path."""
        return next(iter(self._methods.values()))

    def route(self, method: str) -> Route:
        """The route of a method that the path has."""
        return self._methods["GET" if method == "HEAD" else method]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        route = self.route(request.method)
        scope[ROUTE] = route.name
        body = () if route.body is None else (await read_body(request, route.body),)
        reply = await route.handler(self._service, request, *body)
        if isinstance(reply, Response):
            await reply(scope, receive, send)
            return
        # As a `Response` sends it, without making one for every answer.
        status, struct = reply if isinstance(reply, tuple) else (200, reply)
        content = _encode(struct)
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


_FIXED = {(route.method, route.path): route.name for route in ROUTES if "{" not in route.path}


def _route_name(router: Router, scope: Scope) -> str:
    """The label of the route that a request would take, or that has its path but not its method."""
    # Matching patterns takes longer than refusing a request.
    if fixed := _FIXED.get((scope["method"], scope["path"])):
        return fixed
    other = UNMATCHED if scope["path"].startswith("/v1/") else PAGE
    for route in router.routes:
        match, found = route.matches(scope)
        if match is not Match.NONE:
            endpoint: _Endpoint = found["endpoint"]
            if match is Match.FULL:
                return endpoint.route(scope["method"]).name
            other = endpoint.first.name
    return other


async def _no_page(scope: Scope, receive: Receive, send: Send) -> None:
    """What is at `/` if the page is not installed."""
    if scope["path"] != "/":
        raise HTTPException(404, "path: expected one of /docs, got another")
    await PlainTextResponse("This server answers questions about a library; see /docs\n")(
        scope, receive, send
    )
