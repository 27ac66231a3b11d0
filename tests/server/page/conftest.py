"""A real server with the reader that ships, and a real browser: one of each for all tests of the page."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from attar.cli.demo import TEXTS
from benchmarks.server import serving
from benchmarks.stories import tell_stories
from tests.debian import program

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SCREENSHOTS = Path(__file__).resolve().parents[3] / "out" / "screenshots"
WIDE = {"width": 1280, "height": 900}
SEASONS = dict(zip(("autumn", "spring", "winter"), (story.text for story in tell_stories(3, 3)), strict=True))


class Server:
    """A running `attar serve`, calls of its API, and the folder of its library."""

    def __init__(self, address: str, library: Path) -> None:
        self.address, self.library = address, library

    def call(self, method: str, path: str, body: object = None) -> Any:
        response = httpx.request(method, f"{self.address}/v1/{path}", json=body, timeout=60)
        return response.raise_for_status().json() if response.content else None

    def put(self, name: str, text: str) -> None:
        self.call("PUT", f"documents/{quote(name, safe='')}", {"text": text})

    def remove(self, name: str) -> None:
        self.call("DELETE", f"documents/{quote(name, safe='')}")

    def tokens(self, name: str) -> int:
        return self.call("GET", f"documents/{quote(name, safe='')}")["tokens"]

    def names(self) -> list[str]:
        return [document["name"] for document in self.call("GET", "documents?limit=1000")["documents"]]


@pytest.fixture(scope="package")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`attar serve` with the reader that ships, on a library of its own: one for all tests of the page."""
    folder = tmp_path_factory.mktemp("served") / "library"
    with serving(folder, None) as running:
        yield Server(f"http://127.0.0.1:{running.port}", folder)


def keep_only(server: Server, texts: dict[str, str]) -> Server:
    """A server whose library has these documents, whatever the test before did to them."""
    there = {name: server.call("GET", f"documents/{quote(name, safe='')}")["text"] for name in server.names()}
    for name in there:
        if there[name] != texts.get(name):
            server.remove(name)
    for name in texts:
        if there.get(name) != texts[name]:
            server.put(name, texts[name])
    return server


@pytest.fixture
def server(running_server: Server) -> Server:
    """A server whose library is empty."""
    for name in running_server.names():
        running_server.remove(name)
    return running_server


@pytest.fixture
def demo_server(running_server: Server) -> Server:
    """A server whose library has the two texts of the demo."""
    return keep_only(running_server, {name: text.strip() for name, text in TEXTS.items()})


@pytest.fixture
def seasons_server(running_server: Server) -> Server:
    """A server whose library has three stories: autumn, spring, winter."""
    return keep_only(running_server, SEASONS)


@pytest.fixture(scope="package")
def chromium() -> str:
    """Debian's browser."""
    return program("chromium", "chromium-browser", "google-chrome")


# Of this folder and no longer: while Playwright runs, so does its event loop, and no other test can run one.
@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # two busy cores draw a page in more than the usual five seconds
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page of a server; a script that fails on it fails the test."""
    faults: list[str] = []
    contexts = []

    def open_it(server: Server, path: str = "/", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, "color_scheme": "light"} | options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.goto(server.address + path)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def open_told(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a page that is told this JSON, or what a function answers, at the addresses of a pattern."""

    def open_it(server: Server, path: str, pattern: Any, told: Any) -> Any:
        page = open_page(server, "/healthz")
        page.route(pattern, told if callable(told) else lambda route: route.fulfill(json=told))
        page.goto(server.address + path)
        return page

    return open_it


@pytest.fixture
def page(server: Server, open_page: Callable[..., Any]) -> Any:
    """The page of a library that is empty."""
    return open_page(server)


@pytest.fixture
def filled(seasons_server: Server, open_page: Callable[..., Any]) -> Any:
    """The page of a library with three stories: autumn, spring, winter."""
    return open_page(seasons_server)


@pytest.fixture
def picture() -> Callable[..., None]:
    """Saves a screenshot in out/screenshots, of the whole page or of what fits the window."""

    def take(page: Any, name: str, whole: bool = True) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=whole)

    return take
