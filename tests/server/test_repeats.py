"""Changes whose answer was lost are repeated by the clients, and made once: on a real server, on real connections."""

import asyncio
import contextlib
import re
import socket
import threading

import pytest

import attar
from attar.errors import UnavailableError

pytestmark = pytest.mark.slow

TEXT = "Then Zoe met Max in Oslo."
SEPARATOR = "\n\n"


def receive(connection):
    """The next request or answer, whole; nothing if the connection ends."""
    message = b""
    while b"\r\n\r\n" not in message:
        part = connection.recv(65_536)
        if not part:
            return b""
        message += part
    head, _, body = message.partition(b"\r\n\r\n")
    stated = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    length = int(stated[1]) if stated else 0
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


class Proxy:
    """Passes requests on, and drops the answer to the first `lost` requests after the server has given it."""

    def __init__(self, port, lost):
        self.port, self.lost, self.requests = port, lost, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                with connection:
                    self._pass(connection)

    def _pass(self, connection):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as server:
            while request := receive(connection):
                self.requests.append(request)
                server.sendall(request)
                answer = receive(server)
                if len(self.requests) <= self.lost:
                    return
                connection.sendall(answer)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.fixture
def behind():
    """Makes proxies that lose answers."""
    opened = []

    def start(listening, lost=1):
        opened.append(Proxy(listening.port, lost))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def text_of(listening, name):
    with attar.Client(listening.url) as client:
        return client.show(name).text


def test_an_append_whose_answer_was_lost_is_made_once(listen, behind, stories):
    listening = listen()
    proxy = behind(listening, lost=2)
    with attar.Client(proxy.url, timeout=10) as client:
        assert client.append("0", TEXT).change == "appended"
    assert len(proxy.requests) == 3
    assert text_of(listening, "0") == stories[0].text + SEPARATOR + TEXT


def test_the_async_client_repeats_with_the_same_key(listen, behind, stories):
    listening = listen()
    proxy = behind(listening)

    async def append():
        async with attar.AsyncClient(proxy.url, timeout=10) as client:
            await client.append("0", TEXT)

    asyncio.run(append())
    keys = [re.search(rb"idempotency-key: (\S+)", request, re.IGNORECASE)[1] for request in proxy.requests]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert text_of(listening, "0") == stories[0].text + SEPARATOR + TEXT


def test_an_addition_and_a_merge_whose_answers_were_lost_succeed(listen, behind):
    listening = listen()
    with attar.Client(behind(listening).url, timeout=10) as client:
        assert client.add("new", TEXT).change == "unchanged"
    with attar.Client(behind(listening).url, timeout=10) as client:
        assert client.merge("both", ["0", "1"]).change == "merged"


def test_a_removal_whose_answer_was_lost_is_not_repeated(listen, behind):
    listening = listen()
    proxy = behind(listening)
    with attar.Client(proxy.url, timeout=10) as client, pytest.raises(UnavailableError):
        client.remove("0")
    assert len(proxy.requests) == 1


def test_two_appends_of_the_same_text_are_two(listen, stories):
    listening = listen()
    with attar.Client(listening.url) as client:
        client.append("0", TEXT)
        client.append("0", TEXT)
    assert text_of(listening, "0") == stories[0].text + SEPARATOR + TEXT + SEPARATOR + TEXT


def test_a_server_started_again_recognises_a_change_that_was_made_before(listen, stories):
    first = listen()
    with attar.Client(first.url) as client:
        client.append("0", TEXT, key="once")
    first.close()
    second = listen(documents=0)
    with attar.Client(second.url) as client:
        assert client.append("0", TEXT, key="once").change == "appended"
    assert text_of(second, "0") == stories[0].text + SEPARATOR + TEXT


def test_an_append_that_took_too_long_for_its_request_is_made_once(make, listen, monkeypatch, stories):
    made = make(timeout=1.0)
    extend, statuses = made.library.reader.extend, []
    may_end = threading.Event()

    def slow(*arguments, **options):
        assert may_end.wait(30)
        return extend(*arguments, **options)

    def go_on(response):
        statuses.append(response.status_code)
        may_end.set()

    monkeypatch.setattr(made.library.reader, "extend", slow)
    listening = listen(made)
    with attar.Client(listening.url) as client:
        client._http.event_hooks = {"response": [go_on]}
        assert client.append("0", TEXT).change == "appended"
    assert (statuses[0], statuses[-1], set(statuses)) == (504, 200, {504, 200})
    assert text_of(listening, "0") == stories[0].text + SEPARATOR + TEXT


@pytest.mark.parametrize("key", ["", "x" * 256, "\x07"])
def test_a_key_that_cannot_be_kept_is_refused(served, refused, key):
    headers = {"idempotency-key": key.encode("latin-1")}
    assert "key" in refused(served.post("/v1/documents/0/append", {"text": TEXT}, headers=headers), 422)
