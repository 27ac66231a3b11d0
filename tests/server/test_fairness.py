"""Long work delays nobody: health, readiness, metrics, lists and questions are answered while it runs."""

import contextlib
import http.client
import json
import resource
import threading
import time

import pytest

from benchmarks.stories import tell_stories

QUICK = [
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", None),
    ("GET", "/v1/documents", None),
    ("GET", "/v1/documents/0", None),
    ("POST", "/v1/ask", {"document": "0", "question": "Who left?"}),
]


def call(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"content-type": "application/json"})
    response = connection.getresponse()
    status, text = response.status, response.read().decode()
    connection.close()
    return status, text


class Long:
    """A long request in a thread; `statuses` has its status when it is answered."""

    def __init__(self, port, *request):
        self.statuses = []
        self.thread = threading.Thread(target=self._send, args=(port, *request))
        self.thread.start()
        deadline = time.monotonic() + 60
        while "\nattar_requests_in_flight 1.0\n" not in call(port, "GET", "/metrics")[1]:
            assert time.monotonic() < deadline
            assert not self.statuses

    def _send(self, port, *request):
        with contextlib.suppress(ConnectionError):  # of a server that was killed
            self.statuses.append(call(port, *request)[0])


@pytest.fixture
def held(make, listen, monkeypatch):
    """A server whose additions wait for `go`."""
    made = make()
    go = threading.Event()

    def wait_then(work):
        def waiting(*arguments, **options):
            assert go.wait(60)
            return work(*arguments, **options)

        return waiting

    monkeypatch.setattr(made.library, "add", wait_then(made.library.add))
    yield listen(made), go
    go.set()


def test_quick_routes_are_answered_while_long_work_waits(held):
    listening, go = held
    long = Long(listening.port, "PUT", "/v1/documents/new", {"text": "Ann left."})
    assert [call(listening.port, *each)[0] for each in QUICK] == [200] * len(QUICK)
    assert long.statuses == []
    go.set()
    long.thread.join(60)
    assert long.statuses == [201]


@pytest.mark.slow
def test_quick_routes_are_answered_while_a_long_text_is_read(listen):
    text = "".join(story.text + "\n" for story in tell_stories(5, 150)) * 4
    listening = listen(timeout=300)
    long = Long(listening.port, "PUT", "/v1/documents/new", {"text": text})
    assert [call(listening.port, *each)[0] for each in QUICK] == [200] * len(QUICK)
    assert long.statuses == []
    long.thread.join(300)
    assert long.statuses == [201]


def test_a_server_whose_disk_takes_no_writes_is_not_ready_and_says_why(listen):
    listening = listen()
    assert call(listening.port, "GET", "/readyz") == (200, "ready\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel refuses to make files larger, even for root, as it does on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        status, text = call(listening.port, "GET", "/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status == 503
    detail = json.loads(text)["detail"]
    assert "cannot be written" in detail
    assert "file too large" in detail
    assert call(listening.port, "GET", "/readyz") == (200, "ready\n")


def test_a_read_only_server_is_ready_without_a_disk_to_write(listen):
    listening = listen(read_only=True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        assert call(listening.port, "GET", "/readyz")[0] == 200
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
