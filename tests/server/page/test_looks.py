"""Light and dark, widths, keyboards, screen readers, the token, and a page below a path."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from attar.server.app import describe_api

pytestmark = pytest.mark.nightly

BINARY = bytes(range(256)) * 8
SIZES = {360: 780, 820: 1100, 1440: 900}
LOOKS = Path(__file__).with_name("looks.js").read_text().strip()
NARROW = "document.documentElement.scrollWidth <= innerWidth"


def answer(page: Any) -> None:
    page.get_by_label("Question", exact=True).fill("How much is the rent?")
    page.keyboard.press("Enter")
    expect(page.locator("#best .phrase")).to_have_text("740 euros")


def document(page: Any) -> None:
    answer(page)
    page.locator("#best a").click()
    expect(page.locator("#document-text mark")).to_be_in_viewport()


def absent(page: Any) -> None:
    page.get_by_label("Question", exact=True).fill("What is the capital of Norway?")
    page.keyboard.press("Enter")
    expect(page.locator("#best .absent")).to_be_visible()


def documents(page: Any) -> None:
    page.get_by_role("link", name="Documents", exact=True).click()
    page.get_by_role("button", name="Paste a text").click()
    files = [("photo.gif", BINARY), ("letter.txt", b"Then Ann left.")]
    page.locator("#files").set_input_files(
        [{"name": name, "mimeType": "text/plain", "buffer": data} for name, data in files]
    )
    expect(page.locator("#uploads .failed")).to_have_count(2)
    page.get_by_label("Choose minutes").check()


VIEWS = {each.__name__: each for each in (answer, absent, document, documents)}


# Colours do not depend on the width, except where a narrow page arranges itself in another way.
@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (360, "dark"), (820, "dark"), (1440, "light")])
def test_every_view_is_readable_and_fits(demo_server, open_page, picture, width, theme):
    size = {"width": width, "height": SIZES[width]}
    options = {"is_mobile": True, "has_touch": True} if width == 360 else {}
    for name, show in VIEWS.items():
        page = open_page(demo_server, color_scheme=theme, viewport=size, **options)
        expect(page.locator("#examples")).to_be_visible()
        show(page)
        assert [pair for pair in page.evaluate(f"{LOOKS}.contrasts()") if pair[0] < 4.5] == []
        assert page.evaluate(f"{LOOKS}.nameless()") == []
        assert page.evaluate(NARROW)
        picture(page, f"{name}-{width}-{theme}")


def test_requests_are_tried_on_the_page_of_the_api(demo_server, open_page):
    page = open_page(demo_server, "/docs", viewport={"width": 360, "height": 780})
    count = sum(len(methods) for methods in describe_api()["paths"].values())
    expect(page.locator(".operation")).to_have_count(count)
    asking = page.locator("#ask")
    asking.locator("summary").click()
    asking.get_by_label("Body").fill('{"document": "letter", "question": "How much is the rent?"}')
    asking.get_by_role("button", name="Send").click()
    expect(asking.locator("pre")).to_contain_text("200")
    expect(asking.locator("pre")).to_contain_text('"text": "740 euros"')
    files = page.locator("#add_files")
    files.locator("summary").click()
    files.get_by_label("Files").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Ann met Bob."}
    )
    files.get_by_role("button", name="Send").click()
    expect(files.locator("pre")).to_contain_text('"change": "added"')
    assert page.evaluate(NARROW)
    assert page.evaluate(f"{LOOKS}.nameless()") == []


def test_asking_and_opening_work_with_the_keyboard(demo_server, open_page):
    page = open_page(demo_server)
    expect(page.locator("#examples")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    page.keyboard.type("How much is the rent?")
    page.keyboard.press("Enter")
    expect(page.locator("#best .phrase")).to_have_text("740 euros")
    for _ in range(3):  # the scope, the button, the card
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#document-heading")).to_be_focused()


def test_nothing_is_loaded_from_other_sites(server, open_page):
    page = open_page(server, "/healthz")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.address}/#documents")
    expect(page.locator("#library-facts")).to_contain_text("on disk")
    assert [url for url in asked if not url.startswith(server.address)] == []


def test_the_page_works_below_a_path(demo_server, open_page):
    page = open_page(demo_server, "/healthz")
    asked: list[str] = []

    def forward(route: Any) -> None:
        path = urlsplit(route.request.url).path
        asked.append(path)
        route.fulfill(response=route.fetch(url=route.request.url.replace("/below/", "/", 1)))

    page.route("**/below/**", forward)
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(f"{demo_server.address}/below/")
    answer(page)
    page.get_by_role("link", name="Documents", exact=True).click()
    page.locator("#files").set_input_files({"name": "a.gif", "mimeType": "image/gif", "buffer": BINARY})
    expect(page.locator("#uploads .failed")).to_have_count(1)
    assert "/below/v1/ask" in asked
    assert "/below/v1/files" in asked
    assert [path for path in asked if not path.startswith("/below/")] == []


def test_the_token_is_asked_for_once(server, open_told):
    def require_token(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer open-sesame":
            route.continue_()
        else:
            route.fulfill(status=401, json={"title": "Token", "status": 401, "detail": "a token is missing"})

    page = open_told(server, "/", re.compile(r"/v1/"), require_token)
    dialog = page.get_by_role("dialog", name="Token")
    expect(dialog.get_by_text("The server requires a token.")).to_be_visible()
    dialog.get_by_label("Bearer token").fill("wrong")
    dialog.get_by_role("button", name="Use token").click()
    expect(dialog.get_by_text("The server does not accept this token.")).to_be_visible()
    dialog.get_by_label("Bearer token").fill("open-sesame")
    dialog.get_by_role("button", name="Use token").click()
    expect(page.get_by_role("heading", name="Your library is empty")).to_be_visible()
    expect(page.locator("#ask-problem")).to_be_hidden()
    page.get_by_role("link", name="Documents", exact=True).click()
    page.locator("#files").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Ann met Bob."}
    )
    expect(page.locator("#uploads .state")).to_have_text("Added")
    page.reload()
    expect(page.locator("#document-list .name")).to_have_text("a")
    expect(dialog).to_be_hidden()
