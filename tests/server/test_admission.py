"""A full server refuses at once and for little: unread, unrouted, logged together, and not again at once."""

import json
import socket
import threading
import time

import pytest

from attar.server import admission

pytestmark = pytest.mark.slow

ASK = {"document": "0", "question": "Who left?"}
METRICS = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def head(*lines, length=None, path="/v1/ask", version="1.1"):
    size = len(json.dumps(ASK)) if length is None else length
    first = [f"POST {path} HTTP/{version}", "host: localhost", "content-type: application/json"]
    return "\r\n".join([*first, f"content-length: {size}", *lines, "\r\n"]).encode()


ASKED = head() + json.dumps(ASK).encode()


class Talk:
    """One connection, kept open."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.file = self.socket.makefile("rb")

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def receive(self):
        """The status, the headers and the body of the next reply."""
        status = int(self.file.readline().split()[1])
        lines = iter(lambda: self.file.readline().strip().decode(), "")
        headers = dict(line.split(": ", 1) for line in lines)
        return status, headers, self.file.read(int(headers["content-length"]))

    def close(self):
        self.file.close()
        self.socket.close()


@pytest.fixture
def full(make, listening_at, monkeypatch):
    """A server whose only place is taken, by a question that waits for `go`; and a function that connects."""
    app, library = make(max_concurrent=1)
    ask_many, begun, go = library.ask_many, threading.Event(), threading.Event()

    def wait_and_ask(*arguments, **options):
        begun.set()
        assert go.wait(30)
        return ask_many(*arguments, **options)

    monkeypatch.setattr(library, "ask_many", wait_and_ask)
    monkeypatch.setattr(admission, "_SHORTEST", 0.05)
    listening, talks = listening_at(app), []

    def connect():
        talks.append(Talk(listening.port))
        return talks[-1]

    first = connect()
    first.send(ASKED)
    assert begun.wait(30)
    listening.go, listening.first, listening.connect = go, first, connect
    yield listening
    go.set()
    for talk in talks:
        talk.close()
    listening.close()


def refusals(listening):
    metrics = listening.send_raw(METRICS).decode()
    lines = [line for line in metrics.splitlines() if 'route="ask",status="503"' in line]
    return float(lines[0].split()[-1]) if lines else 0


def test_a_request_is_refused_before_its_body_is_sent(full):
    talk = full.connect()
    talk.send(head("x-request-id: mine"))
    status, headers, body = talk.receive()
    problem = json.loads(body)
    assert (status, problem["status"], problem["kind"]) == (503, 503, "UnavailableError")
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["retry-after"]) >= 1
    assert headers["x-request-id"] == "mine"
    assert problem["instance"] == "urn:request:mine"


def test_a_refused_connection_answers_later_requests(full):
    talk = full.connect()
    talk.send(ASKED)
    assert talk.receive()[0] == 503
    full.go.set()
    assert full.first.receive()[0] == 200
    talk.send(ASKED)
    assert talk.receive()[0] == 200


def test_a_client_that_does_not_wait_is_not_refused_again_at_once(full, monkeypatch):
    monkeypatch.setattr(admission, "_SHORTEST", 3.0)  # longer than a busy machine takes to count
    talk = full.connect()
    talk.send(ASKED * 20)
    assert talk.receive()[0] == 503
    assert refusals(full) == 1
    # Afterwards the next one has its turn.
    assert talk.receive()[0] == 503
    assert refusals(full) == 2


def test_more_waiting_connections_wait_for_longer(full, monkeypatch):
    monkeypatch.setattr(admission, "_REFUSALS", 2)
    waits = []
    for _ in range(6):
        talk = full.connect()
        talk.send(ASKED)
        waits.append(int(talk.receive()[1]["retry-after"]))
    assert waits == sorted(waits)
    assert waits[0] == 1 < waits[-1]


def test_the_connection_of_a_long_body_ends(full):
    talk = full.connect()
    talk.send(head(length=1_000_000))
    status, headers, _ = talk.receive()
    assert (status, headers["connection"]) == (503, "close")
    assert talk.socket.recv(1) == b""


@pytest.mark.parametrize(
    "request_head", [head("connection: close"), head(version="1.0")], ids=["close", "HTTP/1.0"]
)
def test_a_connection_that_ends_is_not_kept_waiting(full, monkeypatch, request_head):
    monkeypatch.setattr(admission, "_SHORTEST", 60.0)
    talk = full.connect()
    talk.send(request_head)
    assert talk.receive()[0] == 503
    assert talk.socket.recv(1) == b""


def test_operators_are_answered_by_a_full_server(full):
    for path in ("/healthz", "/readyz", "/metrics"):
        answer = full.send_raw(
            f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
        )
        assert answer.startswith(b"HTTP/1.1 200"), path


def test_refusals_are_logged_together(full, caplog, monkeypatch):
    monkeypatch.setattr(admission, "_LOG_SECONDS", 0.5)
    talks = [full.connect() for _ in range(9)]
    for talk in talks:
        talk.send(head("connection: close"))
    for talk in talks:
        assert talk.receive()[0] == 503
    deadline = time.monotonic() + 30
    while sum(record.fields["refused"] for record in _logged(caplog)) < 9:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(_logged(caplog)) < 9


def _logged(caplog):
    return [record for record in caplog.records if record.getMessage() == "overload"]
