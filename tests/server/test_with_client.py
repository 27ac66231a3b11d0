"""`attar.Client` with a live server: the results and errors of `attar.Library`, and changes that are made once."""

import threading

import httpx
import msgspec
import pytest

import attar
from attar import client as client_module
from attar.errors import AttarError, UnavailableError

pytestmark = pytest.mark.slow

TEXT = "Then Ann met Bob. Bob left for Rome."


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
    yield library.tag("both", "emma", add=["read", "long"])
    yield library.tag("both", add=["new"], remove=["read"])
    yield failure(library.tag, "emma", "nobody", add=["lost"])
    yield failure(library.tag, "emma", add=[""])
    yield [library.show(name).tags for name in ("both", "emma")]
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
            told, right = (msgspec.to_builtins(each, enc_hook=str) for each in (result, wanted))
            assert (told, type(result)) == (right, type(wanted)), number


def test_documents_are_listed_in_pages(listen, monkeypatch):
    monkeypatch.setattr(client_module, "_PAGE", 2)
    with attar.Client(listen(documents=5).url) as client:
        assert [document.name for document in client.documents(after="0", limit=3)] == ["1", "2", "3"]


def test_a_missing_token_and_a_read_only_library_deny_access(listen):
    url = listen(token="abc", read_only=True).url
    with attar.Client(url, token="abc") as client:
        assert client.ask("0", "Who left?")
        for change in (lambda: client.remove("0"), lambda: client.merge("both", ["0", "1"])):
            with pytest.raises(attar.AccessDeniedError, match="read-only"):
                change()
    with attar.Client(url) as client, pytest.raises(attar.AccessDeniedError, match="token"):
        client.ask("0", "Who left?")


class Losing(httpx.HTTPTransport):
    """Drops the answers to the first requests, after the server has given them."""

    def __init__(self, lost):
        super().__init__()
        self.lost, self.requests = lost, 0

    def handle_request(self, request):
        response = super().handle_request(request)
        self.requests += 1
        if self.requests <= self.lost:
            response.close()
            raise httpx.ReadError("lost")
        return response


@pytest.fixture
def losing(listen):
    """Makes clients of one server that lose answers."""
    url = listen().url
    return lambda lost=1: attar.Client(url, transport=Losing(lost))


def test_an_append_whose_answer_was_lost_is_made_once(losing, stories):
    with losing(2) as client:
        assert client.append("0", TEXT).change == "appended"
        assert client.show("0").text == f"{stories[0].text}\n\n{TEXT}"
        client.append("0", TEXT)
        assert client.show("0").text == f"{stories[0].text}\n\n{TEXT}\n\n{TEXT}"


def test_other_changes_whose_answers_were_lost_succeed_or_are_not_repeated(losing):
    with losing() as client:
        assert client.add("new", TEXT).change == "unchanged"
    with losing() as client:
        assert client.merge("both", ["0", "1"]).change == "merged"
    with losing() as client:
        with pytest.raises(UnavailableError):
            client.remove("0")
        assert "0" not in client


def test_an_append_that_took_too_long_for_its_request_is_made_once(make, listen, monkeypatch, stories):
    made, statuses, may_end = make(timeout=1.0), [], threading.Event()
    extend = made.library.reader.extend

    def slow(*arguments, **options):
        assert may_end.wait(30)
        return extend(*arguments, **options)

    def go_on(response):
        statuses.append(response.status_code)
        may_end.set()

    monkeypatch.setattr(made.library.reader, "extend", slow)
    with attar.Client(listen(made).url) as client:
        client._sender.http.event_hooks = {"response": [go_on]}
        assert client.append("0", TEXT).change == "appended"
        assert (statuses[0], statuses[-1], set(statuses)) == (504, 200, {504, 200})
        assert client.show("0").text == f"{stories[0].text}\n\n{TEXT}"


def folder_scenario(library, folder):
    """Add a file and a folder, bring the library in line, follow it; return what was done, without lines of errors."""

    def done(added):
        return [(change.name, change.change) for change in added.changes], added.removed, len(added.refused)

    yield [(change.name, change.change) for change in library.add_file(folder / "a.txt", tags=["paid"])]
    (folder / "a.txt").write_text("Ann stayed.")
    yield [(change.name, change.change) for change in library.add_file(folder / "a.txt")]
    yield [each.name for each in library.documents(within=attar.Subset(tags=("paid",)))]
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7 cut")
    yield done(library.add_folder(folder))
    (folder / "sub" / "b.txt").unlink()
    yield done(library.add_folder(folder, sync=True))
    yield [each.name for each in library.documents()]
    rounds = iter(library.watch(folder, stop=(stop := threading.Event())))
    yield done(next(rounds))
    (folder / "a.txt").rename(folder / "c.txt")
    yield done(next(rounds))
    stop.set()
    yield list(rounds)
    yield [each.name for each in library.documents()]


def test_a_client_adds_and_follows_folders_as_a_library_does(listen, tiny_reader, stories, tmp_path):
    folders = tmp_path / "one" / "letters", tmp_path / "two" / "letters"
    for folder in folders:
        (folder / "sub").mkdir(parents=True)
        (folder / "a.txt").write_text("Ann left.")
        (folder / "sub" / "b.txt").write_text("Bob came.")
    with attar.Library(tmp_path / "own", tiny_reader) as library:
        library.add_many([(str(at), stories[at].text) for at in range(2)])
        expected = list(folder_scenario(library, folders[0]))
    with attar.Client(listen().url) as client:
        assert list(folder_scenario(client, folders[1])) == expected


def test_two_computers_with_the_same_path_do_not_remove_each_others_documents(listen, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Ann left.")
    (tmp_path / "b.txt").write_text("Bob came.")
    with attar.Client(listen().url) as client:
        monkeypatch.setattr("socket.gethostname", lambda: "one")
        client.add_folder(tmp_path)
        assert client.show("b").source == f"one:{tmp_path / 'b.txt'}"
        (tmp_path / "b.txt").unlink()
        monkeypatch.setattr("socket.gethostname", lambda: "two")
        assert client.add_folder(tmp_path, sync=True).removed == []
        monkeypatch.setattr("socket.gethostname", lambda: "one")
        assert client.add_folder(tmp_path, sync=True).removed == ["b"]
