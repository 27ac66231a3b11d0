"""Work that nobody waits for any more is stopped: its request timed out, or its client left."""

import socket
import threading
from collections.abc import Iterator

import pytest

from attar.documents.workers import FileReader
from attar.progress import StoppedError
from attar.reader.reader import Reader

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


class Watched:
    """Real work, in place of itself, that tells when it begins and when it is stopped."""

    def __init__(self, work) -> None:
        self.work, self.began, self.stopped = work, threading.Event(), threading.Event()

    def __call__(self, *arguments, **options):
        self.began.set()
        try:
            result = self.work(*arguments, **options)
            # Of a file, the documents are read as they are taken.
            return list(result) if isinstance(result, Iterator) else result
        except StoppedError:
            self.stopped.set()
            raise


@pytest.mark.slow
class TestRealWork:
    """A client sends what takes seconds, and leaves."""

    def leave(self, server, parts, work: Watched) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"".join(parts))
            assert work.began.wait(20)
        assert work.stopped.wait(20)

    @pytest.mark.parametrize(("method", "path"), [("PUT", ""), ("POST", "/append")])
    def test_a_text(self, make, listen, monkeypatch, method, path):
        made = make()
        work = Watched(Reader.read_many if method == "PUT" else Reader.extend)
        monkeypatch.setattr(Reader, work.work.__name__, lambda *given, **options: work(*given, **options))
        text = "Ann. " * 19_000
        server = listen(made)
        self.leave(server, request(f"/v1/documents/0{path}", {"text": text}, method=method), work)
        assert len(made.library.text("0")) < len(text)

    def test_a_file(self, make, listen, monkeypatch):
        work = Watched(FileReader.read_bytes)
        monkeypatch.setattr(FileReader, "read_bytes", lambda *given, **options: work(*given, **options))
        server = listen(make())
        data = b"[" * 400_000
        head = (
            "POST /v1/files?name=a.md HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
            f"content-length: {len(data)}\r\n\r\n"
        )
        self.leave(server, [head.encode(), data], work)
