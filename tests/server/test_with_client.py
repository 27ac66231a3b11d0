"""attar.Client against a server does what the library does."""

import asyncio

import numpy as np
import pytest

import attar
from attar.client.faults import ConflictError, NotFoundError, TokenError, UnavailableError
from attar.errors import FormatError, ShapeError

TEXT = "Then Ann met Bob. Bob left for Rome."


@pytest.fixture
def client(listen):
    with attar.Client(listen().url) as client:
        yield client


def test_a_document_comes_grows_and_goes(client):
    assert client.put("a/b", TEXT, title="A story").change == "added"
    assert client.append("a/b", "Then Eve came.").change == "appended"
    assert client.show("a/b")["names"] == ["Ann", "Bob", "Rome", "Eve"]
    client.remove("a/b")
    assert [document.name for document in client.documents()] == ["0", "1"]


def test_documents_are_listed_page_by_page(listen):
    with attar.Client(listen(documents=5).url) as client:
        assert [document.name for document in client.documents(page=2)] == ["0", "1", "2", "3", "4"]
        assert [document.name for document in client.documents(after="3")] == ["4"]


def test_a_question_has_its_answers(client):
    answers = client.ask("0", "Who left?", top=2)
    assert len(answers) == 2
    assert answers[0].probability >= answers[1].probability


def test_more_questions_than_one_request_takes(client):
    found = client.ask_many("0", ["Who left?"] * 600, top=1)
    assert len(found) == 600
    assert len({answers[0].text for answers in found}) == 1


def test_questions_of_many_documents(client):
    found = client.ask_many(["0", "1"], ["Who left?", "Who left?"], top=1)
    assert found == [client.ask(name, "Who left?", top=1) for name in ("0", "1")]


def test_vectors_are_looked_up(listen):
    with attar.Client(listen("linear").url) as client:
        readouts = client.lookup(["0", "1"], np.eye(2, 6))
        assert readouts.shape == (2, 6)
        np.testing.assert_allclose(client.lookup("0", np.eye(2, 6))[0], readouts[0], rtol=1e-5)


def test_what_the_server_refuses_is_the_librarys_own_error(client):
    with pytest.raises(NotFoundError, match="no such name"):
        client.ask("nobody", "Who left?")
    with pytest.raises(FormatError):
        client.ask("0", "He left.")
    with pytest.raises(ShapeError, match="6"):
        client.lookup("0", np.ones((1, 5)))
    with pytest.raises(ConflictError, match="another text"):
        client.put("0", TEXT, replace=False)


def test_a_token_is_sent(listen):
    url = listen(token="abc").url
    with attar.Client(url, token="abc") as client:
        assert client.ask("0", "Who left?")
    with attar.Client(url) as client, pytest.raises(TokenError, match="authorization"):
        client.ask("0", "Who left?")


def test_a_server_that_is_not_there(listen):
    listening = listen()
    listening.close()
    with attar.Client(listening.url) as client, pytest.raises(UnavailableError, match="is it running"):
        client.ask("0", "Who left?")


def test_the_async_client_does_the_same(listen):
    url = listen("linear").url

    async def talk():
        async with attar.AsyncClient(url) as client:
            await client.put("new", TEXT)
            await client.append("new", "Then Eve came.")
            answers = await client.ask_many("new", ["Who left?"] * 300, top=1)
            one = await client.ask("new", "Who left?", top=1)
            told = await client.show("new")
            readouts = await client.lookup("new", np.eye(1, 6))
            await client.remove("new")
            names = [document.name async for document in client.documents(page=1)]
        return answers, one, told, readouts, names

    answers, one, told, readouts, names = asyncio.run(talk())
    assert (len(answers), answers[0][0].text) == (300, one[0].text)
    assert (told["name"], readouts.shape, names) == ("new", (1, 6), ["0", "1"])


def test_questions_asked_at_once_are_all_answered(listen):
    url = listen().url

    async def talk():
        async with attar.AsyncClient(url) as client:
            return await asyncio.gather(*(client.ask("0", "Who left?") for _ in range(60)))

    assert len({str([answer.text for answer in answers]) for answers in asyncio.run(talk())}) == 1
