"""Requests on real connections: malformed, pipelined, and from clients that disconnect."""

import http.client
import json
import socket
import time

import pytest

from .conftest import ASK, CLOSE, END, GET, HEAD, read_all, request, statuses_in, wait_until

pytestmark = pytest.mark.slow

METRICS = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n" + END
LOOKUP = {"document": "0", "vector": [0.5] * 6}
CHUNKED = (
    b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def problem_in(answer):
    """The problem object of the last response."""
    head, _, body = answer.rpartition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower()
    return json.loads(body)


def is_idle(listening):
    return b"\nattar_requests_in_flight 0.0\n" in listening.send_raw(METRICS)


FIELDS = b"".join(b"x-%04d: y\r\n" % at for at in range(300))


@pytest.mark.parametrize(
    "large", [FIELDS, b"x: " + b"y" * 66_000 + b"\r\n"], ids=["many headers", "one long header"]
)
def test_a_head_over_the_limit_is_431(listen, large):
    answer = listen().send_raw(HEAD + large + END)
    assert answer.startswith(b"HTTP/1.1 431")
    assert problem_in(answer)["kind"] == "OptionError"


def test_a_head_within_the_limit_is_accepted(listen):
    assert listen().send_raw(HEAD + b"x: " + b"y" * 60_000 + b"\r\n" + END).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "endless",
    [HEAD + b"x: ", b"GET /", CHUNKED + b"2\r\n{}\r\n0\r\nx: ", CHUNKED + b"1;"],
    ids=["header", "path", "trailer", "chunk extension"],
)
def test_a_head_without_end_is_431(listen, endless):
    assert listen().send_raw(endless + b"y" * 70_000).startswith(b"HTTP/1.1 431")


def test_too_many_trailers_are_431(listen):
    assert listen().send_raw(CHUNKED + b"2\r\n{}\r\n0\r\n" + FIELDS).startswith(b"HTTP/1.1 431")


def test_trailers_are_not_headers(listen):
    trailers = b"authorization: Bearer s3cret\r\n\r\n"
    body = json.dumps(ASK).encode()
    sent = CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(body), body) + trailers
    assert listen(token="s3cret").send_raw(sent).startswith(b"HTTP/1.1 401")


def test_a_chunked_body_over_the_limit_is_413(listen):
    chunk = b"3e8\r\n" + b" " * 1_000 + b"\r\n"
    assert listen(max_body=5_000).send_raw(CHUNKED + chunk * 6).startswith(b"HTTP/1.1 413")


def test_another_transfer_encoding_is_400(listen):
    sent = CHUNKED.replace(b": chunked", b": gzip, chunked") + b"2\r\n{}\r\n0\r\n\r\n"
    assert "transfer-encoding" in problem_in(listen().send_raw(sent))["detail"]


def test_a_body_that_never_arrives_is_504(listen):
    head = b"PUT /v1/documents/new HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    answer = listen(timeout=0.2).send_raw(head + b"connection: close\r\ncontent-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 504")


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"],
    ids=["TLS", "CONNECT"],
)
def test_malformed_http_is_400(listen, sent):
    answer = listen().send_raw(sent)
    assert statuses_in(answer) == [400]
    assert problem_in(answer)["status"] == 400


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
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"answers":' in answer


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
    wait_until(lambda: is_idle(listening))


def test_what_is_not_http_is_refused_after_the_request_before_it_is_answered(held):
    listening, begun, go = held(max_concurrent=2)
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
            connection.sendall(b"".join(request("/v1/ask", ASK)) + b"\x00not HTTP\r\n\r\n")
            assert begun.wait(30)
            go.set()
            assert statuses_in(read_all(connection)) == [200, 400]
    wait_until(lambda: is_idle(listening))
    assert listening.send_raw(b"".join(request("/v1/ask", ASK, CLOSE))).startswith(b"HTTP/1.1 200")


def test_reading_stops_while_pipelined_requests_wait(held):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port), timeout=1) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK)))
        assert begun.wait(30)
        with pytest.raises(TimeoutError):
            # More than the system's buffers take.
            connection.sendall(GET * 1_000_000)
        (protocol,) = listening.server.server_state.connections
        assert len(protocol.pipeline) <= 1
        go.set()


def test_thousands_of_pipelined_requests_are_answered(listen):
    answers = listen().send_raw(GET * 3_000 + HEAD + END)
    assert statuses_in(answers) == [200] * 3_001


def test_the_body_of_a_request_with_an_upgrade_is_not_another_request(listen):
    listening = listen()
    for apart in (False, True):
        head = request("/v1/ask", {}, "connection: upgrade", "upgrade: h2c")[0].replace(
            b"content-length: 2", b"content-length: %d" % len(GET)
        )
        answers = listening.send_raw(*((head, GET) if apart else (head + GET,)))
        assert statuses_in(answers) == [400]
        assert "upgrade" in problem_in(answers)["detail"]


def test_an_upgrade_without_a_body_is_ignored(listen):
    sent = HEAD + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n" + HEAD + END
    assert statuses_in(listen().send_raw(sent)) == [200, 200]


@pytest.mark.parametrize("count", [1, 3])
def test_a_half_closed_client_is_answered(held, count):
    listening, begun, go = held()
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
        connection.sendall(b"".join(request("/v1/ask", ASK)) * count)
        connection.shutdown(socket.SHUT_WR)
        assert begun.wait(30)
        go.set()
        assert statuses_in(read_all(connection)) == [200] * count


def test_a_client_that_closes_its_side_within_a_body_is_disconnected(listen):
    listening = listen()
    head, body = request("/v1/ask", ASK)
    with socket.create_connection(("127.0.0.1", listening.port), timeout=30) as connection:
        connection.sendall(head + body[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b""
    wait_until(lambda: is_idle(listening))
