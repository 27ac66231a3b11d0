"""Real connections: malformed, oversized and pipelined requests; clients that are silent, slow, gone or too many."""

import json
import socket
import time
from contextlib import ExitStack

import pytest

from attar.server import middleware
from attar.server.connections import Connection

from .conftest import ASK, CLOSE, END, GET, HEAD, read_all, request, statuses_in, wait_until

pytestmark = pytest.mark.slow

METRICS = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n" + END
CHUNKED = (
    b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
FIELDS = b"".join(b"x-%04d: y\r\n" % at for at in range(300))


def problem_in(answer):
    """The problem object of the last response."""
    head, _, body = answer.rpartition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower()
    return json.loads(body)


def connect(listening, timeout=30):
    return socket.create_connection(("127.0.0.1", listening.port), timeout=timeout)


def is_idle(listening):
    return b"\nattar_requests_in_flight 0.0\n" in listening.send_raw(METRICS)


@pytest.mark.parametrize(
    "large",
    [
        HEAD + FIELDS + END,
        HEAD + b"x: " + b"y" * 66_000 + b"\r\n" + END,
        HEAD + b"x: " + b"y" * 70_000,
        b"GET /" + b"y" * 70_000,
        CHUNKED + b"2\r\n{}\r\n0\r\nx: " + b"y" * 70_000,
        CHUNKED + b"2\r\n{}\r\n0\r\n" + FIELDS,
        CHUNKED + b"1;" + b"y" * 70_000,
    ],
    ids=["headers", "header", "endless header", "path", "trailer", "trailers", "chunk extension"],
)
def test_a_head_or_trailers_over_the_limit_are_431(listen, large):
    answer = listen().send_raw(large)
    assert answer.startswith(b"HTTP/1.1 431")
    assert problem_in(answer)["kind"] == "OptionError"


def test_trailers_are_not_headers(listen):
    body = json.dumps(ASK).encode()
    sent = CHUNKED + b"%x\r\n%s\r\n0\r\nauthorization: Bearer s3cret\r\n\r\n" % (len(body), body)
    assert listen(token="s3cret").send_raw(sent).startswith(b"HTTP/1.1 401")


def test_a_chunked_body_over_the_limit_is_413(listen):
    chunk = b"3e8\r\n" + b" " * 1_000 + b"\r\n"
    assert listen(max_body=5_000).send_raw(CHUNKED + chunk * 6).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
        CHUNKED.replace(b": chunked", b": gzip, chunked") + b"2\r\n{}\r\n0\r\n\r\n",
    ],
    ids=["TLS", "CONNECT", "another transfer encoding"],
)
def test_what_is_not_plain_http_is_400(listen, sent):
    answer = listen().send_raw(sent)
    assert statuses_in(answer) == [400]
    assert problem_in(answer)["status"] == 400


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "apart"])
def test_the_body_of_a_request_with_an_upgrade_is_not_another_request(listen, apart):
    head = request("/v1/ask", {}, "connection: upgrade", "upgrade: h2c")[0]
    head = head.replace(b"content-length: 2", b"content-length: %d" % len(GET))
    answers = listen().send_raw(*((head, GET) if apart else (head + GET,)))
    assert statuses_in(answers) == [400]
    assert "upgrade" in problem_in(answers)["detail"]


def test_a_body_that_never_arrives_is_504(listen):
    head = b"PUT /v1/documents/new HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    answer = listen(timeout=0.2).send_raw(head + b"connection: close\r\ncontent-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 504")


def test_reading_stops_while_pipelined_requests_wait(held):
    listening, begun, go = held()
    with connect(listening, timeout=1) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK)))
        assert begun.wait(30)
        with pytest.raises(TimeoutError):
            connection.sendall(GET * 1_000_000)  # more than the system's buffers take
        (protocol,) = listening.server.server_state.connections
        assert len(protocol.pipeline) <= 1
        go.set()


def test_what_is_not_http_is_refused_after_the_request_before_it_is_answered(held):
    listening, begun, go = held(max_concurrent=2)
    for _ in range(4):
        with connect(listening) as connection:
            connection.sendall(b"".join(request("/v1/ask", ASK)) + b"\x00not HTTP\r\n\r\n")
            assert begun.wait(30)
            go.set()
            assert statuses_in(read_all(connection)) == [200, 400]
    wait_until(lambda: is_idle(listening))


def test_a_client_that_is_gone_is_no_longer_waited_for(held):
    listening, begun, _ = held()
    head, body = request("/v1/ask", ASK)
    with connect(listening) as before_its_answer:
        before_its_answer.sendall(head + body)
        assert begun.wait(30)
    wait_until(lambda: is_idle(listening))  # though the library still works


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(Connection, "patience", 0.3)


@pytest.mark.usefixtures("impatient")
def test_a_silent_connection_is_closed(listen):
    assert listen().send_raw(b"") == b""


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("before", [b"", GET], ids=["first request", "second request"])
def test_a_head_that_does_not_end_is_408(listen, before):
    assert statuses_in(listen().send_raw(before + HEAD))[-1] == 408


def test_a_client_that_does_not_read_is_disconnected(listen, impatient):
    listening = listen()
    listening.socket.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096
    )  # so that answers wait in the server
    with connect(listening, timeout=0.5) as connection:
        connection.sendall(GET * 20_000)
        wait_until(lambda: not listening.server.server_state.connections)


def test_a_new_connection_takes_the_place_of_an_idle_one(listen):
    listening = listen(max_connections=3)
    silent = [connect(listening) for _ in range(5)]
    assert listening.send_raw(HEAD + END).startswith(b"HTTP/1.1 200")
    for connection in silent:
        connection.close()


def test_more_connections_than_the_limit_are_503_while_none_is_idle(held):
    listening, begun, go = held(max_connections=1)
    with connect(listening) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK, CLOSE)))
        assert begun.wait(30)
        refused = listening.send_raw(b"")
        go.set()
        assert statuses_in(read_all(connection)) == [200]
    assert statuses_in(refused) == [503]
    assert b"retry-after" in refused


class TestABodyThatIsRefused:
    """By its size, or without a token, while the client is still sending it."""

    SIZE = 4_000_000

    @staticmethod
    def head(length: bytes) -> bytes:
        first = b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
        return b"%b\r\n%b\r\n\r\n" % (first, length)

    @pytest.mark.parametrize(("settings", "status"), [({"max_body": 1_000}, 413), ({"token": "secret"}, 401)])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_can_be_sent_to_its_end_before_the_refusal_is_read(self, listen, settings, status, chunked):
        length = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % self.SIZE
        body = b"a" * self.SIZE
        with connect(listen(**settings)) as connection:
            connection.sendall(self.head(length))
            time.sleep(0.1)  # until it is refused
            connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (self.SIZE, body) if chunked else body)
            assert statuses_in(read_all(connection)) == [status]

    def test_is_not_read_for_ever(self, listen, monkeypatch):
        monkeypatch.setattr(middleware, "_LINGER", 0.2)
        with connect(listen(max_body=1_000)) as connection:
            connection.sendall(self.head(b"content-length: 1000000000000"))
            with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
                while True:
                    connection.sendall(b"a" * 1_000)
                    time.sleep(0.02)

    def test_makes_room_before_a_client_that_has_sent_nothing_yet(self, listen):
        """Otherwise those who flood a server with such bodies close the connections of all others."""
        listening = listen(max_connections=5, token="secret")
        with ExitStack() as opened:
            waiting = opened.enter_context(connect(listening))
            for _ in range(10):
                refused = opened.enter_context(connect(listening))
                refused.sendall(self.head(b"content-length: 1000"))
                assert statuses_in(refused.recv(65_536))[0] == 401
            waiting.sendall(HEAD + END)
            assert statuses_in(read_all(waiting)) == [200]
