"""Connections as they should not be: heads too large or too slow, bodies that never end, clients that go."""

import asyncio
import json
import socket
import time

import httpx
import pytest

from attar.server import connection

HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
END = b"connection: close\r\n\r\n"


def test_a_plain_request(listen):
    assert listen().say(HEAD + END).startswith(b"HTTP/1.1 200")


# Hardly more than the limit: of what comes behind it a server that has closed says no word any more.
@pytest.mark.parametrize(
    "flood",
    [b"".join(b"x-%04d: y\r\n" % at for at in range(6_000)), b"x: " + b"y" * 66_000],
    ids=["many headers", "one long header"],
)
@pytest.mark.parametrize("end", [b"", END], ids=["without an end", "whole"])
def test_a_head_that_is_too_large_is_refused(listen, flood, end):
    answer = listen().say(HEAD + flood + (b"\r\n" if flood[-1:] != b"\n" else b"") + end)
    assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


def test_a_head_that_never_ends_is_given_up(listen, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT", 0.2)
    assert listen().say(HEAD).startswith(b"HTTP/1.1 408")


def test_a_connection_on_which_nothing_comes_is_closed(listen, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT", 0.2)
    assert listen().say() == b""


def test_a_body_that_never_comes_is_given_up(listen):
    request = b"PUT /v1/documents/new HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    answer = listen(timeout=0.2).say(request + b"connection: close\r\ncontent-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 504")


def test_what_is_no_http_is_refused(listen):
    assert listen().say(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_large_body_does_not_count_as_head(listen):
    with httpx.Client(base_url=listen(max_text=10).url, timeout=60) as http:
        body = {"text": "Then Ann met Bob. " * 10_000}
        assert {http.put("/v1/documents/long", json=body).status_code for _ in range(3)} == {413}
        assert http.get("/healthz").status_code == 200


def test_many_requests_on_one_connection(listen):
    with httpx.Client(base_url=listen().url) as http:
        padding = {"x-padding": "y" * 30_000}
        assert {http.get("/healthz", headers=padding).status_code for _ in range(5)} == {200}


def test_a_client_that_goes_is_nobodys_fault(listen):
    listening = listen()
    body = b'{"document": "0", "question": "Who left?"}'
    head = b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", listening.port)) as talk:
            talk.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    assert listening.say(HEAD + END).startswith(b"HTTP/1.1 200")


class Recording:
    """A transport that remembers what it was given, and when it was closed."""

    def __init__(self):
        self.written = []

    def write(self, data):
        self.written.append(data)

    def close(self):
        self.written.append("closed")

    def is_closing(self):
        return "closed" in self.written


async def joined(*steps):
    """What is written of some writings, each in the loop's same turn, unless None comes between."""
    recording = Recording()
    transport = connection.Joining(recording, asyncio.get_running_loop())
    for step in steps:
        if step is None:
            await asyncio.sleep(0)
        elif step == "close":
            transport.close()
        else:
            transport.write(step)
    await asyncio.sleep(0)
    assert transport.is_closing() is ("close" in steps)
    return recording.written


LARGE = b"x" * connection.LARGEST_JOINED


@pytest.mark.parametrize(
    ("steps", "written"),
    [
        ([b"head", b"body"], [b"headbody"]),
        ([b"head", LARGE], [b"head", LARGE]),
        ([b"head"], [b"head"]),
        ([b"head", None, b"body"], [b"head", b"body"]),
        ([b"head", b"body", b"head", b"body"], [b"headbody", b"headbody"]),
        ([b"head", b"body", "close"], [b"headbody", "closed"]),
        ([b"head", "close"], [b"head", "closed"]),
        ([b"head", b""], [b"head"]),
    ],
    ids=[
        "an answer",
        "a large body",
        "a head alone",
        "a body that comes later",
        "two answers",
        "an answer and the end",
        "a head and the end",
        "an empty body",
    ],
)
def test_an_answers_head_and_body_are_written_together(steps, written):
    assert asyncio.run(joined(*steps)) == written


def test_many_clients_that_come_at_once_are_all_taken(listen):
    listening = listen()
    talks = [socket.create_connection(("127.0.0.1", listening.port), timeout=30) for _ in range(200)]
    for talk in talks:
        talk.sendall(HEAD + END)
    answers = []
    for talk in talks:
        with talk:
            answers.append(talk.recv(65_536)[:15])
    assert set(answers) == {b"HTTP/1.1 200 OK"}


def test_a_client_that_takes_no_answer_is_cut_off(make, listening_at):
    listening = listening_at(make()[0], timeout_keep_alive=1)
    # Long enough, and so often, that no buffer between the two holds the answer.
    question = "Who left " + "x" * 9_000 + "?"
    body = json.dumps({"document": "0", "questions": [question] * 1_024}).encode()
    head = b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    try:
        with socket.socket() as talk:
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            talk.settimeout(60)
            talk.connect(("127.0.0.1", listening.port))
            talk.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            while not listening.server.server_state.total_requests:
                time.sleep(0.01)
            # With an answer that nobody takes it would stay for ever.
            looks = 0
            while listening.server.server_state.connections and looks < 600:
                time.sleep(0.05)
                looks += 1
            assert not listening.server.server_state.connections
    finally:
        listening.close()
