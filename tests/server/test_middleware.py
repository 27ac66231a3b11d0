"""Authentication, limits, timeouts, request ids and logs."""

import asyncio
import gc
import json
import logging
import re

import msgspec
import pytest

from attar.server.run import JsonFormatter, PlainFormatter
from attar.server.settings import LOOPBACK_HOSTS

from .conftest import Hold, wait_until

QUESTION = {"document": "0", "question": "Who left?"}
TOKEN = "s3cret-token"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def test_the_right_token_is_accepted(serve):
    assert serve(token=TOKEN).post("/v1/ask", QUESTION, headers=BEARER).status_code == 200


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


def test_a_refused_request_is_counted_for_the_route_that_it_asked_for(serve):
    served = serve(token=TOKEN)
    served.post("/v1/ask", QUESTION)
    served.call("HEAD", "/v1/documents/0")
    served.get("/v1/nothing")
    for route, count in (("ask", 1), ("unmatched", 2)):
        assert served.metric("attar_requests_total", BEARER, route=route, status="401") == count


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, "FormatError", {"content": b"{", "headers": BEARER | {"content-type": "application/json"}}),
        (401, "AccessDeniedError", {"json": QUESTION}),
        (413, "OptionError", {"content": b"x" * 2_000, "headers": BEARER}),
        (415, "FormatError", {"content": b"x", "headers": BEARER}),
        (422, "FormatError", {"json": {"document": 5}, "headers": BEARER}),
    ],
)
def test_a_problem_names_the_class_of_the_error(serve, refused, status, kind, words):
    response = serve(token=TOKEN, max_body=1_000).call("POST", "/v1/ask", **words)
    refused(response, status)
    assert response.json()["kind"] == kind


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/"])
def test_health_documentation_and_page_need_no_token(serve, path):
    assert serve(token=TOKEN).get(path).status_code == 200


def test_the_token_is_never_logged(serve, caplog):
    caplog.set_level(logging.DEBUG, "attar.server")
    served = serve(token=TOKEN)
    served.post("/v1/ask", QUESTION, headers=BEARER)
    served.post("/v1/ask", QUESTION, headers={"authorization": f"Bearer {TOKEN}x"})
    lines = [
        format_of(record)
        for format_of in (PlainFormatter().format, JsonFormatter().format)
        for record in caplog.records
    ]
    assert len(lines) == 4
    assert not any(TOKEN in line for line in lines)


def test_only_listed_hosts_are_accepted(serve):
    served = serve(hosts=LOOPBACK_HOSTS)
    assert served.get("/healthz", headers={"host": "localhost:8000"}).status_code == 200
    assert served.get("/healthz", headers={"host": "[::1]:8000"}).status_code == 200
    assert served.get("/healthz", headers={"host": "elsewhere.example"}).status_code == 400


@pytest.mark.slow
def test_a_body_whose_declared_length_is_too_large_is_refused_before_it_is_sent(listen):
    head = b"PUT /v1/documents/new HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    answer = listen(max_body=100).send_raw(head + b"content-length: 200\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"at most 100 bytes" in answer
    assert b"connection: close" in answer.lower()


def test_reading_stops_where_a_body_becomes_too_large(serve, refused, monkeypatch):
    monkeypatch.setattr("attar.server.middleware._LINGER", 0.0)  # else the rest is read for some seconds
    sent = []

    async def endless():
        while len(sent) < 1_000:
            sent.append(1)
            yield b" " * 1_000
            await asyncio.sleep(0)

    served = serve(max_body=10_000)
    response = served.call(
        "PUT", "/v1/documents/new", content=endless(), headers={"content-type": "application/json"}
    )
    refused(response, 413)
    # The eleventh part of 1,000 bytes is over the limit.
    assert 11 <= len(sent) <= 13


def test_an_invalid_content_length_is_refused(served, refused):
    refused(served.post("/v1/ask", QUESTION, headers={"content-length": "-1"}), 413)


@pytest.mark.slow
def test_a_request_over_the_time_limit_is_504(serve, refused, monkeypatch):
    served = serve(timeout=1.0)
    held = Hold(served.library, monkeypatch)
    refused(served.post("/v1/ask", QUESTION), 504)
    held.go.set()
    monkeypatch.undo()
    assert served.post("/v1/ask", QUESTION).status_code == 200


def test_a_full_queue_is_503_at_once(serve, refused, monkeypatch):
    served = serve(max_queue=2)
    held = Hold(served.library, monkeypatch)

    async def overload():
        first = asyncio.create_task(served.http.post("/v1/ask", json=QUESTION))
        await asyncio.to_thread(held.begun.wait, 30)
        waiting = [asyncio.create_task(served.http.post("/v1/ask", json=QUESTION)) for _ in range(2)]
        while "\nattar_queue_length 2" not in (await served.http.get("/metrics")).text:
            await asyncio.sleep(0.01)
        # Answered while the others still wait.
        over = await served.http.post("/v1/ask", json=QUESTION)
        held.go.set()
        return over, await asyncio.gather(first, *waiting)

    over, accepted = served.run(overload())
    assert "the server is overloaded" in refused(over, 503)
    assert int(over.headers["retry-after"]) >= 1
    assert [response.status_code for response in accepted] == [200, 200, 200]


def test_more_than_max_concurrent_requests_are_503(serve, monkeypatch):
    served = serve(max_concurrent=3)
    held = Hold(served.library, monkeypatch)

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


def test_refusals_of_an_overloaded_server_are_logged_together(serve, monkeypatch, caplog):
    monkeypatch.setattr("attar.server.middleware._LOG_SECONDS", 0.1)
    served = serve(max_concurrent=1)
    held = Hold(served.library, monkeypatch)

    async def crowd():
        inside = asyncio.create_task(served.http.post("/v1/ask", json=QUESTION))
        await asyncio.to_thread(held.begun.wait, 30)
        over = await asyncio.gather(*(served.http.post("/v1/ask", json=QUESTION) for _ in range(9)))
        held.go.set()
        return await inside, over

    inside, over = served.run(crowd())
    assert (inside.status_code, {response.status_code for response in over}) == (200, {503})
    wait_until(lambda: caplog.records)
    assert [record.fields["refused"] for record in caplog.records] == [9]


def test_an_internal_error_is_logged_and_not_shown_to_the_client(served, refused, monkeypatch, caplog):
    def broken(*arguments, **words):
        raise RuntimeError("what is inside")

    monkeypatch.setattr(served.library, "ask_each", broken)
    response = served.post("/v1/ask", QUESTION)
    assert "inside" not in refused(response, 500)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.fields["request"] == response.headers["x-request-id"]
    assert "what is inside" in JsonFormatter().format(record)


def test_every_request_gets_its_own_id(served):
    ids = {served.get("/healthz").headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2


def test_a_clients_request_id_is_kept(served):
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
    line = JsonFormatter().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["method"], told["path"], told["status"]) == ("GET", "/v1/documents/no%0Aname", 404)
    assert "\n" not in PlainFormatter().format(record)


def test_a_timed_out_question_no_longer_counts_as_in_flight(serve, refused, monkeypatch):
    served = serve(timeout=0.05, max_concurrent=1)
    held = Hold(served.library, monkeypatch)
    for _ in range(3):
        refused(served.post("/v1/ask", QUESTION), 504)
    held.go.set()
    assert served.metric("attar_requests_in_flight") == 0


def test_a_message_of_a_bug_is_escaped_in_the_log(served, monkeypatch, caplog):
    def broken(*arguments, **words):
        raise RuntimeError("\x1b[2J" + "x" * 100_000)

    monkeypatch.setattr(served.library, "ask_each", broken)
    served.post("/v1/ask", QUESTION)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    for formatter in (PlainFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert "\x1b" not in line
        assert "RuntimeError" in line
        assert len(line) < 50_000


def test_the_log_has_the_clients_address(served, caplog):
    caplog.set_level(logging.INFO, "attar.server")
    caplog.clear()
    served.get("/healthz")
    assert caplog.records[0].fields["client"] == "127.0.0.1"


@pytest.mark.parametrize("start", [b'{"x": ', b'{"questions": ', b""], ids=["new field", "field", "body"])
def test_json_nested_without_end_is_refused(served, refused, start):
    headers = {"content-type": "application/json"}
    refused(served.call("POST", "/v1/ask", content=start + b"[" * 500_000, headers=headers), 422)


@pytest.mark.slow
def test_a_refused_request_leaves_no_cycle_of_references(served, refused):
    refused(served.post("/v1/ask", {"unknown": 1}), 422)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            refused(served.post("/v1/ask", {"unknown": 1}), 422)
        left = [each for each in gc.get_objects() if type(each) is msgspec.ValidationError]
    finally:
        gc.enable()
    assert left == []
