"""Clients that are silent, slow or too many, on real connections."""

import socket
import time

import pytest

from attar.server import middleware
from attar.server.connections import Connection

from .conftest import ASK, CLOSE, END, GET, HEAD, read_all, request, statuses_in, wait_until

pytestmark = pytest.mark.slow


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


@pytest.mark.usefixtures("impatient")
def test_a_head_sent_a_byte_at_a_time_is_408(listen):
    with socket.create_connection(("127.0.0.1", listen().port), timeout=30) as connection:
        connection.sendall(HEAD + b"x: ")
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
            while True:
                connection.sendall(b"y")
                time.sleep(0.02)


class TestABodyThatIsRefused:
    """By its size, or without a token, while the client is still sending it."""

    SIZE = 4_000_000

    @staticmethod
    def refused_head(size: object) -> bytes:
        return (
            b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n%b\r\n\r\n" % size
        )

    @pytest.mark.parametrize(
        ("settings", "status"), [({"max_body": 1_000}, 413), ({"token": "secret-of-16-chars"}, 401)]
    )
    @pytest.mark.parametrize("chunked", [False, True])
    def test_can_be_sent_to_its_end_before_the_refusal_is_read(self, listen, settings, status, chunked):
        length = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % self.SIZE
        body = b"a" * self.SIZE
        with socket.create_connection(("127.0.0.1", listen(**settings).port), timeout=30) as connection:
            connection.sendall(self.refused_head(length))
            time.sleep(0.1)  # until it is refused
            connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (self.SIZE, body) if chunked else body)
            assert statuses_in(read_all(connection)) == [status]

    def test_is_not_read_for_ever(self, listen, monkeypatch):
        monkeypatch.setattr(middleware, "_LINGER", 0.2)
        with socket.create_connection(("127.0.0.1", listen(max_body=1_000).port), timeout=30) as connection:
            connection.sendall(self.refused_head(b"content-length: 1000000000000"))
            with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
                while True:
                    connection.sendall(b"a" * 1_000)
                    time.sleep(0.02)

    @pytest.mark.parametrize(
        ("settings", "size"),
        [({"token": "secret-of-16-chars"}, b"1000"), ({"max_body": 1_000}, b"1000000")],
        ids=["without a token", "too large"],
    )
    def test_holds_no_connection_that_another_client_needs(self, listen, settings, size):
        listening = listen(max_connections=5, **settings)
        refused = [socket.create_connection(("127.0.0.1", listening.port), timeout=30) for _ in range(5)]
        for connection in refused:
            connection.sendall(self.refused_head(b"content-length: " + size))
            assert statuses_in(connection.recv(65_536))[0] in (401, 413)
        for _ in range(5):
            assert statuses_in(listening.send_raw(HEAD + END)) == [200]
        for connection in refused:
            connection.close()


@pytest.fixture
def narrow(listen):
    """A server whose system buffers little, so that answers that are not read wait in the server."""
    listening = listen()
    listening.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    return listening


@pytest.mark.usefixtures("impatient")
def test_a_client_that_does_not_read_is_disconnected(narrow):
    with socket.create_connection(("127.0.0.1", narrow.port), timeout=0.5) as connection:
        connection.sendall(GET * 20_000)
        wait_until(lambda: not narrow.server.server_state.connections)


def test_a_client_that_reads_slowly_gets_all_answers(narrow, monkeypatch):
    # Less than reading takes, and long for a busy machine.
    monkeypatch.setattr(Connection, "patience", 2.0)
    with socket.create_connection(("127.0.0.1", narrow.port), timeout=30) as connection:
        connection.sendall(GET * 3_000 + HEAD + END)
        answers = b""
        while part := connection.recv(2_048):
            answers += part
            time.sleep(0.01)
    assert statuses_in(answers) == [200] * 3_001


def test_a_new_connection_takes_the_place_of_an_idle_one(listen):
    listening = listen(max_connections=3)
    silent = [socket.create_connection(("127.0.0.1", listening.port), timeout=30) for _ in range(5)]
    assert listening.send_raw(HEAD + END).startswith(b"HTTP/1.1 200")
    for connection in silent:
        connection.close()


def test_more_connections_than_the_limit_are_503_while_none_is_idle(held):
    listening, begun, go = held(max_connections=1)
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK, CLOSE)))
        assert begun.wait(30)
        refused = listening.send_raw(b"")
        go.set()
        assert statuses_in(read_all(connection)) == [200]
    assert statuses_in(refused) == [503]
    assert b"retry-after" in refused


def test_a_stopping_server_finishes_accepted_requests(held):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK)))
        assert begun.wait(30)
        (protocol,) = listening.server.server_state.connections
        listening.server.should_exit = True
        wait_until(lambda: not protocol.cycle.keep_alive)
        go.set()
        answer = read_all(connection)
    listening.thread.join(30)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer
