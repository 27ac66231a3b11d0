"""Searching and asking all documents over HTTP, with the reader that ships, on a real port."""

import asyncio
import threading

import pytest

from attar import AsyncClient, Client
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.server.app import make_app
from attar.server.settings import Settings

from .conftest import Made

pytestmark = pytest.mark.slow

TEXTS = {
    "rome": "Rome is the capital of Italy. The Tiber flows through the city.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
}
QUESTION = "Where was tea first drunk?"


@pytest.fixture(scope="module")
def shipped():
    return Reader.load()


@pytest.fixture
def made(tmp_path, shipped):
    library, settings = Library(tmp_path / "library", shipped), Settings(store=tmp_path / "library")
    library.add_many(TEXTS.items())
    return Made(make_app(settings, library), library, settings)


@pytest.fixture
def listening(listen, made):
    return listen(made)


def test_clients_find_what_the_library_finds(listening, tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library, Client(listening.url) as client:
        assert client.search("the Italian capital", top=1) == library.search("the Italian capital", top=1)
        here, there = library.ask_all(QUESTION), client.ask_all(QUESTION)
        assert [(each.text, each.document, each.quote) for each in here] == [
            (each.text, each.document, each.quote) for each in there
        ]


def test_a_server_loads_signatures_before_the_first_search(listen, made, monkeypatch):
    loaded, load = threading.Event(), made.library.load_signatures
    monkeypatch.setattr(made.library, "load_signatures", lambda: (load(), loaded.set()))
    listen(made)
    assert loaded.wait(60)


def test_the_async_client_too(listening):
    async def ask():
        async with AsyncClient(listening.url) as client:
            return await asyncio.gather(client.ask_all(QUESTION, top=1), client.search(QUESTION, top=1))

    (answer,), (hit,) = asyncio.run(ask())
    assert (answer.text, answer.document, hit.document) == ("China", "tea", "tea")


def test_a_written_document_is_found_at_once(listening):
    with Client(listening.url) as client:
        client.search("coffee")
        client.add("coffee", "Coffee came from Ethiopia.")
        assert client.ask_all("Where did coffee come from?")[0].text == "Ethiopia"
        client.remove("coffee")
        assert "coffee" not in [hit.document for hit in client.search("coffee")]


def test_many_questions_to_all_documents(serve_all):
    told = serve_all.post("/v1/ask", {"questions": [QUESTION, "What flows through Rome?"], "top": 1}).json()
    assert [result["answers"][0]["document"] for result in told["results"]] == ["tea", "rome"]
    assert [result["document"] for result in told["results"]] == [None, None]


@pytest.mark.parametrize("body", [{}, {"query": 5}, {"query": "a", "top": 0}, {"query": "a", "more": 1}])
def test_other_bodies_are_refused(serve_all, refused, body):
    refused(serve_all.post("/v1/search", body), 422)


@pytest.fixture
def serve_all(serve, made):
    return serve(made)
