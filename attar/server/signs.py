"""Routes for those who run the server: signs of life, counts, documentation, and the page."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from attar.server import requests
from attar.server.openapi import description, documentation
from attar.server.problems import Refusal
from attar.server.service import Service

PAGE = Path(__file__).parent / "page"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


async def health(service: Service, request: Request) -> Response:
    """Alive."""
    return PlainTextResponse("alive\n")


async def readiness(service: Service, request: Request) -> Response:
    """Able to answer: the reader is loaded and the store can be read."""
    if not service.ready:
        raise Refusal(503, "server: expected a reader and a store that are ready, got some that are not yet")
    await service.aside(service.stats)
    return PlainTextResponse("ready\n")


async def metrics(service: Service, request: Request) -> Response:
    """What was counted, for Prometheus."""
    store = await service.aside(service.stats)
    return Response("\n".join(service.metrics.lines(store)) + "\n", media_type=METRICS)


async def openapi(service: Service, request: Request) -> Response:
    """The routes as OpenAPI describes them."""
    return requests.respond(description())


async def docs(service: Service, request: Request) -> Response:
    """The routes for people; needs no network."""
    return HTMLResponse(documentation())


def page() -> ASGIApp:
    """The page's files; where there are none, a line that says where to look instead."""
    if PAGE.is_dir():
        return StaticFiles(directory=PAGE, html=True)
    return no_page


async def no_page(scope: Scope, receive: Receive, send: Send) -> None:
    """What is at `/` where there is no page."""
    if scope["path"] != "/":
        raise HTTPException(404, "path: expected one of /docs, got another")
    await PlainTextResponse("attar serves a library here; see /docs\n")(scope, receive, send)
