"""The application: routes behind the gate, and a service that lives as long as it does."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from attar.library import Library
from attar.server import asking, documents, signs
from attar.server.gate import ROUTE, Gate
from attar.server.metrics import Metrics
from attar.server.service import Service
from attar.server.settings import Settings


class AnyConvertor(Convertor[str]):
    """The rest of a path, line ends too, which Starlette's own `path` leaves out."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """As it is."""
        return value

    def to_string(self, value: str) -> str:
        """As it is."""
        return value


register_url_convertor("any", AnyConvertor())

Answering = Callable[[Service, Request], Awaitable[Response]]

# Posted to by the thousand a second, and answered by the gate itself, or on the short way by its connection.
BUSY = {"/v1/ask": asking.ask, "/v1/lookup": asking.lookup}
SHORT = {"/v1/ask": asking.ask_shortly, "/v1/lookup": asking.look_up_shortly}
# The first to match is taken: what is appended comes before the name alone.
ROUTES: list[tuple[str, str, Answering]] = [
    ("GET", "/v1/documents", documents.list_documents),
    ("POST", "/v1/documents/{name:any}/append", documents.append_text),
    ("PUT", "/v1/documents/{name:any}", documents.put_document),
    ("GET", "/v1/documents/{name:any}", documents.show_document),
    ("DELETE", "/v1/documents/{name:any}", documents.remove_document),
    ("POST", "/v1/merge", documents.merge_documents),
    ("POST", "/v1/remove", documents.remove_documents),
    ("POST", "/v1/explain", asking.explain),
    ("POST", "/v1/compare", asking.compare),
    ("GET", "/healthz", signs.health),
    ("GET", "/readyz", signs.readiness),
    ("GET", "/metrics", signs.metrics),
    ("GET", "/openapi.json", signs.openapi),
    ("GET", "/docs", signs.docs),
]


def make_app(settings: Settings, library: Library | None = None) -> ASGIApp:
    """The ASGI application of a library, which is opened here unless one is given, and closed with it."""
    metrics = Metrics(settings.board)
    service = Service(library or open_library(settings), settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        try:
            await service.open()
            yield
        finally:
            await service.close()

    by_path: dict[str, dict[str, Answering]] = {}
    for method, path, answering in ROUTES:
        by_path.setdefault(path, {})[method] = answering
    routes = [route_for(service, *each) for each in by_path.items()]
    # Not a route: it would match every path, and a wrong method would be a page that is not there.
    router = Router(routes, redirect_slashes=False, default=signs.page(), lifespan=lifespan)
    busy = {path: partial(answering, service) for path, answering in BUSY.items()}
    short = {path: partial(answering, service) for path, answering in SHORT.items()}
    return Gate(router, settings, metrics, busy, short)


def open_library(settings: Settings) -> Library:
    """The library that a server is told of."""
    return Library(
        settings.store,
        settings.reader,
        read_only=settings.read_only,
        keep_text=settings.keep_text,
        create=not settings.read_only,
    )


def route_for(service: Service, path: str, answering: dict[str, Answering]) -> Route:
    """A route for all methods of a path, whose functions have the service beside the request."""

    async def answer(request: Request) -> Response:
        chosen = answering["GET" if request.method == "HEAD" else request.method]
        request.scope[ROUTE] = chosen.__name__
        return await chosen(service, request)

    return Route(path, answer, methods=list(answering))
