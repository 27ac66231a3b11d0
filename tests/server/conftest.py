"""Applications over libraries of generated stories, called in the same process, on a real port, or as a process."""

import asyncio
import json
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp

from attar.library.library import Library
from attar.progress import StoppedError, check_stopped
from attar.server.app import make_app
from attar.server.run import uvicorn_options
from attar.server.settings import Settings
from benchmarks.stories import tell_stories
from tests.running import Running, wait_until

# Parts of requests that are sent as bytes.
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
END = b"connection: close\r\n\r\n"
GET = HEAD + b"\r\n"
ASK = {"document": "0", "question": "Who left?"}
JSON = "content-type: application/json"
CLOSE = "connection: close"


def request(path, body, *lines, method="POST", version="1.1"):
    """The head and the body of a request."""
    sent = json.dumps(body).encode()
    head = [
        f"{method} {path} HTTP/{version}",
        "host: localhost",
        f"content-length: {len(sent)}",
        JSON,
        *lines,
    ]
    return "\r\n".join([*head, "\r\n"]).encode(), sent


def statuses_in(answers):
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answers)]


def read_all(connection):
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def send_raw(port: int, *parts: bytes) -> bytes:
    """Send raw bytes; all bytes that come back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
        return read_all(connection)


def read_metric(text: str, name: str, /, **labels: str) -> float | None:
    """The value of a sample in Prometheus's text format, or None if there is none."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return next((each.value for each in samples if (each.name, each.labels) == (name, labels)), None)


class Made(NamedTuple):
    """An application, its library and its settings."""

    app: ASGIApp
    library: Library
    settings: Settings


class Listening:
    """An application on a real port, run by uvicorn in a thread."""

    def __init__(self, made: Made) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(uvicorn.Config(made.app, **uvicorn_options(made.settings)))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()
        wait_until(lambda: self.server.started)

    def send_raw(self, *parts: bytes) -> bytes:
        return send_raw(self.port, *parts)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


class Served:
    """An application on its own event loop, without a socket: `served.post("/v1/ask", {...})`."""

    def __init__(self, made: Made) -> None:
        self.library = made.library
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.run(self._open(made.app))
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(made.app), base_url="http://localhost")

    async def _open(self, app: ASGIApp) -> None:
        self._told, self._said = asyncio.Queue(), asyncio.Queue()
        scope = {"type": "lifespan", "state": {}}
        self._lifespan = asyncio.create_task(app(scope, self._told.get, self._said.put))
        await self._tell("startup")

    async def _tell(self, what: str) -> None:
        await self._told.put({"type": f"lifespan.{what}"})
        assert (await self._said.get())["type"] == f"lifespan.{what}.complete"

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def call(self, method: str, path: str, body: Any = None, **words: Any) -> httpx.Response:
        if body is not None:
            words["json"] = body
        return self.run(self.http.request(method, path, **words))

    def get(self, path: str, **words: Any) -> httpx.Response:
        return self.call("GET", path, **words)

    def post(self, path: str, body: Any = None, **words: Any) -> httpx.Response:
        return self.call("POST", path, body, **words)

    def put(self, path: str, body: Any = None, **words: Any) -> httpx.Response:
        return self.call("PUT", path, body, **words)

    def metric(self, name: str, /, headers: dict[str, str] | None = None, **labels: str) -> float | None:
        """A value from /metrics, or None if there is none."""
        return read_metric(self.get("/metrics", headers=headers).text, name, **labels)

    def call_concurrently(self, calls: list[tuple[str, str, Any]]) -> list[httpx.Response]:
        async def send() -> list[httpx.Response]:
            sent = (self.http.request(method, path, json=body) for method, path, body in calls)
            return list(await asyncio.gather(*sent))

        return self.run(send())

    def shut_down(self) -> None:
        if not self._lifespan.done():
            self.run(self._tell("shutdown"))
            self.run(asyncio.wait([self._lifespan]))

    def close(self) -> None:
        self.run(self.http.aclose())
        self.shut_down()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="session")
def stories():
    return list(tell_stories(3, 9))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "library"


@pytest.fixture
def make(folder, tiny_reader, stories):
    """Makes an application over the first stories, named "0", "1" and so on."""

    def start(documents: int = 2, keep_text: bool = True, **options: Any) -> Made:
        library = Library(folder, tiny_reader, keep_text=keep_text)
        library.add_many([(str(at), stories[at].text) for at in range(documents)])
        settings = Settings(store=folder, log_level="error", **options)
        return Made(make_app(settings, library), library, settings)

    return start


@pytest.fixture
def serve(make):
    """Serves in this process, without a socket: with settings, or an application."""
    with ExitStack() as opened:
        yield lambda made=None, **options: opened.enter_context(closing(Served(made or make(**options))))


@pytest.fixture
def listen(make):
    """Serves on a real port: with settings, or an application."""
    with ExitStack() as opened:
        yield lambda made=None, **options: opened.enter_context(closing(Listening(made or make(**options))))


@pytest.fixture
def served(serve) -> Served:
    return serve()


@pytest.fixture
def refused():
    """Asserts that a response is a problem object with a status; returns its detail."""

    def check(response: httpx.Response, status: int) -> str:
        assert response.headers["content-type"] == "application/problem+json", response.text
        problem = response.json()
        assert (response.status_code, problem["status"]) == (status, status), problem
        assert problem["instance"] == f"urn:request:{response.headers['x-request-id']}"
        return problem["detail"]

    return check


class Hold:
    """Makes a library's method wait until `go` is set or, if it can be stopped, until that."""

    def __init__(
        self,
        library: Library,
        monkeypatch: pytest.MonkeyPatch,
        method: str = "ask_each",
        can_be_stopped: bool = False,
    ) -> None:
        self.begun, self.go, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self._work, self._can_be_stopped = getattr(library, method), can_be_stopped
        monkeypatch.setattr(library, method, self._wait_and_work)

    def _wait_and_work(self, *arguments: Any, **options: Any) -> Any:
        self.begun.set()
        deadline = time.monotonic() + 60
        while not self.go.wait(0.01):
            assert time.monotonic() < deadline
            try:
                if self._can_be_stopped:
                    check_stopped()
            except StoppedError:
                self.stopped.set()
                raise
        return self._work(*arguments, **options)


@pytest.fixture
def held(make, listen, monkeypatch):
    """Starts a server whose answers wait until `go` is set."""
    holds = []

    def start(**settings):
        made = make(**settings)
        holds.append(Hold(made.library, monkeypatch))
        return listen(made), holds[-1].begun, holds[-1].go

    yield start
    for hold in holds:
        hold.go.set()


@pytest.fixture
def start(folder, tiny_reader_folder):
    started = []

    def run(*words):
        started.append(Running("serve", folder, "--reader", tiny_reader_folder, *words, "--port", 0))
        return started[-1]

    yield run
    for running in started:
        running.stop(signal.SIGKILL)
