"""Searching and asking all documents over HTTP, with the reader that ships, on a real port."""

from datetime import date

import pytest

from attar import Client, Subset
from attar.errors import OptionError
from attar.library.library import Library
from attar.server.app import make_app
from attar.server.settings import Settings

from .conftest import Made

pytestmark = pytest.mark.slow

TEXTS = {
    "rome": "Rome is the capital of Italy. The Tiber flows through the city.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
}
QUESTION = "Where was tea first drunk?"


@pytest.fixture
def made(tmp_path, shipped):
    library, settings = Library(tmp_path / "library", shipped), Settings(store=tmp_path / "library")
    library.add_many(TEXTS.items())
    return Made(make_app(settings, library), library, settings)


def test_clients_find_what_the_library_finds(listen, made):
    url, library = listen(made).url, made.library

    with Client(url) as client:
        here, there = library.ask_all(QUESTION), client.ask_all(QUESTION)
        found = client.search("the Italian capital", top=1)
        long = client.search("the Italian capital", top=1, passages=True)
        places = client.list_answers(QUESTION)
    assert here[0].text == "China"
    assert [(answer.text, answer.document, answer.quote) for answer in here] == [
        (answer.text, answer.document, answer.quote) for answer in there
    ]
    assert found == library.search("the Italian capital", top=1)
    assert long == library.search("the Italian capital", top=1, passages=True)
    assert long[0].passages
    assert [(group.text, group.count) for group in places] == [
        (group.text, group.count) for group in library.list_answers(QUESTION)
    ]


def test_clients_verify_and_choose_documents_as_the_library_does(listen, made):
    url, library = listen(made).url, made.library
    library.add("rome", TEXTS["rome"], tags=["city"], metadata={"by": "Ann"})
    some, quote = Subset(tags=("city",), since=date(2020, 1, 1)), "The Tiber runs through the city"

    with Client(url) as client:
        assert client.add("tea", TEXTS["tea"], tags=["drink"]).change == "replaced"
        assert client.verify(quote) == library.verify(quote)
        assert client.verify(quote).verdict == "nearly"
        assert client.search("tea", within=some) == library.search("tea", within=some)
        assert client.ask_all(QUESTION, within=some) == library.ask_all(QUESTION, within=some)
        assert [*client.documents(within=some)] == [*library.documents(within=some)]
        assert [document.metadata for document in client.documents(within=some)] == [{"by": "Ann"}]
        with pytest.raises(OptionError, match="tag: expected 1 to 100 characters, got 10,000"):
            client.add("tea", TEXTS["tea"], tags=["x" * 10_000])
        with pytest.raises(OptionError, match="no document has the tag 'x'"):
            client.ask_all(QUESTION, within=Subset(tags=("x",)))
