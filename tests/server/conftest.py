"""Applications over libraries of generated stories, called in the same process, and real servers."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from attar.library.library import Library
from attar.reader.reader import Reader
from attar.server.app import make_app
from attar.server.run import uvicorn_options
from attar.server.settings import Settings
from benchmarks.stories import Story, tell_stories

URL = "http://localhost"

# Parts of requests that are sent as bytes.
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
END = b"connection: close\r\n\r\n"
GET = HEAD + b"\r\n"
ASK = {"document": "0", "question": "Who left?"}
JSON = "content-type: application/json"
CLOSE = "connection: close"


def request(path, body, *lines, version="1.1"):
    """The head and the body of a request."""
    sent = json.dumps(body).encode()
    head = [f"POST {path} HTTP/{version}", "host: localhost", f"content-length: {len(sent)}", JSON, *lines]
    return "\r\n".join([*head, "\r\n"]).encode(), sent


def statuses_in(answers):
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answers)]


def read_all(connection):
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def wait_until(there, seconds=300):
    """Wait until a condition holds; a loaded machine may take minutes, a broken server must not take for ever."""
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Listening:
    """An application on a real port, run by uvicorn in a thread."""

    def __init__(self, app: Any, **options: Any) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(app, **uvicorn_options(app._settings) | options)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def send_raw(self, *parts: bytes) -> bytes:
        """Send raw bytes; all bytes that come back until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            for part in parts:
                connection.sendall(part)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


def read_metric(text: str, name: str, /, **labels: str) -> float | None:
    """The value of a sample in Prometheus's text format, or None if there is none."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return next((each.value for each in samples if (each.name, each.labels) == (name, labels)), None)


class Served:
    """An application on its own event loop: `served.post("/v1/ask", {...})`."""

    def __init__(self, app: Any, library: Library) -> None:
        self.library = library
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.lifespan = app.app.lifespan_context(app)
        self.run(self.lifespan.__aenter__())
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url=URL)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
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

    def close(self) -> None:
        self.run(self.http.aclose())
        self.run(self.lifespan.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="session")
def stories() -> list[Story]:
    return list(tell_stories(3, 9))


@pytest.fixture(scope="session")
def listening_at() -> Callable[[Any], Listening]:
    """Serves an application on a real port."""
    return Listening


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "library"


@pytest.fixture
def make(folder: Path, tiny_reader: Reader, stories: list[Story]) -> Callable[..., tuple[Any, Library]]:
    """Makes an application over the first stories, named "0", "1" and so on, and its library."""

    def start(documents: int = 2, keep_text: bool = True, **settings: Any) -> tuple[Any, Library]:
        library = Library(folder, tiny_reader, keep_text=keep_text)
        library.add_many([(str(at), stories[at].text) for at in range(documents)])
        return make_app(Settings(store=folder, log_level="error", **settings), library), library

    return start


@pytest.fixture
def serving() -> Iterator[Callable[[Any, Library], Served]]:
    """Serves an application in this process, without a socket."""
    opened: list[Served] = []

    def start(app: Any, library: Library) -> Served:
        opened.append(Served(app, library))
        return opened[-1]

    yield start
    for served in opened:
        served.close()


@pytest.fixture
def serve(make: Callable[..., tuple[Any, Library]]) -> Iterator[Callable[..., Served]]:
    """Serves in this process, without a socket."""
    opened: list[Served] = []

    def start(*arguments: Any, **words: Any) -> Served:
        opened.append(Served(*make(*arguments, **words)))
        return opened[-1]

    yield start
    for served in opened:
        served.close()


@pytest.fixture
def listen(make: Callable[..., tuple[Any, Library]]) -> Iterator[Callable[..., Listening]]:
    """Serves on a real port."""
    opened: list[Listening] = []

    def start(*arguments: Any, **words: Any) -> Listening:
        opened.append(Listening(make(*arguments, **words)[0]))
        return opened[-1]

    yield start
    for listening in opened:
        listening.close()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


@pytest.fixture
def metric() -> Callable[..., float | None]:
    """Reads a value from Prometheus's text format: `metric(text, "attar_queue_length", work="ask")`."""
    return read_metric


@pytest.fixture
def refused() -> Callable[[httpx.Response, int], str]:
    """Asserts that a response is a problem object with a status; returns its detail."""

    def check(response: httpx.Response, status: int) -> str:
        assert response.headers["content-type"] == "application/problem+json", response.text
        problem = response.json()
        assert (response.status_code, problem["status"]) == (status, status), problem
        assert problem["instance"] == f"urn:request:{response.headers['x-request-id']}"
        return problem["detail"]

    return check


@pytest.fixture
def held(make, listening_at, monkeypatch):
    """Starts a server whose answers wait until `go` is set."""
    opened, begun, go = [], threading.Event(), threading.Event()

    def start(**settings):
        app, library = make(**settings)
        ask_many = library.ask_many

        def wait_and_ask(*arguments, **options):
            begun.set()
            assert go.wait(30)
            return ask_many(*arguments, **options)

        monkeypatch.setattr(library, "ask_many", wait_and_ask)
        opened.append(listening_at(app))
        return opened[-1], begun, go

    yield start
    go.set()
    for each in opened:
        each.close()


class Running:
    """A server process and the lines of its log."""

    def __init__(self, *words, env=None):
        command = [sys.executable, "-m", "attar", "serve", *map(str, words), "--port", "0"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=os.environ | (env or {})
        )
        self.lines = []
        self.url = None
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def _listen(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r" at (https?://\S+)", line)
            self.url = found.group(1).rstrip('"}') if found else self.url

    def wait_for(self, words, times=1):
        """Wait until this many lines contain the words; fail if the process ends first."""

        def are_there():
            assert self.process.poll() is None, "".join(self.lines)
            return sum(words in line for line in list(self.lines)) >= times

        wait_until(are_there)

    def send_raw(self, request: bytes) -> bytes:
        """Send raw bytes; all bytes that come back until the server closes the connection."""
        address = ("127.0.0.1", int(self.url.rpartition(":")[2]))
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(request)
            return read_all(connection)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self.thread.join()
        self.process.stderr.close()
        return code


@pytest.fixture
def start(folder, tiny_reader_folder):
    started = []

    def run(*words, **options):
        started.append(Running(folder, "--reader", tiny_reader_folder, *words, **options))
        return started[-1]

    yield run
    for running in started:
        running.stop(signal.SIGKILL)
