"""Target: bytes sent to a live server. Requests are real ones with parts changed, cut, doubled or in pieces."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from attar.library.library import Library
from attar.store.store import Store
from benchmarks.fuzz.mutations import Json, mutated_bytes, mutated_json, texts
from benchmarks.fuzz.target import Target
from benchmarks.server import ServerProcess, serving
from benchmarks.tiny_reader import save_tiny_reader
from tests.documents.document_files import zip_of

# Memory may grow while caches fill; a leak of a request's size would pass this within the hour.
_GROWTH = 1.5
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Form(bytes):
    """A file as browsers send it."""

    def __new__(cls, name: bytes, content: bytes) -> "Form":
        """The form's only file."""
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n' % name
        return super().__new__(cls, head + content + b"\r\n--x--\r\n")


_SUBSET: Json = {"names": ["kept", "other"], "folder": "letters", "tags": ["new"], "since": "2024-02-29"}
# Bytes are a file's; anything else is sent as JSON.
BODIES: list[tuple[str, str, Json | bytes]] = [
    ("POST", "/v1/ask", {"document": "kept", "question": "Who left?", "top": 3}),
    ("POST", "/v1/ask", {"documents": ["kept", "other"], "questions": ["Who left?", "Who met Bob?"]}),
    ("POST", "/v1/ask", {"question": "Who left?", "top": 2}),
    ("POST", "/v1/ask", {"questions": ["Who left?", "Who met Bob?"]}),
    ("POST", "/v1/ask", {"question": "Who left?", "look": 1, "within": _SUBSET}),
    ("POST", "/v1/answers", {"question": "Who left?", "top": 3, "look": 1, "within": _SUBSET}),
    ("POST", "/v1/search", {"query": "Who left?", "top": 2, "passages": True, "within": _SUBSET}),
    ("POST", "/v1/verify", {"quote": "Then Ann met Bob.", "within": _SUBSET}),
    ("POST", "/v1/verify", {"quote": "Then Ann never met Bob, and left."}),
    ("POST", "/v1/tag", {"documents": ["kept"], "add": ["new", "a b"], "remove": ["old"]}),
    ("POST", "/v1/files?name=a.md&replace=1", b"# Ann\n\nThen *Bob* left."),
    ("POST", "/v1/files?name=a.zip&replace=1", zip_of({"a.txt": b"Bob left.", "b.html": b"<p>Ann met Bob."})),
    ("POST", "/v1/files?name=b.txt&source=here%3A%2Fletters%2Fb.txt&tag=new", b"Then Bob left."),
    ("POST", "/v1/files", Form(b"a.md", b"# Ann\n\nThen *Bob* left.")),
    ("POST", "/v1/merge", {"new": "both", "documents": ["kept", "other"], "title": "", "replace": True}),
    ("POST", "/v1/remove", {"documents": ["both"]}),
    ("PUT", "/v1/documents/other", {"text": "Then Ann met Bob.", "title": "Ann"}),
    ("POST", "/v1/documents/other/append", {"text": "Bob left."}),
    ("DELETE", "/v1/documents/both", None),
    ("GET", "/v1/documents?after=a&limit=2", None),
    ("GET", "/v1/jobs", None),
    ("GET", f"/v1/jobs/{'0' * 32}", None),
    ("DELETE", f"/v1/jobs/{'0' * 32}", None),
    ("GET", "/v1/status", None),
    ("GET", "/v1/documents/kept", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
    ("GET", "/", None),
]
# What a text of any characters is put after.
_PATHS = (
    "/v1/documents/", "/v1/documents?after=", "/v1/documents?folder=", "/v1/documents?since=", "/v1/documents?tag=",
    "/v1/files?name=a.txt&replace=1&source=", "/v1/files?name=", "/v1/files?name=a.txt&tag=", "/v1/jobs/", "/",
    "/%76%31/", "//",
)  # fmt: skip
_HEADERS = st.sampled_from(
    [
        b"Content-Length: 0", b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 5",
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity",
        b"Expect: 100-continue", b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c", b"Upgrade: websocket",
        b"Host: evil.example", b"Host:", b"Authorization: Bearer x", b"Authorization: \xff",
        b"Content-Type: text/plain",        b"Content-Type: application/octet-stream", b"Accept: */*;q=0",
        b"Prefer: respond-async", b"Content-Type: multipart/form-data; boundary=x", b"X-Request-Id: a\tb",
        b"Cookie: " + b"a" * 9000,
        b"Idempotency-Key: " + b"k" * 300, b"Origin: null", b"Range: bytes=0-1", b"\x00: a",
        b"A\x1b[31m: b", b" folded",
    ]
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[bytes], bool]:
    """The parts that are sent one after the other, and whether the sending side is closed then."""
    whole = b"".join(draw(_request()) for _ in range(draw(st.sampled_from([1, 1, 1, 2, 5]))))
    if draw(st.integers(0, 3)) == 0:
        whole = draw(mutated_bytes(whole, 3))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    edges = [0, *cuts, len(whole)]
    parts = [whole[start:stop] for start, stop in pairwise(edges)]
    return parts, draw(st.booleans())


@st.composite
def _request(draw: st.DrawFn) -> bytes:
    method, path, body = draw(st.sampled_from(BODIES))
    if draw(st.integers(0, 4)) == 0:
        method = draw(
            st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "FOO"])
        )
    if draw(st.integers(0, 4)) == 0:
        name = quote(draw(texts)[:300].encode("utf-8", "surrogatepass"), safe="")
        path = draw(st.sampled_from(_PATHS)) + name
    if isinstance(body, bytes):
        data = draw(mutated_bytes(body))
    else:
        data = b"" if body is None else _dumped(draw(mutated_json(body)))
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: 127.0.0.1", _media_type(body)]
    lines += draw(st.lists(_HEADERS, max_size=3)) if draw(st.integers(0, 2)) == 0 else []
    if draw(st.integers(0, 3)) == 0:
        lines.append(b"Transfer-Encoding: chunked")
        trailer = draw(st.sampled_from([b"", b"", b"Host: evil\r\n", b"A: b\r\n" * 50]))
        size = draw(st.sampled_from([len(data), len(data), len(data) + 1, 0, 2**40]))
        data = b"%x\r\n%s\r\n0\r\n%s\r\n" % (size, data, trailer)
    elif data:
        lines.append(b"Content-Length: %d" % len(data))
    return b"\r\n".join(lines) + b"\r\n\r\n" + data


def _media_type(body: Json | bytes) -> bytes:
    if isinstance(body, Form):
        return b"Content-Type: multipart/form-data; boundary=x"
    return b"Content-Type: application/" + (b"octet-stream" if isinstance(body, bytes) else b"json")


def _dumped(value: Json) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except ValueError:
        return b"null"


class Server:
    """`attar serve` in a process of its own, on a library with a document."""

    def __init__(self, served: ServerProcess) -> None:
        self.served = served
        for _ in range(20):  # caches fill
            for part in BODIES:
                self.send([_plain(*part)], close=False, patience=20)
        self.memory = served.memory()

    def send(self, parts: list[bytes], close: bool, patience: float = 0.3) -> bytes:
        """What comes back until the server closes, or says nothing for a while."""
        answer = b""
        address = ("127.0.0.1", self.served.port)
        with socket.create_connection(address, timeout=30) as connection, suppress(OSError):
            for part in parts:
                connection.sendall(part)
            if close:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(patience)
            while more := connection.recv(65536):
                answer += more
        return answer

    def check(self, answer: bytes) -> None:
        """Refuse an answer of 5xx, and a server that has ended or does not answer any more."""
        wrong = {int(status) for status in _STATUS.findall(answer) if status[:1] == b"5"} - {503}
        if wrong:
            raise AssertionError(f"status {wrong}: {answer[:600]!r}")
        health = self.send([_plain("GET", "/healthz", None)], close=False, patience=20)
        if not health.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"/healthz: {health[:300]!r}")

    def answer(
        self, method: str, path: str, body: Json | bytes = None, header: str = "Accept: */*"
    ) -> dict[str, Any]:
        """The JSON that answers a request; empty if there is none, or the request was refused."""
        answer = self.send([_plain(method, path, body, header)], close=False, patience=300)
        self.check(answer)
        head, _, told = answer.partition(b"\r\n\r\n")
        found: dict[str, Any] = json.loads(told) if b"application/json" in head else {}
        return found


def _plain(method: str, path: str, body: Json | bytes, header: str = "Accept: */*") -> bytes:
    data = body if isinstance(body, bytes) else b"" if body is None else _dumped(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", header]
    head = "\r\n".join([*lines, f"Content-Length: {len(data)}\r\n"])
    return b"%s%s\r\n\r\n%s" % (head.encode(), _media_type(body), data)


@contextmanager
def checked_server(folder: Path) -> Iterator[Server]:
    """A server whose memory, exit code and store are checked at the end."""
    reader, store = save_tiny_reader(folder / "reader"), folder / "store"
    with Library(store, reader) as library:
        library.add("kept", "Then Ann met Bob. Bob left.")
    limits = ("--max-text", "300000", "--max-body", "300000", "--timeout", "240")
    with serving(store, reader, *limits) as served:
        server = Server(served)
        yield server
        if (used := served.memory()) > _GROWTH * server.memory:
            raise AssertionError(f"memory grew from {server.memory:,} to {used:,} bytes")
    with Store.open(store, read_only=True) as opened:
        for fault in opened.check():
            raise AssertionError(f"store check: {fault.line}")


@contextmanager
def http_target(folder: Path) -> Iterator[Target]:
    """No 5xx but 503, still answering afterwards, its memory bounded and its store whole."""
    with checked_server(folder) as server:

        def check(example: tuple[list[bytes], bool]) -> None:
            server.check(server.send(*example))

        yield Target(requests(), check)
