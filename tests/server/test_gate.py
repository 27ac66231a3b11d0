"""Who comes in, with how much, for how long; and what is told of it."""

import asyncio
import json
import logging
import re
import threading

import pytest

from attar.server.logs import JsonLines, PlainLines

QUESTION = {"document": "0", "question": "Who left?"}
TOKEN = "s3cret-token"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def test_a_token_lets_in(serve):
    assert serve(token=TOKEN).post("/v1/ask", QUESTION, headers=BEARER).status_code == 200


@pytest.mark.parametrize(
    "sent", [None, "Bearer wrong", TOKEN, f"bearer{TOKEN}", f"Basic {TOKEN}", "Bearer ", "Bearer \xff"]
)
def test_without_the_token_nobody_comes_in(serve, refused, sent):
    headers = {} if sent is None else {"authorization": sent.encode("latin-1")}
    response = serve(token=TOKEN).post("/v1/ask", QUESTION, headers=headers)
    refused(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/documents/0", "/metrics", "/v1/nothing", "/v1"])
def test_all_that_tells_of_documents_needs_the_token(serve, refused, path):
    refused(serve(token=TOKEN).get(path), 401)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/"])
def test_what_tells_of_no_document_needs_none(serve, path):
    assert serve(token=TOKEN).get(path).status_code == 200


def test_the_token_is_in_no_log(serve, caplog):
    caplog.set_level(logging.DEBUG, "attar.server")
    served = serve(token=TOKEN)
    served.post("/v1/ask", QUESTION, headers=BEARER)
    served.post("/v1/ask", QUESTION, headers={"authorization": f"Bearer {TOKEN}x"})
    lines = [
        format_of(record)
        for format_of in (PlainLines().format, JsonLines().format)
        for record in caplog.records
    ]
    assert len(lines) == 4
    assert not any(TOKEN in line for line in lines)


def test_another_host_is_refused_where_hosts_are_named(serve, refused):
    served = serve(hosts=frozenset({"localhost"}))
    assert served.get("/healthz", headers={"host": "localhost:8000"}).status_code == 200
    refused(served.get("/healthz", headers={"host": "elsewhere.example"}), 421)


def test_a_body_that_says_it_is_too_large_is_not_read(serve, refused):
    response = serve(max_body=100).put("/v1/documents/new", {"text": "Ann left. " * 20})
    assert "at most 100 bytes" in refused(response, 413)
    assert response.headers["connection"] == "close"


def test_a_body_that_becomes_too_large_is_not_read_on(serve, refused):
    sent = []

    async def endless():
        while len(sent) < 1_000:
            sent.append(1)
            yield b" " * 1_000

    served = serve(max_body=10_000)
    response = served.call(
        "PUT", "/v1/documents/new", content=endless(), headers={"content-type": "application/json"}
    )
    refused(response, 413)


def test_a_length_that_is_no_number_is_refused(served, refused):
    refused(served.post("/v1/ask", QUESTION, headers={"content-length": "-1"}), 413)


class Held:
    """A library whose answers wait until they are let go."""

    def __init__(self, served, monkeypatch):
        self.begun, self.go = threading.Event(), threading.Event()
        library = served.library
        ask_many = library.ask_many

        def wait_and_ask(*arguments, **words):
            self.begun.set()
            assert self.go.wait(30)
            return ask_many(*arguments, **words)

        monkeypatch.setattr(library, "ask_many", wait_and_ask)


def test_what_takes_too_long_is_given_up(serve, refused, monkeypatch):
    served = serve(timeout=0.05)
    held = Held(served, monkeypatch)
    refused(served.post("/v1/ask", QUESTION), 504)
    held.go.set()
    monkeypatch.undo()
    assert served.post("/v1/ask", QUESTION).status_code == 200


def test_a_full_queue_refuses_at_once(serve, refused, monkeypatch):
    served = serve(max_queue=2)
    held = Held(served, monkeypatch)

    async def overload():
        first = asyncio.create_task(served.http.post("/v1/ask", json=QUESTION))
        await asyncio.to_thread(held.begun.wait, 30)
        waiting = [asyncio.create_task(served.http.post("/v1/ask", json=QUESTION)) for _ in range(2)]
        await asyncio.sleep(0.05)
        # Answered while the others still wait.
        over = await served.http.post("/v1/ask", json=QUESTION)
        held.go.set()
        return over, await asyncio.gather(first, *waiting)

    over, accepted = served.run(overload())
    assert "that wait already" in refused(over, 503)
    assert int(over.headers["retry-after"]) >= 1
    assert [response.status_code for response in accepted] == [200, 200, 200]


def test_more_requests_than_may_be_at_a_time_are_refused(serve, monkeypatch):
    served = serve(max_concurrent=3)
    held = Held(served, monkeypatch)

    async def crowd():
        inside = [asyncio.create_task(served.http.post("/v1/ask", json=QUESTION)) for _ in range(3)]
        await asyncio.to_thread(held.begun.wait, 30)
        over = await served.http.post("/v1/ask", json=QUESTION)
        alive = await served.http.get("/metrics")
        held.go.set()
        return over, alive, await asyncio.gather(*inside)

    over, alive, inside = served.run(crowd())
    assert (over.status_code, alive.status_code) == (503, 200)
    assert [response.status_code for response in inside] == [200, 200, 200]


def test_a_fault_of_the_servers_own_tells_nothing_of_itself(served, refused, monkeypatch, caplog):
    def broken(*arguments, **words):
        raise RuntimeError("what is inside")

    monkeypatch.setattr(served.library, "ask_many", broken)
    response = served.post("/v1/ask", QUESTION)
    assert "inside" not in refused(response, 500)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.fields["request"] == response.headers["x-request-id"]
    assert "what is inside" in JsonLines().format(record)


def test_a_request_has_an_id(served):
    ids = {served.get("/healthz").headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2


def test_a_clients_own_id_is_kept(served):
    response = served.get("/healthz", headers={"x-request-id": "my-id.7"})
    assert response.headers["x-request-id"] == "my-id.7"


@pytest.mark.parametrize("sent", [b"two words", b"x" * 65, b"\xc3\xa4", b""])
def test_an_id_that_no_log_should_hold_is_replaced(served, sent):
    response = served.get("/healthz", headers={"x-request-id": sent})
    assert re.fullmatch("[0-9a-f]{16}", response.headers["x-request-id"])


def test_a_request_is_one_line_of_json(serve, caplog):
    served = serve()
    caplog.set_level(logging.INFO, "attar.server")
    caplog.clear()
    served.get("/v1/documents/no%0Aname")
    (record,) = caplog.records
    line = JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["method"], told["path"], told["status"]) == ("GET", "/v1/documents/no%0Aname", 404)
    assert "\n" not in PlainLines().format(record)


def test_a_plain_line_has_its_local_time():
    record = logging.makeLogRecord({"created": 1_700_000_000.25, "msecs": 250.0, "msg": "request"})
    wanted = logging.Formatter("%(asctime)s").format(record)
    assert PlainLines().format(record).startswith(wanted + " ")
