"""Questions of concurrent requests are asked together; errors and long work of one request do not affect others."""

import asyncio
import logging
import resource

import pytest

from .conftest import Hold

QUESTION = {"document": "0", "question": "Who left?"}
QUICK = [
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", None),
    ("GET", "/v1/documents", None),
    ("GET", "/v1/documents/0", None),
    ("POST", "/v1/ask", QUESTION),
]


def ask(served, *bodies):
    return served.call_concurrently([("POST", "/v1/ask", QUESTION | body) for body in bodies])


def statuses(responses):
    return [response.status_code for response in responses]


def test_concurrent_questions_are_counted_as_fewer_batches(served):
    assert set(statuses(ask(served, *[{}] * 40))) == {200}
    assert served.metric("attar_batch_size_sum") == 40
    assert served.metric("attar_batch_size_count") < 40


def test_each_request_of_a_batch_gets_its_own_number_of_answers(served):
    responses = ask(served, {"top": 1}, {"top": 3}, {"top": 2})
    assert [len(response.json()["answers"]) for response in responses] == [1, 3, 2]


def test_only_the_bad_questions_of_a_batch_are_refused(served):
    bodies = [{}, {"document": "nobody"}, {"question": "?"}, {"document": "1"}]
    responses = ask(served, *bodies)
    assert statuses(responses) == [200, 404, 422, 200]
    assert "'nobody'" in responses[1].json()["detail"]


def test_other_questions_of_the_batch_are_answered_if_one_breaks_the_reader(serve, monkeypatch):
    served = serve()
    ask_each = served.library.ask_each

    def break_at(names, questions, **rest):
        if "Who broke it?" in questions:
            raise IndexError("unforeseen")
        return ask_each(names, questions, **rest)

    monkeypatch.setattr(served.library, "ask_each", break_at)
    assert statuses(ask(served, {}, {"question": "Who broke it?"}, {}, {})) == [200, 500, 200, 200]


@pytest.fixture
def damaged(serve):
    """An application with a flipped byte in the stored memory of document "1"."""
    served = serve()
    with served.library.store._environment.map.begin(write=True) as writing:
        value = bytearray(writing.get(b"m1"))
        value[-9] ^= 0xFF
        writing.put(b"m1", bytes(value))
    return served


def test_a_damaged_record_is_a_logged_server_error(damaged, refused, caplog):
    assert statuses(ask(damaged, {}, {"document": "1"}, {}, {"document": "1"})) == [200, 500, 200, 500]
    caplog.clear()
    response = damaged.post("/v1/ask", QUESTION | {"document": "1"})
    assert "cannot be read" in refused(response, 500)
    (record,) = [record for record in caplog.records if record.name == "attar.server"]
    assert record.levelno == logging.ERROR
    assert "checksum" in record.fields["fault"]


def test_quick_routes_are_answered_while_a_write_waits(served, monkeypatch):
    held = Hold(served.library, monkeypatch, "add_many")

    async def write_and_ask():
        writing = asyncio.create_task(served.http.put("/v1/documents/new", json={"text": "Ann left."}))
        await asyncio.to_thread(held.begun.wait, 30)
        quick = [await served.http.request(method, path, json=body) for method, path, body in QUICK]
        is_written = writing.done()
        held.go.set()
        return statuses(quick), is_written, (await writing).status_code

    assert served.run(write_and_ask()) == ([200] * len(QUICK), False, 201)


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
def test_a_server_is_ready_only_if_the_disk_takes_what_it_writes(serve, read_only):
    served = serve(read_only=read_only)
    assert served.get("/readyz").text == "ready\n"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel refuses to make files larger, even for root, as it does on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        response = served.get("/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert response.status_code == (200 if read_only else 503)
    assert read_only or "cannot be written: file too large" in response.json()["detail"]
