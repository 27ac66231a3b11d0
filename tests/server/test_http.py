"""Requests on real connections: malformed, slow, pipelined, and from clients that disconnect."""

import http.client
import json
import re
import socket
import threading
import time

import pytest

HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
END = b"connection: close\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n" + END
ASK = {"document": "0", "question": "Who left?"}
LOOKUP = {"document": "0", "vector": [0.5] * 6}
JSON = "content-type: application/json"
CLOSE = "connection: close"


def request(path, body, *lines, version="1.1"):
    """The head and the body of a request."""
    sent = json.dumps(body).encode()
    head = [f"POST {path} HTTP/{version}", "host: localhost", f"content-length: {len(sent)}", JSON, *lines]
    return "\r\n".join([*head, "\r\n"]).encode(), sent


@pytest.fixture
def held(make, listening_at, monkeypatch):
    """Starts a server whose answers wait until `go` is set."""
    opened, begun, go = [], threading.Event(), threading.Event()

    def start(**settings):
        app, library = make(**settings)
        ask_many = library.ask_many

        def wait_and_ask(*arguments, **options):
            begun.set()
            assert go.wait(30)
            return ask_many(*arguments, **options)

        monkeypatch.setattr(library, "ask_many", wait_and_ask)
        opened.append(listening_at(app))
        return opened[-1], begun, go

    yield start
    go.set()
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    "large",
    [b"".join(b"x-%04d: y\r\n" % at for at in range(6_000)), b"x: " + b"y" * 66_000 + b"\r\n"],
    ids=["many headers", "one long header"],
)
def test_headers_over_the_limit_are_431(listen, large):
    assert listen().send_raw(HEAD + large + END).startswith(b"HTTP/1.1 431")


def test_a_body_that_never_arrives_is_504(listen):
    head = b"PUT /v1/documents/new HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    answer = listen(timeout=0.2).send_raw(head + b"connection: close\r\ncontent-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 504")


def test_malformed_http_is_400(listen):
    assert listen().send_raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_connection_is_reused_after_refused_texts_and_large_headers(listen):
    connection = http.client.HTTPConnection("127.0.0.1", listen(max_text=10).port, timeout=60)
    connection.connect()
    connection.auto_open = 0
    body, headers = json.dumps({"text": "Then Ann met Bob. " * 10_000}), {"content-type": "application/json"}
    statuses = []
    for _ in range(3):
        for method, path, sent in (("PUT", "/v1/documents/long", body), ("GET", "/healthz", None)):
            connection.request(method, path, sent, headers | {"x-padding": "y" * 30_000})
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
    connection.close()
    assert statuses == [413, 200] * 3


def test_head_and_body_may_be_sent_apart(listen):
    listening = listen()
    head, body = request("/v1/ask", ASK, CLOSE)
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
        connection.sendall(head)
        time.sleep(0.1)
        connection.sendall(body)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"answers":' in answer


def test_pipelined_requests_are_answered_in_order(listen):
    asked, looked_up = (b"".join(request(*each)) for each in (("/v1/ask", ASK), ("/v1/lookup", LOOKUP)))
    last = b"".join(request("/v1/lookup", LOOKUP, CLOSE))
    answers = listen().send_raw(looked_up + looked_up + asked + looked_up + asked + last)
    kinds = [kind.decode() for kind in re.findall(rb'"(readout|answers)":', answers)]
    assert kinds == ["readout", "readout", "answers", "readout", "answers", "readout"]


def test_an_http_1_0_client_is_disconnected_after_its_answer(listen):
    answer = listen().send_raw(b"".join(request("/v1/ask", ASK, version="1.0")))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer


def test_two_hundred_simultaneous_clients_are_answered(listen):
    listening = listen()
    connections = [socket.create_connection(("127.0.0.1", listening.port), timeout=30) for _ in range(200)]
    for connection in connections:
        connection.sendall(HEAD + END)
    answers = []
    for connection in connections:
        with connection:
            answers.append(connection.recv(65_536)[:15])
    assert set(answers) == {b"HTTP/1.1 200 OK"}


def test_a_client_that_disconnects_before_its_answer_is_no_longer_in_flight(held):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port)) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK)))
        assert begun.wait(30)
    go.set()
    deadline = time.monotonic() + 30
    while b"\nattar_requests_in_flight 0\n" not in listening.send_raw(METRICS):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pipelined_request_that_closes_the_connection_leaves_nothing_in_flight(held):
    listening, begun, go = held(max_concurrent=2)
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
            connection.sendall(b"".join(request("/v1/ask", ASK)))
            assert begun.wait(30)
            connection.sendall(b"\x00not HTTP\r\n\r\n")
            assert b" 400 " in b"".join(iter(lambda: connection.recv(65_536), b""))
        go.set()
        deadline = time.monotonic() + 30
        while b"\nattar_requests_in_flight 0\n" not in listening.send_raw(METRICS):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert listening.send_raw(b"".join(request("/v1/ask", ASK, CLOSE))).startswith(b"HTTP/1.1 200")


def test_a_stopping_server_finishes_accepted_requests(held):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK)))
        assert begun.wait(30)
        listening.server.should_exit = True
        time.sleep(0.3)
        go.set()
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    listening.thread.join(30)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer
