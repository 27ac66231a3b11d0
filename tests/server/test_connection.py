"""Connections as they should not be: heads too large or too slow, bodies that never end, clients that go."""

import socket

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
