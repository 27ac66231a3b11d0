"""A client on its own: what it sends, when it tries again, what it raises."""

import asyncio

import httpx
import pytest

import attar
from attar.client import client as module
from attar.client.calls import in_parts, place_of
from attar.client.faults import NotFoundError, TokenError, UnavailableError, fault_of
from attar.errors import AttarError, DtypeError, OptionError, RecordError

FOUND = {"results": [{"answers": [{"text": "Ann", "probability": 0.5}]}]}


class Busy:
    """A server that refuses so often before it answers."""

    def __init__(self, times, headers=None):
        self.left, self.headers, self.requests = times, headers or {"retry-after": "0"}, []

    def __call__(self, request):
        self.requests.append(request)
        self.left -= 1
        if self.left >= 0:
            return httpx.Response(503, headers=self.headers, json={"detail": "full"})
        return httpx.Response(200, json=FOUND)


def test_a_busy_server_is_asked_again():
    busy = Busy(3)
    with attar.Client(transport=httpx.MockTransport(busy)) as client:
        assert client.ask("emma", "Who left?")[0].text == "Ann"
    assert len(busy.requests) == 4


def test_the_async_client_asks_again_too():
    async def talk():
        async with attar.AsyncClient(transport=httpx.MockTransport(Busy(3))) as client:
            return await client.ask("emma", "Who left?")

    assert asyncio.run(talk())[0].text == "Ann"


def test_a_server_that_stays_busy_is_given_up():
    busy = Busy(100)
    with (
        attar.Client(transport=httpx.MockTransport(busy), retries=2) as client,
        pytest.raises(UnavailableError, match="full"),
    ):
        client.ask("emma", "Who left?")
    assert len(busy.requests) == 3


@pytest.mark.parametrize(
    ("said", "waited"), [("3", 3.0), ("0", 0.0), ("9999", 10.0), ("-1", 0.0), ("soon", 1.0)]
)
def test_a_client_waits_as_long_as_it_is_told(monkeypatch, said, waited):
    naps = []
    monkeypatch.setattr(module.time, "sleep", naps.append)
    transport = httpx.MockTransport(Busy(1, {"retry-after": said}))
    with attar.Client(transport=transport) as client:
        client.ask("emma", "Who left?")
    assert naps == [waited]


def test_the_token_is_a_bearer():
    busy = Busy(0)
    with attar.Client(token="abc", transport=httpx.MockTransport(busy)) as client:
        client.ask("emma", "Who left?")
    assert busy.requests[0].headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"detail": "x", "kind": "UnknownDocumentError"}', NotFoundError),
        (401, b'{"detail": "x"}', TokenError),
        (422, b'{"detail": "x", "kind": "DtypeError"}', DtypeError),
        (500, b'{"detail": "x", "kind": "RecordError"}', RecordError),
        (422, b'{"detail": "x", "kind": "os"}', AttarError),
        (422, b'{"detail": "x", "kind": "__builtins__"}', AttarError),
        (500, b'{"detail": "x"}', AttarError),
        (502, b"<html>", UnavailableError),
        (502, b"[]", UnavailableError),
    ],
)
def test_a_refusal_is_raised_as_what_it_is(status, body, kind):
    fault = fault_of(status, body)
    assert type(fault) is kind
    assert "\n" not in str(fault)


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800"])
def test_names_that_no_path_can_hold(name):
    with pytest.raises(OptionError):
        place_of(name)


def test_questions_and_documents_must_be_as_many():
    with pytest.raises(OptionError, match="one for each of 2"):
        in_parts(["a", "b"], ["Who left?"])
