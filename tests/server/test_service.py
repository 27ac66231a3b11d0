"""Errors of the store, the reader and the client: problem objects, one line in the log, no effect on others."""

import logging
import socket
import threading
from urllib.parse import quote

import pytest

QUESTION = {"document": "0", "question": "Who left?"}
HEAD = b"PUT /v1/documents/new HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture
def damaged(serve):
    """An application with a flipped byte in the stored memory of document "1"."""
    served = serve()
    environment = served.library.store._environment
    with environment.map.begin(write=True) as writing:
        value = bytearray(writing.get(b"m1"))
        value[-9] ^= 0xFF
        writing.put(b"m1", bytes(value))
    return served


def test_a_damaged_record_is_a_logged_server_error(damaged, refused, caplog):
    response = damaged.post("/v1/ask", QUESTION | {"document": "1"})
    assert "cannot be read" in refused(response, 500)
    (record,) = [record for record in caplog.records if record.name == "attar.server"]
    assert record.levelno == logging.ERROR
    assert "checksum" in record.fields["fault"]


def test_showing_a_damaged_record_is_500(damaged, refused):
    refused(damaged.get("/v1/documents/1"), 500)


def test_other_documents_of_the_batch_are_answered_despite_a_damaged_record(damaged):
    calls = [("POST", "/v1/ask", QUESTION | {"document": name}) for name in "0101"]
    assert [response.status_code for response in damaged.call_concurrently(calls)] == [200, 500, 200, 500]


def test_other_questions_of_the_batch_are_answered_if_one_breaks_the_reader(serve, monkeypatch):
    served = serve()
    ask = served.library.ask_each

    def break_at(names, questions, **rest):
        if "Who broke it?" in questions:
            raise IndexError("unforeseen")
        return ask(names, questions, **rest)

    monkeypatch.setattr(served.library, "ask_each", break_at)
    questions = ["Who left?", "Who broke it?", "Who came?", "Who left?"]
    calls = [("POST", "/v1/ask", QUESTION | {"question": question}) for question in questions]
    assert [response.status_code for response in served.call_concurrently(calls)] == [200, 500, 200, 200]


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2fapp.py",
        "/%2e%2e/app.py",
        "/page/../app.py",
        "//etc/passwd",
        "/..\\app.py",
        "/index.html%00.js",
        "/%00",
    ],
)
def test_paths_cannot_leave_the_folder_of_the_page(listen, path):
    answer = listen().send_raw(
        f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 404"), answer[:200]
    assert b"application/problem+json" in answer


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../b", "\x00", "%2e%2e", "a\r\nb"])
def test_names_are_never_paths(served, name):
    path = "/v1/documents/" + quote(name, safe="")
    assert served.put(path, {"text": "Then Ann met Bob."}).status_code == 201
    assert served.get(path).json()["name"] == name
    assert name in served.library


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b'{"document": 1}',
        b'{"document": "0", "question": "Who left?", "top": -1}',
    ],
)
def test_a_refused_request_is_logged_once(served, caplog, body):
    caplog.clear()
    response = served.post("/v1/ask", content=body, headers={"content-type": "application/json"})
    assert 400 <= response.status_code < 500
    (record,) = [record for record in caplog.records if record.name == "attar.server"]
    assert (record.levelno, record.fields["status"]) == (logging.WARNING, response.status_code)


def test_a_client_that_disconnects_during_its_body_is_logged_as_499(listen, caplog):
    listening = listen()
    with socket.create_connection(("127.0.0.1", listening.port)) as talk:
        talk.sendall(HEAD + b"content-length: 100\r\n\r\n{")
    while not caplog.records:
        assert listening.send_raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    (record,) = [record for record in caplog.records if record.levelno > logging.INFO]
    assert (record.levelno, record.fields["status"]) == (logging.WARNING, 499)


def test_a_body_may_be_sent_in_parts(served):
    async def pieces():
        for piece in (b'{"document": "0", ', b'"question": ', b'"Who left?"}'):
            yield piece

    response = served.post("/v1/ask", content=pieces(), headers={"content-type": "application/json"})
    assert response.status_code == 200


def test_suggestions_for_an_unknown_name_are_searched_on_the_slow_thread(served, monkeypatch):
    threads, similar = [], served.library.similar

    def watched(name):
        threads.append(threading.current_thread().name)
        return similar(name)

    monkeypatch.setattr(served.library, "similar", watched)
    calls = [("POST", "/v1/ask", QUESTION | {"document": name}) for name in ("0", "01", "1")]
    assert [response.status_code for response in served.call_concurrently(calls)] == [200, 404, 200]
    assert "did you mean" in served.post("/v1/ask", QUESTION | {"document": "01"}).json()["detail"]
    assert {name.partition("_")[0] for name in threads} == {"slow"}
