"""The application: one table of routes, from which routing, OpenAPI and the labels of metrics are made."""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.datastructures import UploadFile
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import attar
from attar import wire
from attar.errors import FormatError, OptionError
from attar.library.served import ServedLibrary
from attar.results import Change, DocumentDetails
from attar.server import middleware, routes
from attar.server.metrics import HEADERS, METRICS, READ_ONLY, ROUTE, Metrics, Observe
from attar.server.problems import MEDIA_TYPE, ProblemError, printable
from attar.server.routes import encode, query_of
from attar.server.service import Service, Upload
from attar.server.settings import Settings, open_library

PAGE_FOLDER = Path(__file__).parent / "page"
# Seconds after which freed memory is given back again.
_PAUSE = 5.0
# Files in one form.
_MAX_FILES = 1_000

Shape = Any  # a struct, a union of structs, `Upload`, or None for plain text

_decoder = cache(msgspec.json.Decoder)


class _AnyConvertor(PathConvertor):
    """The rest of a path, including line ends, which Starlette's `path` does not match."""

    regex = r"[\s\S]*"


register_url_convertor("any", _AnyConvertor())


@dataclass(frozen=True)
class Route:
    """One route: routing, OpenAPI and the labels of metrics are made from it.

    `handler` takes the service, the request and, if there is a `body`, its struct or a list of files. It returns a
    struct of `replies`, a status and a struct, or a response. Its name is the label in metrics, its docstring the
    summary. With `changes`, it changes the library, which a read-only server or token may not.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[object]]
    body: type[msgspec.Struct] | type[Upload] | None = None
    replies: dict[int, Shape] = field(default_factory=lambda: {200: None})
    _: KW_ONLY
    query: type[msgspec.Struct] | None = None
    changes: bool = False
    documented: bool = True

    @property
    def name(self) -> str:
        """The label in metrics."""
        return self.handler.__name__


class Endpoint:
    """The ASGI application of one path, by its methods: reads the body, calls the handler and encodes its reply."""

    def __init__(self, service: Service, methods: Mapping[str, Route]) -> None:
        self._service = service
        self._routes = {method: (route, route.name) for method, route in methods.items()}
        if "GET" in methods:
            self._routes["HEAD"] = self._routes["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, scope[ROUTE] = self._routes[scope["method"]]
        request = Request(scope, receive, send)
        if route.changes:
            _refuse_read_only(self._service, request)
        body = () if route.body is None else (await _read_body(self._service, request, route.body),)
        reply = await route.handler(self._service, request, *body)
        if not isinstance(reply, Response):
            status, struct = reply if isinstance(reply, tuple) else (200, reply)
            reply = Response(encode(struct), status, media_type=wire.JSON)
        await reply(scope, receive, send)


def _refuse_read_only(service: Service, request: Request) -> None:
    if service.settings.read_only:
        raise ProblemError(403, "the library is served read-only")
    if request.scope.get(READ_ONLY):
        raise ProblemError(403, "this token may ask, but not change the library")


async def _read_body(
    service: Service, request: Request, body: type[msgspec.Struct] | type[Upload]
) -> msgspec.Struct | list[Upload]:
    """The JSON body as a struct, or the files that are sent.

    The content type is required: a browser does not send JSON or bytes to another site without that site's consent.
    """
    sent: bytes = request.scope[HEADERS].get(b"content-type", b"")
    media_type = sent.decode("latin-1").partition(";")[0].strip().lower()
    if body is Upload and media_type == wire.FORM:
        _refuse_other_sites(service, request)
        files, query = await _read_form(request), query_of(request, wire.FileQuery)
        if len(files) > 1 and (query.name or query.source):
            raise OptionError.expected(
                "name and source", "one file", f"{len(files):,}", "send them one by one"
            )
        return [Upload(query.name, file.data) for file in files] if query.name else files
    expected = wire.MEDIA if body is Upload else wire.JSON
    if media_type != expected:
        came = printable(media_type, 60) or "none"
        also = f" or {wire.FORM}" if body is Upload else ""
        raise ProblemError(415, f"content-type: expected {expected}{also}, got {came}", {"accept": expected})
    data = await request.body()
    if body is Upload:
        if not (name := query_of(request, wire.FileQuery).name):
            raise OptionError("the file needs a name, by which its kind is known", "give ?name=")
        return [Upload(name, data)]
    decoder: msgspec.json.Decoder[msgspec.Struct] = _decoder(cast(Any, body))
    return decoder.decode(data)


async def _read_form(request: Request) -> list[Upload]:
    """The files of a form, whatever their fields are named."""
    as_curl = "send it as curl -F file=@NAME does"
    try:
        async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FILES) as form:
            files = [
                value for _, value in form.multi_items() if isinstance(value, UploadFile) and value.filename
            ]
            if not files:
                raise FormatError("the form has no file", as_curl)
            return [Upload(file.filename or "", await file.read()) for file in files]
    except UnicodeError as fault:
        raise FormatError("the names in the form are not in its charset", as_curl) from fault


def _refuse_other_sites(service: Service, request: Request) -> None:
    """A browser sends a form of any site, but with the origin of that site."""
    origin = request.headers.get("origin")
    is_own = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not is_own and not {origin, "*"} & {*service.settings.origins}:
        raise ProblemError(403, "a form of another site is refused; allow its origin with --cors")


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
            StarletteRoute(path, Endpoint(service, methods), methods=list(methods))
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


_SCHEMAS = "#/components/schemas/"
_PATH = {
    "name": {
        "description": "The document's name, percent-encoded; any characters, including slashes.",
        "schema": {"type": "string", "minLength": 1},
    },
    "id": {"description": "The job's id.", "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
}
_BINARY = {"type": "string", "format": "binary"}


@cache
def describe_api() -> dict[str, Any]:
    """The routes as OpenAPI 3.1, from the structs of their bodies; every refusal is a problem object.

    >>> describe_api()["openapi"], "/v1/ask" in describe_api()["paths"]
    ('3.1.0', True)
    """
    described = [route for route in ROUTES if route.documented]
    shapes = [wire.Problem, *(struct for route in described for struct in _structs(route.body))]
    shapes += [
        struct for route in described for reply in route.replies.values() for struct in _structs(reply)
    ]
    _, schemas = msgspec.json.schema_components(shapes, ref_template=_SCHEMAS + "{name}")
    for schema in schemas.values():
        # The examples of a docstring are for readers of the code.
        schema["description"] = schema.get("description", "").partition(">>>")[0].strip()
    paths: dict[str, Any] = {}
    for route in described:
        # Without Starlette's convertors.
        paths.setdefault(route.path.replace(":any}", "}"), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Attar", "version": attar.__version__, "description": "Questions about documents."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    summary = (route.handler.__doc__ or "").rstrip(".")
    parameters = [
        {"name": name, "in": "path", "required": True, **described}
        for name, described in _PATH.items()
        if f"{{{name}" in route.path
    ]
    if route.query is not None:
        _, schemas = msgspec.json.schema_components([route.query])
        parameters += [
            {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}
            for name, schema in schemas[route.query.__name__]["properties"].items()
        ]
    problem = {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    responses = {
        str(status): {"description": summary} | ({} if status == 204 else {"content": _content(shape)})
        for status, shape in route.replies.items()
    }
    responses["default"] = {"description": "A problem object (RFC 9457)", "content": problem}
    operation = {
        "operationId": route.name,
        "summary": summary,
        "parameters": parameters,
        "responses": responses,
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body)}
    return operation


def _content(shape: Shape) -> dict[str, Any]:
    if shape is None:
        return {"text/plain": {"schema": {"type": "string"}}}
    if shape is Upload:
        files = {"type": "array", "items": _BINARY, "minItems": 1}
        form = {"type": "object", "properties": {"file": files}, "required": ["file"]}
        return {wire.MEDIA: {"schema": _BINARY}, wire.FORM: {"schema": form}}
    schemas = [{"$ref": _SCHEMAS + struct.__name__} for struct in _structs(shape)]
    return {wire.JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _structs(shape: Shape) -> Sequence[type[msgspec.Struct]]:
    return getattr(shape, "__args__", [shape]) if shape not in (None, Upload) else []
