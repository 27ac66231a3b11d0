"""The application: one table of routes, from which routing, OpenAPI and the labels of metrics are made."""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import attar
from attar import wire
from attar.library.served import ServedLibrary
from attar.results import Change, DocumentDetails
from attar.server import middleware, routes
from attar.server.metrics import METRICS, Metrics, Observe
from attar.server.openapi import Route, Upload, openapi_document
from attar.server.service import Service
from attar.server.settings import Settings, open_library

PAGE_FOLDER = Path(__file__).parent / "page"
# Seconds after which freed memory is given back again.
_PAUSE = 5.0


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
    document = describe_api() | ({"servers": [{"url": prefix}]} if prefix else {})
    return Response(msgspec.json.encode(document), media_type=wire.JSON)


async def docs(service: Service, request: Request) -> Response:
    """The routes as a page that can send requests; it is made from the OpenAPI document."""
    return FileResponse(PAGE_FOLDER / "docs.html")


_DOCUMENT = wire.DOCUMENTS + "/{name:any}"
_JOB = wire.JOBS + "/{id}"
# Method, path, handler, body and replies. The first route that matches is taken: the busiest come first, and
# "…/append" before the name alone.
ROUTES = (
    Route("POST", wire.ASK, routes.ask, wire.Ask, {200: wire.Answers | wire.ManyAnswers}),
    Route("POST", wire.ANSWERS, routes.list_answers, wire.ListAnswers, {200: wire.AnswerList}),
    Route("POST", wire.SEARCH, routes.search, wire.Search, {200: wire.Hits}),
    Route("POST", wire.VERIFY, routes.verify, wire.Verify, {200: wire.Verification}),
    Route("GET", wire.DOCUMENTS, routes.list_documents, None, {200: wire.Page}, query=wire.ListQuery),
    Route("GET", wire.STATUS, routes.status, None, {200: wire.Status}),
    Route(
        "POST", wire.FILES, routes.add_files, Upload, {200: wire.Changes, 202: wire.Job},
        query=wire.FileQuery, changes=True,
    ),
    Route("POST", wire.MERGE, routes.merge_documents, wire.Merge, {200: Change}, changes=True),
    Route("POST", wire.REMOVE, routes.remove_documents, wire.Remove, {204: None}, changes=True),
    Route("POST", wire.TAG, routes.tag_documents, wire.Tag, {204: None}, changes=True),
    Route("GET", wire.JOBS, routes.list_jobs, None, {200: wire.JobList}),
    Route("GET", _JOB, routes.show_job, None, {200: wire.Job}),
    Route("DELETE", _JOB, routes.cancel_job, None, {200: wire.Job}, changes=True),
    Route(
        "POST", f"{_DOCUMENT}/append", routes.append_text, wire.AppendText, {200: Change, 202: wire.Job},
        changes=True,
    ),
    Route(
        "PUT", _DOCUMENT, routes.put_document, wire.PutDocument, {201: Change, 200: Change, 202: wire.Job},
        changes=True,
    ),
    Route("GET", _DOCUMENT, routes.show_document, None, {200: DocumentDetails}),
    Route("DELETE", _DOCUMENT, routes.remove_document, None, {204: None}, changes=True),
    Route("GET", "/healthz", routes.health),
    Route("GET", "/readyz", routes.readiness),
    Route("GET", "/metrics", routes.metrics),
    Route("GET", "/openapi.json", openapi, documented=False),
    Route("GET", "/docs", docs, documented=False),
)  # fmt: skip
_DOCUMENTED = [route for route in ROUTES if route.documented]


@cache
def describe_api() -> dict[str, Any]:
    """The OpenAPI document of the server.

    >>> describe_api()["openapi"], "/v1/ask" in describe_api()["paths"]
    ('3.1.0', True)
    """
    return openapi_document(_DOCUMENTED, attar.__version__)


def make_app(settings: Settings, library: ServedLibrary | None = None) -> ASGIApp:
    """The ASGI application of a library, which is opened from the settings if not given, and closed on shutdown."""
    metrics = Metrics()
    service = Service(library if library is not None else open_library(settings), settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[dict[str, Any]]:
        trimming = asyncio.create_task(_return_freed_memory())
        try:
            await service.open()
            # For the connections, which refuse what is not HTTP before there is a request.
            yield {METRICS: metrics}
        finally:
            trimming.cancel()
            await service.close()

    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    # The page is the default and no route: it would match all paths, and hide 405.
    router = Router(
        [
            StarletteRoute(path, routes.Endpoint(service, methods), methods=list(methods))
            for path, methods in by_path.items()
        ],
        redirect_slashes=False,
        default=StaticFiles(directory=PAGE_FOLDER, html=True),
        lifespan=lifespan,
    )
    requests = _with_middleware(router, settings, metrics)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # What is not a request is the start and the end of the server.
        await (requests if scope["type"] == "http" else router)(scope, receive, send)

    return app


def _with_middleware(app: ASGIApp, settings: Settings, metrics: Metrics) -> ASGIApp:
    """The middleware around the routes, the innermost first."""
    app = middleware.GiveUp(app, settings.timeout)
    app = middleware.LimitConcurrency(app, settings.max_concurrent, metrics)
    app = middleware.LimitBody(app, settings.max_body)
    if settings.token is not None:
        app = middleware.RequireToken(app, settings.token, settings.read_tokens)
    if settings.hosts:
        app = middleware.RequireHost(app, settings.hosts)
    app = middleware.RefuseAmbiguous(app)
    app = middleware.Problems(app)
    if settings.cors:
        app = CORSMiddleware(
            app,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", "prefer", wire.KEY_HEADER],
            expose_headers=["location", "retry-after", "x-request-id"],
        )
    app = middleware.PageHeaders(app)
    app = Observe(app, metrics, {(route.method, route.path): route.name for route in ROUTES})
    return middleware.StripPrefix(app, settings.prefix) if settings.prefix else app


async def _return_freed_memory() -> None:
    """Give freed memory back every few seconds. Only glibc needs that, and can do it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        # Each time takes some milliseconds, in which nothing waits.
        await asyncio.sleep(_PAUSE)
        await asyncio.to_thread(trim, 0)
