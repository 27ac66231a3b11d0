"""Busy requests that come whole are answered without a task, and as those that come in parts are."""

import json
import logging
import re
import socket
import threading
import time

import pytest

from attar.server.shortcut import LONGEST_BODY, Shortcut

ASK = {"document": "0", "question": "Who left?"}
LOOKUP = {"document": "0", "vector": [0.5] * 6}
JSON = "content-type: application/json"
CLOSE = "connection: close"


def request(path, body, *lines, version="1.1"):
    """A request's head and its body."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/{version}", "host: localhost", f"content-length: {len(sent)}", *lines]
    return "\r\n".join([*head, "\r\n"]).encode(), sent


def answer_of(said):
    """The status, the headers and the body of an answer, whatever differs from one to the next left out."""
    head, _, body = said.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers.pop("x-request-id")
    headers.pop("date", None)
    headers.pop("content-length")
    told = json.loads(body)
    told.pop("seconds", None)
    told.pop("instance", None)
    return status, headers, told


@pytest.fixture
def shortened(monkeypatch):
    """The paths that went the short way."""
    paths, take = [], Shortcut.take

    def remember(self):
        paths.append(self._passage.path)
        take(self)

    monkeypatch.setattr(Shortcut, "take", remember)
    return paths


@pytest.fixture
def held(make, listening_at, monkeypatch):
    """Starts a server whose answers wait until they are let go."""
    opened, begun, go = [], threading.Event(), threading.Event()

    def start(**settings):
        app, library = make(**settings)
        ask_many = library.ask_many

        def wait_and_ask(*arguments, **words):
            begun.set()
            assert go.wait(30)
            return ask_many(*arguments, **words)

        monkeypatch.setattr(library, "ask_many", wait_and_ask)
        opened.append(listening_at(app))
        return opened[-1], begun, go

    yield start
    go.set()
    for each in opened:
        each.close()


CASES = {
    "a question": (200, "/v1/ask", ASK),
    "many questions": (200, "/v1/ask", {"documents": ["0", "1"], "questions": ["Who left?", "Who met Ann?"]}),
    "a vector": (200, "/v1/lookup", LOOKUP),
    "many vectors": (200, "/v1/lookup", {"document": "0", "vectors": [[0.5] * 6] * 40}),
    "a document that is not there": (404, "/v1/ask", ASK | {"document": "2"}),
    "no document to look up": (404, "/v1/lookup", LOOKUP | {"document": "2"}),
    "no JSON": (400, "/v1/ask", b"{"),
    "a word of the wrong type": (422, "/v1/ask", ASK | {"top": 0}),
    "a vector of the wrong size": (422, "/v1/lookup", LOOKUP | {"vector": [1.0]}),
    "a number that is too large": (422, "/v1/lookup", LOOKUP | {"vector": [1e300] * 6}),
    "a long question": (413, "/v1/ask", ASK | {"question": "Who? " * 2_001}),
}


@pytest.mark.parametrize(("status", "path", "body"), CASES.values(), ids=CASES)
def test_whole_and_in_parts_the_answer_is_the_same(listen, shortened, status, path, body):
    listening = listen()
    head, sent = request(path, body, JSON, CLOSE)
    whole = answer_of(listening.say(head + sent))
    assert shortened == [path]
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as talk:
        talk.sendall(head)
        time.sleep(0.1)
        talk.sendall(sent)
        parts = answer_of(b"".join(iter(lambda: talk.recv(65_536), b"")))
    assert shortened == [path]
    assert whole == parts
    assert whole[0].split()[1] == str(status)


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ([], ASK),
        (["content-type: application/json; charset=utf-8"], ASK),
        ([JSON, "expect: 100-continue"], ASK),
        ([JSON], ASK | {"question": "Who? " + " " * LONGEST_BODY}),
    ],
    ids=["no type", "a type with parameters", "a client that waits", "a long body"],
)
def test_what_is_not_plain_goes_the_usual_way(listen, shortened, lines, body):
    head, sent = request("/v1/ask", body, *lines, CLOSE)
    assert listen().say(head + sent).startswith(b"HTTP/1.1 ")
    assert not shortened


def test_without_the_token_nobody_comes_in(listen, shortened):
    listening = listen(token="secret")
    refused = listening.say(*map(b"".join, [request("/v1/ask", ASK, JSON)]))
    let_in = listening.say(b"".join(request("/v1/ask", ASK, JSON, CLOSE, "authorization: Bearer secret")))
    assert refused.startswith(b"HTTP/1.1 401")
    assert let_in.startswith(b"HTTP/1.1 200")
    assert len(shortened) == 2


def test_requests_that_come_together_are_answered_in_their_order(listen):
    asked, looked_up = (b"".join(request(*each, JSON)) for each in (("/v1/ask", ASK), ("/v1/lookup", LOOKUP)))
    last = b"".join(request("/v1/lookup", LOOKUP, JSON, CLOSE))
    said = listen().say(looked_up + looked_up + asked + looked_up + asked + last)
    assert re.findall(rb'"(readout|answers)":', said) == [
        b"readout",
        b"readout",
        b"answers",
        b"readout",
        b"answers",
        b"readout",
    ]


def test_many_requests_on_one_connection_are_no_long_head(listen, shortened):
    sent = b"".join(request("/v1/lookup", LOOKUP | {"document": "0" * 500}, JSON))
    with socket.create_connection(("127.0.0.1", listen().port), timeout=30) as talk:
        for _ in range(200):
            talk.sendall(sent)
            assert talk.recv(65_536).startswith(b"HTTP/1.1 404")
    assert len(shortened) == 200


def test_an_old_client_is_left_after_its_answer(listen, shortened):
    said = listen().say(b"".join(request("/v1/ask", ASK, JSON, version="1.0")))
    assert said.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in said
    assert shortened


def test_what_takes_too_long_is_given_up(held, shortened):
    listening, _, _ = held(timeout=0.05)
    assert listening.say(b"".join(request("/v1/ask", ASK, JSON, CLOSE))).startswith(b"HTTP/1.1 504")
    assert shortened


def test_a_full_queue_refuses_at_once(held, shortened):
    listening, begun, go = held(max_queue=1)
    sent = b"".join(request("/v1/ask", ASK, JSON, CLOSE))
    talks = []
    for _ in range(2):
        talks.append(socket.create_connection(("127.0.0.1", listening.port), timeout=30))
        talks[-1].sendall(sent)
        # The first is worked on before the second waits.
        assert begun.wait(30)
        time.sleep(0.1)
    over = listening.say(sent)
    go.set()
    assert over.startswith(b"HTTP/1.1 503")
    assert b"retry-after: " in over
    assert [talk.recv(65_536)[:12] for talk in talks] == [b"HTTP/1.1 200"] * 2
    for talk in talks:
        talk.close()
    assert len(shortened) == 3


def test_a_server_that_stops_finishes_what_it_accepted(held, shortened):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as talk:
        talk.sendall(b"".join(request("/v1/ask", ASK, JSON)))
        assert begun.wait(30)
        listening.server.should_exit = True
        time.sleep(0.3)
        go.set()
        said = b"".join(iter(lambda: talk.recv(65_536), b""))
    listening.thread.join(30)
    assert said.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in said
    assert shortened


def test_a_client_that_goes_before_its_answer_is_counted_out(held, shortened):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port)) as talk:
        talk.sendall(b"".join(request("/v1/ask", ASK, JSON)))
        assert begun.wait(30)
    go.set()
    sign = f"GET /metrics HTTP/1.1\r\nhost: localhost\r\n{CLOSE}\r\n\r\n".encode()
    while b"\nattar_requests_in_flight 0\n" not in listening.say(sign):
        time.sleep(0.01)
    assert shortened


@pytest.mark.parametrize(("path", "body"), [("/v1/ask", ASK), ("/v1/lookup", LOOKUP)], ids=["ask", "lookup"])
def test_an_answer_is_counted_and_logged_under_its_id(listen, shortened, caplog, path, body):
    listening = listen()
    caplog.set_level(logging.INFO, "attar.server")
    said = listening.say(b"".join(request(path, body, JSON, CLOSE, "x-request-id: mine-7")))
    assert b"\r\nx-request-id: mine-7\r\n" in said
    sign = f"GET /metrics HTTP/1.1\r\nhost: localhost\r\n{CLOSE}\r\n\r\n".encode()
    counted = f'attar_requests_total{{route="{path[4:]}",status="200"}} 1\n'.encode()
    assert counted in listening.say(sign)
    told = [record.fields for record in caplog.records if getattr(record, "fields", {}).get("path") == path]
    assert [(each["request"], each["status"]) for each in told] == [("mine-7", 200)]
    assert shortened


def test_a_fault_of_the_servers_own_is_said_and_logged(make, listening_at, monkeypatch, caplog, shortened):
    app, library = make()

    def broken(*arguments, **words):
        raise RuntimeError("what is inside")

    monkeypatch.setattr(library, "ask_many", broken)
    listening = listening_at(app)
    try:
        said = listening.say(b"".join(request("/v1/ask", ASK, JSON, CLOSE)))
    finally:
        listening.close()
    assert said.startswith(b"HTTP/1.1 500")
    assert b"inside" not in said
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.fields["request"].encode() in said
    assert shortened
