"""The application: one table of routes, from which routing, OpenAPI and the labels of metrics are made."""

import contextlib
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import attar
from attar import wire
from attar.library import Library
from attar.results import Change
from attar.server import routes
from attar.server.metrics import Metrics
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
    return _json_response(describe_api())


async def docs(service: Service, request: Request) -> Response:
    """The routes as a page of HTML."""
    return HTMLResponse(html_document(_DOCUMENTED))


_DOCUMENT = "/v1/documents/{name:any}"
_READ_ERRORS = (400, 404, 413, 415, 422)
_WRITE_ERRORS = (*_READ_ERRORS, 403)
_LIST_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "after": ("only names after this one", {"type": "string"}),
    "limit": (
        "at most this many documents",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": routes.MAX_PAGE_SIZE,
            "default": routes.PAGE_SIZE,
        },
    ),
}
_SHOW_QUERY = {"memory": ("1: also the numbers of the memory", {"type": "string", "enum": ["0", "1"]})}

# The first route that matches is taken: the busiest come first, and "…/append" before the name alone.
ROUTES = (
    Route(
        method="POST",
        path="/v1/ask",
        handler=routes.ask,
        summary="Ask one or many questions about one or many documents",
        body=wire.Ask,
        replies={200: wire.Answers | wire.ManyAnswers},
        errors=_READ_ERRORS,
    ),
    Route(
        method="POST",
        path="/v1/lookup",
        handler=routes.lookup,
        summary="Look vectors up in memories",
        body=wire.Lookup,
        binary=True,
        replies={200: wire.Readout | wire.Readouts},
        errors=_READ_ERRORS,
    ),
    Route(
        method="POST",
        path="/v1/explain",
        handler=routes.explain,
        summary="The weight of each token for a question",
        body=wire.Explain,
        replies={200: wire.Explanation},
        errors=_READ_ERRORS,
    ),
    Route(
        method="POST",
        path="/v1/compare",
        handler=routes.compare,
        summary="Measure a lookup compared with softmax",
        body=wire.Compare,
        replies={200: wire.Comparison},
        errors=_READ_ERRORS,
    ),
    Route(
        method="GET",
        path="/v1/documents",
        handler=routes.list_documents,
        summary="List documents",
        replies={200: wire.Page},
        errors=(413, 422),
        query=_LIST_QUERY,
    ),
    Route(
        method="POST",
        path=wire.MERGE,
        handler=routes.merge_documents,
        summary="Make one document of several, which stay",
        body=wire.Merge,
        replies={200: Change},
        errors=(*_WRITE_ERRORS, 409),
    ),
    Route(
        method="POST",
        path=wire.REMOVE,
        handler=routes.remove_documents,
        summary="Remove documents: all of them, or none",
        body=wire.Remove,
        replies={204: None},
        errors=_WRITE_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{_DOCUMENT}/append",
        handler=routes.append_text,
        summary="Append text to a document",
        body=wire.AppendText,
        replies={200: Change},
        errors=_WRITE_ERRORS,
    ),
    Route(
        method="PUT",
        path=_DOCUMENT,
        handler=routes.put_document,
        summary="Add or replace a document",
        body=wire.PutDocument,
        replies={201: Change, 200: Change},
        errors=(*_WRITE_ERRORS, 409),
    ),
    Route(
        method="GET",
        path=_DOCUMENT,
        handler=routes.show_document,
        summary="Show a document",
        replies={200: wire.ShownDocument},
        errors=(404, 413, 422),
        query=_SHOW_QUERY,
    ),
    Route(
        method="DELETE",
        path=_DOCUMENT,
        handler=routes.remove_document,
        summary="Remove a document",
        replies={204: None},
        errors=(403, 404, 413, 422),
    ),
    Route(method="GET", path="/healthz", handler=routes.health, summary="Whether the process is alive"),
    Route(method="GET", path="/readyz", handler=routes.readiness, summary="Whether it can answer"),
    Route(method="GET", path="/metrics", handler=routes.metrics, summary="Metrics for Prometheus"),
    Route(method="GET", path="/openapi.json", handler=openapi, summary="This document", documented=False),
    Route(method="GET", path="/docs", handler=docs, summary="This page", documented=False),
)
_DOCUMENTED = [route for route in ROUTES if route.documented]


@cache
def describe_api() -> dict[str, Any]:
    """The OpenAPI document of the server.

    >>> describe_api()["openapi"], "/v1/ask" in describe_api()["paths"]
    ('3.1.0', True)
    """
    return openapi_document(_DOCUMENTED, attar.__version__)


def make_app(settings: Settings, library: Library | None = None) -> ASGIApp:
    """The ASGI application of a library, which is opened from the settings if not given, and closed on shutdown."""
    metrics = Metrics([route.name for route in ROUTES], settings.counters)
    service = Service(library or open_library(settings), settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        try:
            await service.open()
            yield
        finally:
            await service.close()

    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    routing = [
        StarletteRoute(path, _Endpoint(service, methods), methods=list(methods))
        for path, methods in by_path.items()
    ]
    # The page is the default and no route: it would match all paths, and hide 405.
    page = StaticFiles(directory=PAGE_FOLDER, html=True) if PAGE_FOLDER.is_dir() else _no_page
    return Middleware(
        Router(routing, redirect_slashes=False, default=page, lifespan=lifespan), settings, metrics
    )


def open_library(settings: Settings) -> Library:
    """The library of a server."""
    return Library(
        settings.store,
        settings.reader,
        read_only=settings.read_only,
        keep_text=settings.keep_text,
        create=not settings.read_only,
    )


class _Endpoint:
    """The ASGI application of one path: reads the body, calls the method's handler and writes its reply."""

    def __init__(self, service: Service, methods: dict[str, Route]) -> None:
        self._service, self._methods = service, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        route = self._methods["GET" if request.method == "HEAD" else request.method]
        scope[ROUTE] = route.name
        body = () if route.body is None else (await read_body(request, route.body, route.binary),)
        reply = await route.handler(self._service, request, *body)
        if not isinstance(reply, Response):
            status, struct = reply if isinstance(reply, tuple) else (200, reply)
            reply = _json_response(struct, status)
        await reply(scope, receive, send)


def _json_response(value: object, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type=JSON)


async def _no_page(scope: Scope, receive: Receive, send: Send) -> None:
    """What is at `/` if the page is not installed."""
    if scope["path"] != "/":
        raise HTTPException(404, "path: expected one of /docs, got another")
    await PlainTextResponse("This server answers questions about a library; see /docs\n")(
        scope, receive, send
    )
