"""Searching and asking all documents over HTTP, with the reader that ships, on a real port."""

import asyncio
import threading

import pytest

from attar import AsyncClient, Client
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.server.app import make_app
from attar.server.settings import Settings

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
def listening(tmp_path, shipped, listening_at):
    library = Library(tmp_path / "library", shipped)
    library.add_many(TEXTS.items())
    found = listening_at(make_app(Settings(store=tmp_path / "library", log_level="error"), library))
    yield found
    found.close()


def test_clients_find_what_the_library_finds(listening, tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library, Client(listening.url) as client:
        assert client.search("the Italian capital", top=1) == library.search("the Italian capital", top=1)
        here, there = library.ask_all(QUESTION), client.ask_all(QUESTION)
        assert [(each.text, each.document, each.quote) for each in here] == [
            (each.text, each.document, each.quote) for each in there
        ]


def test_a_server_loads_signatures_before_the_first_search(tmp_path, shipped, listening_at, monkeypatch):
    loaded = threading.Event()
    load = Library.load_signatures
    monkeypatch.setattr(Library, "load_signatures", lambda library: (load(library), loaded.set()))
    library = Library(tmp_path / "library", shipped)
    library.add_many(TEXTS.items())
    found = listening_at(make_app(Settings(store=tmp_path / "library", log_level="error"), library))
    try:
        assert loaded.wait(60)
        assert len(library._searching.index) == len(TEXTS)
    finally:
        found.close()


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
def serve_all(tmp_path, shipped, serving):
    library = Library(tmp_path / "library", shipped)
    library.add_many(TEXTS.items())
    return serving(make_app(Settings(store=tmp_path / "library", log_level="error"), library), library)


def test_a_library_of_names_is_refused(served, refused):
    assert "phrase reader" in refused(served.post("/v1/search", {"query": "Ann"}), 422)
