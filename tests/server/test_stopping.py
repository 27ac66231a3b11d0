"""Work that nobody waits for any more is stopped: its request timed out, or its client left."""

import socket

import pytest

from .conftest import ASK, Hold, request


@pytest.fixture
def endless(make, monkeypatch):
    """A served library whose answers never come, and the work that is asked for them."""

    def start(method: str, **settings):
        made = make(**settings)
        return made, Hold(made.library, monkeypatch, method, can_be_stopped=True)

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
            assert work.begun.wait(20)
        assert work.stopped.wait(20)
