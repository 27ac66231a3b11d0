"""Authentication, hosts, limits, deadlines, request ids, problems and logs."""

import asyncio
import json
import logging
import re

import pytest
from starlette.requests import ClientDisconnect

from attar.server.app import ROUTES
from attar.server.middleware import HEADERS, REQUEST_ID, Problems
from attar.server.run import LogFormatter
from attar.server.settings import LOOPBACK_HOSTS

from .conftest import Hold, wait_until

QUESTION = {"document": "0", "question": "Who left?"}
TOKEN = "s3cret-token"
BEARER = {"authorization": f"Bearer {TOKEN}"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("sent", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN}"])
def test_the_right_token_is_accepted(serve, sent):
    response = serve(token=TOKEN).post("/v1/ask", QUESTION, headers={"authorization": sent})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "sent", [None, "Bearer wrong", TOKEN, f"bearer{TOKEN}", f"Basic {TOKEN}", "Bearer ", "Bearer \xff"]
)
def test_a_missing_or_wrong_token_is_401(serve, refused, sent):
    headers = {} if sent is None else {"authorization": sent.encode("latin-1")}
    response = serve(token=TOKEN).post("/v1/ask", QUESTION, headers=headers)
    refused(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/documents/0", "/metrics", "/v1/nothing", "/v1"])
def test_the_api_and_the_metrics_need_the_token(serve, refused, path):
    refused(serve(token=TOKEN).get(path), 401)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/"])
def test_health_documentation_and_page_need_no_token(serve, path):
    assert serve(token=TOKEN).get(path).status_code == 200


READER = {"authorization": "Bearer reader-2"}
ORIGIN = {"origin": "https://other.example"}
PREFLIGHT = ORIGIN | {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


class TestATokenThatMayOnlyAsk:
    @pytest.fixture
    def served(self, serve):
        return serve(token=TOKEN, read_tokens=frozenset({"reader-1", "reader-2"}))

    def test_asks_and_reads(self, served):
        assert served.post("/v1/ask", QUESTION, headers=READER).status_code == 200
        assert served.post("/v1/search", {"query": "letter"}, headers=READER).status_code == 200
        for path in ("/v1/documents", "/v1/documents/0", "/v1/jobs", "/metrics"):
            assert served.get(path, headers=READER).status_code == 200
        told = [served.get("/v1/status", headers=headers).json() for headers in (READER, BEARER)]
        assert [status["read_only"] for status in told] == [True, False]

    def test_changes_nothing(self, served, refused):
        changes = [route for route in ROUTES if route.changes]
        assert len(changes) == 8
        for route in changes:
            path = route.path.replace("{name:any}", "0").replace("{id}", "0" * 32)
            response = served.call(route.method, path, {"text": "Ann left."}, headers=READER)
            assert "this token may ask" in refused(response, 403)
        assert len(served.library) == 2


def test_the_token_is_never_logged(serve, caplog):
    caplog.set_level(logging.DEBUG, "attar.server")
    served = serve(token=TOKEN)
    for token in (TOKEN, f"{TOKEN}x"):
        served.post("/v1/ask", QUESTION, headers={"authorization": f"Bearer {token}"})
    formats = LogFormatter(as_json=False).format, LogFormatter(as_json=True).format
    lines = [line_of(record) for line_of in formats for record in caplog.records]
    assert len(lines) == 4
    assert not any(TOKEN in line for line in lines)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, "FormatError", {"content": b"{", "headers": BEARER | JSON}),
        (401, "AccessDeniedError", {"json": QUESTION}),
        (413, "OptionError", {"content": b"x" * 2_000, "headers": BEARER}),
        (413, "OptionError", {"json": QUESTION, "headers": BEARER | {"content-length": "-1"}}),
        (415, "FormatError", {"content": b"x", "headers": BEARER}),
        (422, "FormatError", {"json": {"document": 5}, "headers": BEARER}),
    ],
)
def test_a_problem_names_the_class_of_the_error_and_is_logged_once(
    serve, refused, caplog, status, kind, words
):
    response = serve(token=TOKEN, max_body=1_000).call("POST", "/v1/ask", **words)
    refused(response, status)
    assert response.json()["kind"] == kind
    (record,) = [record for record in caplog.records if record.name == "attar.server"]
    assert (record.levelno, record.fields["status"]) == (logging.WARNING, status)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8000", 200), ("[::1]:8000", 200), ("127.0.0.1", 200), ("elsewhere.example", 400), ("", 400)],
)
def test_only_listed_hosts_are_accepted(serve, refused, host, status):
    response = serve(hosts=LOOPBACK_HOSTS).get("/healthz", headers={"host": host})
    assert response.status_code == status
    if status == 400:
        assert "host: expected 127.0.0.1" in refused(response, 400)


class TestAPageOfAnotherSite:
    def test_may_use_the_api_if_its_origin_is_allowed(self, serve):
        served = serve(cors="https://first.example, https://other.example", token=TOKEN)
        allowed = served.call("OPTIONS", "/v1/ask", headers=PREFLIGHT)
        assert allowed.status_code == 200
        assert "POST" in allowed.headers["access-control-allow-methods"]
        for headers, status in ((BEARER, 200), ({}, 401)):
            answer = served.post("/v1/ask", QUESTION, headers=headers | ORIGIN)
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == "https://other.example"

    @pytest.mark.parametrize("cors", ["", "https://first.example"])
    def test_may_not_otherwise(self, serve, cors):
        served = serve(cors=cors)
        assert served.call("OPTIONS", "/v1/ask", headers=PREFLIGHT).status_code >= 400
        answer = served.post("/v1/ask", QUESTION, headers=ORIGIN)
        assert "access-control-allow-origin" not in answer.headers


def test_requests_over_the_time_limit_are_504_and_no_longer_in_flight(serve, refused, monkeypatch):
    served = serve(timeout=0.05, max_concurrent=1)
    held = Hold(served.library, monkeypatch)
    for _ in range(3):
        refused(served.post("/v1/ask", QUESTION), 504)
    held.go.set()
    assert served.metric("attar_requests_in_flight") == 0


def test_a_full_queue_is_503_at_once(serve, refused, monkeypatch):
    alone = QUESTION | {"look": 0}  # as much work as the queue counts by
    served = serve(max_queue=2)
    held = Hold(served.library, monkeypatch)

    async def overload():
        first = asyncio.create_task(served.http.post("/v1/ask", json=alone))
        await asyncio.to_thread(held.begun.wait, 30)
        waiting = [asyncio.create_task(served.http.post("/v1/ask", json=alone)) for _ in range(2)]
        while "\nattar_queue_length 2.0" not in (await served.http.get("/metrics")).text:
            await asyncio.sleep(0.01)
        over = await served.http.post("/v1/ask", json=alone)  # answered while the others still wait
        held.go.set()
        return over, await asyncio.gather(first, *waiting)

    over, accepted = served.run(overload())
    assert "the server is overloaded" in refused(over, 503)
    assert int(over.headers["retry-after"]) >= 1
    assert [response.status_code for response in accepted] == [200, 200, 200]


def test_too_many_requests_are_503_and_logged_together_while_operators_are_answered(
    serve, monkeypatch, caplog
):
    monkeypatch.setattr("attar.server.metrics._LOG_SECONDS", 0.1)
    served = serve(max_concurrent=1)
    held = Hold(served.library, monkeypatch)

    async def crowd():
        inside = asyncio.create_task(served.http.post("/v1/ask", json=QUESTION))
        await asyncio.to_thread(held.begun.wait, 30)
        over = await asyncio.gather(*(served.http.post("/v1/ask", json=QUESTION) for _ in range(9)))
        operators = [await served.http.get(path) for path in ("/healthz", "/readyz", "/metrics")]
        held.go.set()
        return [response.status_code for response in (await inside, *over, *operators)]

    assert served.run(crowd()) == [200] + [503] * 9 + [200] * 3
    wait_until(lambda: caplog.records)
    assert [record.fields["refused"] for record in caplog.records] == [9]


def test_a_bug_is_logged_with_its_trace_and_not_shown_to_the_client(served, refused, monkeypatch, caplog):
    def broken(*arguments, **words):
        raise RuntimeError("\x1b[2J what is inside" + "x" * 100_000)

    monkeypatch.setattr(served.library, "ask_each", broken)
    response = served.post("/v1/ask", QUESTION)
    assert "inside" not in refused(response, 500)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.fields["request"] == response.headers["x-request-id"]
    for formatter in map(LogFormatter, (False, True)):
        line = formatter.format(record)
        assert "RuntimeError" in line
        assert "what is inside" in line
        assert "\x1b" not in line
        assert len(line) < 50_000


def test_every_request_gets_its_own_id_unless_it_has_one(served):
    assert len({served.get("/healthz").headers["x-request-id"] for _ in range(2)}) == 2
    response = served.get("/healthz", headers={"x-request-id": "my-id.7"})
    assert response.headers["x-request-id"] == "my-id.7"


@pytest.mark.parametrize("sent", [b"two words", b"x" * 65, b"\xc3\xa4", b""])
def test_an_unsafe_request_id_is_replaced(served, sent):
    response = served.get("/healthz", headers={"x-request-id": sent})
    assert re.fullmatch("[0-9a-f]{16}", response.headers["x-request-id"])


def test_a_request_is_logged_as_one_line(serve, caplog):
    served = serve()
    caplog.set_level(logging.INFO, "attar.server")
    caplog.clear()
    served.get("/v1/documents/no%0Aname")
    (record,) = caplog.records
    line = LogFormatter(as_json=True).format(record)
    assert "\n" not in line + LogFormatter(as_json=False).format(record)
    told = json.loads(line)
    assert (told["method"], told["path"], told["status"]) == ("GET", "/v1/documents/no%0Aname", 404)
    assert told["client"] == "127.0.0.1"


def test_a_client_that_leaves_in_the_middle_of_an_answer_is_no_error_of_the_server():
    """What floods with answers that nobody reads made: a traceback in the log for each."""

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ClientDisconnect

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    asyncio.run(Problems(answer)({HEADERS: {}, REQUEST_ID: "1"}, receive, send))
