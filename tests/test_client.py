"""The client on its own: what it sends, when it retries, which errors it raises, and that it mirrors Library."""

import inspect

import httpx
import msgspec
import pytest

import attar
import attar.search
from attar import sending, wire
from attar.errors import AttarError, DtypeError, OptionError, RecordError, ShapeError
from attar.results import Answer

RESULT = wire.QuestionAnswers("emma", "Who left?", [Answer("Ann", 0.5, "name")])

# Methods that a served library has as `Library` has them.
SHARED = {
    *("add", "add_many", "add_file", "add_folder", "watch", "append", "merge", "remove", "tag", "documents"),
    *("show", "ask", "ask_many", "ask_all", "ask_all_many", "list_answers", "search", "verify", "close"),
}


def test_an_address_without_its_scheme_is_refused_without_telling_its_password():
    with pytest.raises(OptionError, match=r"no http:// or https://.*such as http://") as refused:
        attar.Client("ann:secret@localhost:8000")
    assert "secret" not in str(refused.value)
    attar.Client("HTTP://localhost:8000").close()


class Server:
    """A server that is busy `busy` times, and then answers every question; it keeps the requests."""

    def __init__(self, busy=0, retry_after="0"):
        self.busy, self.retry_after, self.requests = busy, retry_after, []

    def __call__(self, request):
        self.requests.append(request)
        if len(self.requests) <= self.busy:
            problem = wire.Problem("Busy", 503, "full")
            return httpx.Response(
                503, headers={"retry-after": self.retry_after}, content=msgspec.json.encode(problem)
            )
        count = len(msgspec.json.decode(request.content, type=wire.Ask).questions)
        return httpx.Response(
            200, content=msgspec.json.encode(wire.ManyAnswers([RESULT] * count, 0, seconds=0.0))
        )


def connect(server, **options):
    return attar.Client(transport=httpx.MockTransport(server), **options)


def methods(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def parameters(cls, method):
    return dict(inspect.signature(getattr(cls, method)).parameters)


def shape(parameter):
    return parameter.name, parameter.kind, parameter.default


def test_a_client_has_the_methods_of_library():
    assert methods(attar.Client) == SHARED
    assert methods(attar.Library) >= SHARED


@pytest.mark.parametrize("method", sorted(SHARED))
def test_a_client_has_the_parameters_and_defaults_of_library(method):
    own, librarys = parameters(attar.Client, method), parameters(attar.Library, method)
    assert [shape(each) for each in own.values()] == [shape(each) for each in librarys.values()]


def test_a_busy_server_is_asked_again():
    server = Server(busy=3)
    assert connect(server).ask("emma", "Who left?") == [Answer("Ann", 0.5, "name")]
    assert len(server.requests) == 4


def test_a_server_that_stays_busy_is_given_up_after_the_retries():
    server = Server(busy=100)
    with connect(server, retries=2) as client, pytest.raises(attar.UnavailableError, match="full"):
        client.ask("emma", "Who left?")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3.0), ("0", 0.0), ("9999", 10.0), ("-1", 0.0), ("soon", 1.0)]
)
def test_the_client_waits_as_long_as_retry_after_says(monkeypatch, header, seconds):
    waits = []
    monkeypatch.setattr(sending.time, "sleep", waits.append)
    with connect(Server(busy=1, retry_after=header)) as client:
        client.ask("emma", "Who left?")
    assert waits == [seconds]


def test_many_questions_are_sent_in_parts():
    server = Server()
    names = [f"{number}" for number in range(600)]
    assert len(connect(server).ask_many(names, "Who left?", top=None)) == 600
    bodies = [msgspec.json.decode(request.content, type=wire.Ask) for request in server.requests]
    assert [len(body.questions) for body in bodies] == [256, 256, 88]
    assert [name for body in bodies for name in body.documents] == names
    assert {body.top for body in bodies} == {None}


def problem(status, kind=""):
    return msgspec.json.encode(wire.Problem("A title", status, "what: expected x", kind=kind))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, problem(404, "UnknownDocumentError"), attar.UnknownDocumentError),
        (404, b"", attar.UnknownDocumentError),
        (409, problem(409, "NameTakenError"), attar.NameTakenError),
        (401, problem(401), attar.AccessDeniedError),
        (403, problem(403), attar.AccessDeniedError),
        (422, problem(422, "DtypeError"), DtypeError),
        (500, problem(500, "RecordError"), RecordError),
        (503, problem(503, "BusyError"), attar.UnavailableError),
        (503, problem(503), attar.UnavailableError),
        (422, problem(422, "__builtins__"), AttarError),
        (500, problem(500), AttarError),
        (502, b"<html>", attar.UnavailableError),
        (502, b"[]", attar.UnavailableError),
    ],
)
def test_a_refusal_is_raised_as_the_error_that_the_server_names(status, body, kind):
    client = connect(lambda request: httpx.Response(status, content=body), retries=0)
    with pytest.raises(AttarError) as fault:
        client.show("emma")
    assert type(fault.value) is kind
    assert str(fault.value) in ("what: expected x", f"the server answered with status {status}")


@pytest.mark.parametrize("name", ["", "..", "\ud800"])
def test_names_that_no_path_can_hold_are_refused(name):
    with connect(Server()) as client, pytest.raises(OptionError, match="no path can hold"):
        client.show(name)


def test_the_numbers_of_documents_and_questions_must_agree():
    server = Server()
    with connect(server) as client, pytest.raises(ShapeError, match="one for each of 2"):
        client.ask_many(["a", "b"], ["Who left?"] * 3)
    assert server.requests == []


def test_a_server_that_does_not_answer_is_unavailable():
    def refuse(request):
        raise httpx.ConnectError("connection refused")

    with (
        connect(refuse) as client,
        pytest.raises(attar.UnavailableError, match="refused; is the server running"),
    ):
        client.show("emma")


class Losing(Server):
    """A server whose first answers are lost: the connection breaks in the given way."""

    def __init__(self, *faults):
        super().__init__()
        self.faults = list(faults)

    def __call__(self, request):
        self.requests.append(request)
        if self.faults:
            raise self.faults.pop(0)
        if request.url.path == wire.ASK:
            return httpx.Response(
                200, content=msgspec.json.encode(wire.ManyAnswers([RESULT], 0, seconds=0.0))
            )
        return httpx.Response(200, content=b'{"name": "emma", "change": "appended", "tokens": 1, "bytes": 1}')


@pytest.fixture
def hasty(monkeypatch):
    """Waits before repeated calls are noted, not made."""
    waits = []
    monkeypatch.setattr(sending.time, "sleep", waits.append)
    return waits


LOST = [
    httpx.ReadTimeout("late"),
    httpx.ReadError("gone"),
    httpx.ConnectError("refused"),
    httpx.RemoteProtocolError("cut"),
]


@pytest.mark.parametrize("fault", LOST, ids=lambda fault: type(fault).__name__)
def test_a_call_whose_answer_was_lost_is_repeated(hasty, fault):
    server = Losing(fault, fault)
    with connect(server) as client:
        assert client.ask("emma", "Who left?") == [Answer("Ann", 0.5, "name")]
    assert len(server.requests) == 3
    assert hasty == [0.1, 0.2]


def test_a_lost_answer_is_given_up_after_the_retries(hasty):
    with connect(Losing(*LOST), retries=2) as client, pytest.raises(attar.UnavailableError, match="running"):
        client.append("emma", "Ann left.")
    assert len(hasty) == 2


@pytest.mark.parametrize(("method", "tries"), [("append", 3), ("add", 3), ("ask", 1)])
def test_only_changes_are_repeated_after_the_servers_time_has_run_out(hasty, method, tries):
    requests = []

    def late(request):
        requests.append(request)
        return httpx.Response(504, content=b"{}")

    with connect(late, retries=2) as client, pytest.raises(attar.UnavailableError):
        getattr(client, method)("emma", "Who left?")
    assert len(requests) == tries
