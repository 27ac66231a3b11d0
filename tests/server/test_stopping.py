"""Work that nobody waits for any more is stopped: its request timed out, or its client left."""

import socket
import threading
import time

import pytest

from attar.progress import StoppedError, check_stopped

from .conftest import ASK, request


class Endless:
    """Work that goes on until it is stopped, in place of a method of the library."""

    def __init__(self) -> None:
        self.began, self.stopped = threading.Event(), threading.Event()

    def __call__(self, *arguments, **options):
        self.began.set()
        try:
            while True:
                check_stopped()
                time.sleep(0.01)
        except StoppedError:
            self.stopped.set()
            raise


@pytest.fixture
def endless(make, monkeypatch):
    """A served library whose answers never come, and the work that is asked for them."""

    def start(method: str, **settings):
        made, work = make(**settings), Endless()
        monkeypatch.setattr(made.library, method, work)
        return made, work

    return start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("ask_each", "/v1/ask", ASK),
        ("ask_all_many", "/v1/ask", {"question": "Who left?"}),
        ("search", "/v1/search", {"query": "letter"}),
    ],
    ids=["one document", "all documents", "search"],
)
class TestGivenUp:
    def test_after_the_time_limit(self, endless, serve, method, path, body):
        made, work = endless(method, timeout=0.5)
        assert serve(made).post(path, body).status_code == 504
        assert work.stopped.wait(20)

    def test_when_the_client_leaves(self, endless, listen, method, path, body):
        made, work = endless(method)
        server = listen(made)
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"".join(request(path, body)))
            assert work.began.wait(20)
        assert work.stopped.wait(20)
