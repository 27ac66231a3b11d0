"""`attar.Client` with a live server: the results and errors of `attar.Library`."""

import asyncio

import msgspec
import pytest

import attar
from attar import calls as module
from attar.errors import AttarError

pytestmark = pytest.mark.slow

TEXT = "Then Ann met Bob. Bob left for Rome."


@pytest.fixture
def client(listen):
    with attar.Client(listen().url) as client:
        yield client


def scenario(library):
    """Use every method; return all results, and the class and message of every error."""

    def failure(call, *arguments, **options):
        with pytest.raises(AttarError) as fault:
            call(*arguments, **options)
        return type(fault.value), str(fault.value)

    seen = []
    yield library.add("emma", TEXT, title="Emma")
    yield library.add("emma", TEXT)
    yield failure(library.add, "emma", "Then Eve came.")
    yield library.add("emma", "Then Eve came.", replace=True)
    yield failure(library.add, "blank", " ")
    yield library.add_many([("a/b", TEXT), ("Ω", "Then Zoe left.")], on_change=seen.append)
    yield seen
    yield failure(library.add_many, [("new", TEXT), ("emma", TEXT)])
    yield "new" in library, "emma" in library, "nobody" in library, len(library), bool(library)
    yield library.append("a/b", "Then Eve came.")
    yield failure(library.append, "nobody", "Then Eve came.")
    yield failure(library.append, "emma", "")
    yield library.ask("0", "Who left?")
    yield library.ask("0", "Who left?", top=1)
    yield library.ask("0", "Who left?", top=None)
    yield failure(library.ask, "0", "?")
    yield failure(library.ask, "emm", "Who left?")
    yield library.ask_many("0", ["Who left?", "Who came?"])
    yield library.ask_many(["0", "1"], ["Who left?", "Who came?"], top=2)
    yield library.ask_many(["0", "1"], "Who left?", top=None)
    yield library.ask_many([], [])
    yield failure(library.ask_many, ["0", "nobody"], "Who left?")
    yield library.merge("both", ["emma", "a/b"], title="Both")
    yield failure(library.merge, "both", ["emma", "Ω"])
    yield library.merge("both", iter(["emma", "Ω"]), replace=True)
    yield failure(library.merge, "more", ["emma"])
    yield failure(library.merge, "more", ["emma", "nobody"])
    yield [without_times(each) for each in library.documents()]
    yield [each.name for each in library.documents(after="a", limit=2)]
    yield [each.name for each in library.documents(limit=0)]
    yield without_times(library.show("both"))
    yield without_times(library.show("a/b"))
    yield failure(library.show, "nobody")
    yield failure(library.remove, "emma", "nobody")
    yield "emma" in library
    yield library.remove("emma", "a/b")
    yield [each.name for each in library.documents()]


def without_times(document):
    assert document.created <= document.changed
    assert document.created.tzinfo is not None
    fields = {name: getattr(document, name) for name in document.__struct_fields__}
    return type(document), {name: fields[name] for name in fields if name not in ("created", "changed")}


def test_a_client_does_what_a_library_does(listen, tiny_reader, stories, tmp_path):
    with attar.Library(tmp_path / "own", tiny_reader) as library:
        library.add_many([(str(at), stories[at].text) for at in range(2)])
        expected = list(scenario(library))
    with attar.Client(listen().url) as client:
        for number, (result, wanted) in enumerate(zip(scenario(client), expected, strict=True)):
            assert msgspec.to_builtins(result, enc_hook=str) == msgspec.to_builtins(wanted, enc_hook=str), (
                number
            )
            assert type(result) is type(wanted)


def test_the_async_client_does_what_the_client_does(listen):
    url = listen().url

    async def use():
        async with attar.AsyncClient(url) as client:
            yield await client.add("new", TEXT)
            yield await client.add_many([("more", TEXT)], on_change=lambda change: None)
            yield await client.append("new", "Then Eve came.")
            yield await client.ask("new", "Who left?", top=1)
            yield await client.ask_many("new", ["Who left?"] * 300, top=1)
            yield without_times(await client.show("new"))
            yield await client.merge("both", ["more", "new"])
            yield [each.name async for each in client.documents(after="0", limit=2)]
            with pytest.raises(attar.NameTakenError):
                await client.add("new", TEXT)
            with pytest.raises(attar.UnknownDocumentError, match="'nobody'"):
                await client.remove("new", "nobody")
            yield await client.remove("new", "more", "both")
            yield [each.name async for each in client.documents()]

    async def results():
        return [result async for result in use()]

    with attar.Client(url) as client:
        expected = [
            client.add("new", TEXT),
            client.add_many([("more", TEXT)]),
            client.append("new", "Then Eve came."),
            client.ask("new", "Who left?", top=1),
            client.ask_many("new", ["Who left?"] * 300, top=1),
            without_times(client.show("new")),
            client.merge("both", ["more", "new"]),
            ["1", "both"],
            None,
            ["0", "1"],
        ]
        client.remove("new", "more", "both")
    assert asyncio.run(results()) == expected


def test_documents_are_listed_in_pages(listen, monkeypatch):
    monkeypatch.setattr(module, "_PAGE", 2)
    with attar.Client(listen(documents=5).url) as client:
        assert [document.name for document in client.documents()] == ["0", "1", "2", "3", "4"]
        assert [document.name for document in client.documents(after="0", limit=3)] == ["1", "2", "3"]


def test_more_questions_than_one_request_takes(client):
    answers = client.ask_many("0", ["Who left?"] * 600, top=1)
    assert answers == [client.ask("0", "Who left?", top=1)] * 600


def test_a_missing_token_and_a_read_only_library_deny_access(listen):
    url = listen(token="abc", read_only=True).url
    with attar.Client(url, token="abc") as client:
        assert client.ask("0", "Who left?")
        with pytest.raises(attar.AccessDeniedError, match="read-only"):
            client.remove("0")
        with pytest.raises(attar.AccessDeniedError, match="read-only"):
            client.merge("both", ["0", "1"])
        assert len(client) == 2
    with attar.Client(url) as client, pytest.raises(attar.AccessDeniedError, match="token"):
        client.ask("0", "Who left?")


def test_a_stopped_server_is_unavailable(listen):
    listening = listen()
    listening.close()
    with (
        attar.Client(listening.url) as client,
        pytest.raises(attar.UnavailableError, match="is the server running"),
    ):
        client.ask("0", "Who left?")


def test_concurrent_questions_are_all_answered(listen):
    url = listen().url

    async def ask():
        async with attar.AsyncClient(url) as client:
            return await asyncio.gather(*(client.ask("0", "Who left?") for _ in range(60)))

    answers = asyncio.run(ask())
    assert len(answers) == 60
    assert len({str([answer.text for answer in each]) for each in answers}) == 1
