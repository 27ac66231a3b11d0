"""`python -m benchmarks.floods`: hostile clients against a server in its own process, and its memory afterwards."""

import contextlib
import http.client
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from attar.cli.output import progress_bar
from attar.paper.compare import aligned_table
from attar.paper.table1 import quantity, this_machine
from benchmarks.command import ReaderFolder, run_command
from benchmarks.server import QUESTION, ServerProcess, fill, growth_of, json_request, request_for, serving

COLUMNS = ["flood", "connections", "sent", "before", "peak", "after", "peak growth", "health", ""]
# Memory during a flood and afterwards may be larger than before by this share.
GROWTH = 0.10
# The share of health checks, each on a new connection, that must be answered during a flood.
HEALTHY = 0.9
DOCUMENTS = 8
_PART = 2**18

_ASK = json_request("/v1/ask", {"document": "story 0", "question": QUESTION})
_GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
_OPEN = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
_CHUNKED = (
    b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)
_NO_BODY = (
    b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: 1000000000000\r\n\r\n"
)
_LONG_FIELD = request_for("/v1/ask", b'{"%s": 1}' % (b"x" * 3_000_000))
_DEEP = request_for("/v1/ask", b'{"x": ' + b"[" * 1_000_000)


@dataclass(frozen=True)
class Flood:
    """What each of the connections sends: `first` once, then `repeated` until the server closes it, then all again."""

    what: str
    first: bytes
    repeated: bytes = b""
    connections: int = 4
    # Between two parts of `repeated`, to hold connections rather than to fill them.
    pause: float = 0.0
    # Whether answers are read. Otherwise the system's buffers fill, and then the server's.
    reads: bool = False


def _many(part: bytes) -> bytes:
    return part * max(1, _PART // len(part))


FLOODS = (
    Flood("pipelined GET /healthz, answers not read", b"", _many(_GET)),
    Flood("pipelined POST /v1/ask, answers not read", b"", _many(_ASK)),
    Flood("bad request pipelined after a question", _ASK + b"\x00bad\r\n\r\n", connections=300, reads=True),
    Flood("endless trailers", _CHUNKED, _many(b"x: y\r\n")),
    Flood("one endless trailer", _CHUNKED + b"x: ", _many(b"y")),
    Flood("endless headers", _OPEN, _many(b"x: y\r\n")),
    Flood("one endless header", _OPEN + b"x: ", _many(b"y")),
    Flood("endless path", b"GET /", _many(b"y")),
    Flood("endless chunk extension", _CHUNKED[:-6] + b"1;", _many(b"y")),
    Flood("field names of 3 MB", b"", _LONG_FIELD, reads=True),
    Flood("JSON nested a million deep", b"", _DEEP, reads=True),
    Flood("connections that send nothing", b"", connections=2_000, reads=True),
    Flood("refused bodies that are not sent", _NO_BODY, connections=2_000, reads=True),
    Flood("heads sent a byte at a time", _OPEN, b"x", connections=2_000, pause=1.0, reads=True),
)


@dataclass(frozen=True)
class Row:
    """A flood: bytes sent, the server's memory, health checks answered meanwhile, and whether it answers as before."""

    what: str
    connections: int
    sent: int
    before: int
    peak: int
    after: int
    healthy: float
    note: str

    @property
    def growth(self) -> float:
        """The share by which memory has grown at most."""
        return growth_of(self.before, self.peak)

    @property
    def met(self) -> bool:
        """Whether memory stayed, and it answered meanwhile and afterwards."""
        return not self.note and self.growth <= GROWTH and self.healthy >= HEALTHY

    def cells(self) -> list[str]:
        """The row of the table."""
        sizes = [quantity(size, "B") for size in (self.sent, self.before, self.peak, self.after)]
        shares = [f"{self.growth:+.1%}".replace("%", " %"), f"{self.healthy:.0%}".replace("%", " %")]
        return [self.what, str(self.connections), *sizes, *shares, "met" if self.met else "missed"]


def measure(server: ServerProcess, flood: Flood, seconds: float) -> Row:
    """Flood a server; its memory before, at most and afterwards, and whether it answers meanwhile and afterwards."""
    for _ in range(200):
        _status_of(server, _ASK)
    before = peak = server.memory()
    end = time.monotonic() + seconds
    sent = [0] * min(flood.connections, 50)
    threads = [
        threading.Thread(target=_send_until, args=(server.port, flood, end, sent, at))
        for at in range(len(sent))
    ]
    for thread in threads:
        thread.start()
    checks, passed = 0, 0
    while any(thread.is_alive() for thread in threads):
        peak = max(peak, server.memory())
        with contextlib.suppress(OSError, http.client.HTTPException):
            checks += 1
            passed += _status_of(server, _GET) == 200
        time.sleep(0.05)
    healthy = passed / checks if checks else 1.0
    note = "" if _answers_again(server) else "questions are no longer answered"
    after = server.memory()
    return Row(flood.what, flood.connections, sum(sent), before, max(peak, after), after, healthy, note)


def _answers_again(server: ServerProcess) -> bool:
    """Whether a question is answered; for a moment the queue may still be full of the flood's."""
    for _ in range(20):
        if _status_of(server, _ASK) == 200:
            return True
        time.sleep(0.1)
    return False


def _status_of(server: ServerProcess, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        response.read()
        return response.status


def _send_until(port: int, flood: Flood, end: float, sent: list[int], at: int) -> None:
    """Keep this thread's share of the connections open, and sending, until the time is over."""
    held: list[_Connection] = []
    share = flood.connections // len(sent)
    while time.monotonic() < end:
        held = [connection for connection in held if not connection.closed]
        with contextlib.suppress(OSError):
            while len(held) < share and time.monotonic() < end:
                held.append(_Connection(port, flood))
        busy = [connection.work() for connection in held]
        sent[at] += sum(busy)
        # A thread whose connections all wait must not take the processor from the server.
        time.sleep(flood.pause if flood.pause else 0.0 if any(busy) else 0.01)
    for connection in held:
        connection.close()


class _Connection:
    """One of the connections; it never waits."""

    def __init__(self, port: int, flood: Flood) -> None:
        self._flood, self._left, self.closed = flood, memoryview(flood.first or flood.repeated), False
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._socket.setblocking(False)

    def work(self) -> int:
        """Send what the system takes, and read if this flood reads; the number of bytes sent."""
        sent = 0
        try:
            if not self._left:
                self._left = memoryview(self._flood.repeated)
            with contextlib.suppress(BlockingIOError):
                sent = self._socket.send(self._left)
                self._left = self._left[sent:]
            if self._flood.reads:
                with contextlib.suppress(BlockingIOError):
                    if not self._socket.recv(_PART):
                        self.close()
        except OSError:
            self.close()
        return sent

    def close(self) -> None:
        """Close it; the server sees that at once."""
        self.closed = True
        self._socket.close()


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per flood.")] = 60.0,
    reader: ReaderFolder = None,
) -> None:
    """Flood servers, each flood a new one; memory must stay within 10 % of before, and it must answer."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="attar-floods-") as place, progress_bar() as progress:
        folder = Path(place) / "library"
        reader = fill(folder, reader, DOCUMENTS)
        for done, flood in enumerate(FLOODS):
            progress(flood.what, done, len(FLOODS))
            with serving(folder, reader) as server:
                rows.append(measure(server, flood, seconds))
    print(f"{this_machine()}; {seconds:g} s each\n")
    print(aligned_table(COLUMNS, [row.cells() for row in rows]))
    print("".join(f"\n- {row.what}: {row.note}" for row in rows if row.note))
    if not all(row.met for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
