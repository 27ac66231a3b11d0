"""`attar bench server`: a server in a process of its own, driven over loopback from this one."""

import asyncio
import contextlib
import http.client
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from attar.bench.load import Load, drive, request_for
from attar.bench.machine import Machine, this_machine
from attar.bench.tables import quantity
from attar.client.vectors import MEDIA, pack_queries
from attar.errors import OptionError
from attar.library import Library
from attar.memory import Memory
from attar.text.stories import tell_stories

COLUMNS = ["what", "requests/s", "each/s", "p50", "p99", "target", ""]
QUESTION = "___ left the house before the night ."
SIZE, TOKENS = 128, 750
# Requests made beforehand, sent in turn.
VARIANTS = 200
START = 120.0  # seconds that a server may take to be ready
Tell = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Wanted:
    """How large a library, how long a row, how many connections."""

    documents: int = 10_000
    seconds: float = 10.0
    connections: int = 64
    reader: Path | None = None
    quick: bool = False


@dataclass(frozen=True)
class Drive:
    """A row before it is measured: requests, how much each asks for, and what is to be reached."""

    what: str
    requests: list[bytes]
    each: int
    connections: int
    least: float | None = None  # of what is asked for, a second
    p99: float | None = None  # seconds


class Row(msgspec.Struct):
    """What a server reached; `each_a_second` counts questions or lookups, of which a request may have many."""

    what: str
    requests_a_second: float
    each_a_second: float
    p50: float
    p99: float
    target: str
    met: bool | None
    statuses: dict[int, int]

    def cells(self) -> list[str]:
        """As a row of the table."""
        verdict = {None: "", True: "met", False: "not met"}[self.met]
        rates = [f"{self.requests_a_second:,.0f}", f"{self.each_a_second:,.0f}"]
        return [self.what, *rates, quantity(self.p50, "s"), quantity(self.p99, "s"), self.target, verdict]


class Report(msgspec.Struct):
    """All rows, and the machine that they were measured on."""

    machine: Machine
    rows: list[Row]


def run(wanted: Wanted, tell: Tell = lambda done, total, what: None) -> Report:
    """Fill a library, start a server on it, and drive every row."""
    machine = this_machine()
    documents = min(wanted.documents, 8) if wanted.quick else wanted.documents
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        tell(0, 1, f"reading {documents:,} documents")
        fill(Path(place) / "library", wanted.reader, documents)
        drives = drives_for(documents, wanted.connections)
        with serving(Path(place) / "library", wanted.reader) as port:
            rows = []
            for done, each in enumerate(drives):
                tell(done, len(drives), each.what)
                rows.append(measure(port, each, 0.2 if wanted.quick else wanted.seconds))
    return Report(machine, rows)


def fill(folder: Path, reader: Path | None, documents: int) -> None:
    """Read stories, and make up triangles and stored states of the same size for raw lookups."""
    numbers = np.random.default_rng(0)
    with Library(folder, reader, dtype="float32", durability="none") as library:
        stories = tell_stories(0, documents)
        library.add_many((f"story {at}", story.text) for at, story in enumerate(stories))
        made = library.reader.fingerprint
        with library.store.writing() as changes:
            for at in range(min(documents, VARIANTS)):
                states = numbers.standard_normal((TOKENS, SIZE), np.float32) / 10
                triangle = Memory.of("linear", states.T @ states, tokens=TOKENS, reader=made)
                changes.put(f"triangle {at}", triangle)
                changes.put(f"states {at}", Memory.of("softmax", states, tokens=TOKENS, reader=made))


def drives_for(documents: int, connections: int) -> list[Drive]:
    """The rows: questions and raw lookups, alone and many at a time, and softmax beside them."""
    chosen, numbers = random.Random(0), np.random.default_rng(0)
    few = max(1, connections // 8)

    def story() -> str:
        return f"story {chosen.randrange(documents)}"

    def lookups(kind: str) -> list[bytes]:
        names = [f"{kind} {at % min(documents, VARIANTS)}" for at in range(1_024)]
        vectors = numbers.standard_normal((4, 1_024, SIZE), np.float32)
        return [request_for("/v1/lookup", pack_queries(names, each), MEDIA) for each in vectors]

    def json(path: str, body: object) -> bytes:
        return request_for(path, msgspec.json.encode(body))

    one = [
        json(
            "/v1/lookup", {"document": f"triangle {at % min(documents, VARIANTS)}", "vector": vector.tolist()}
        )
        for at, vector in enumerate(numbers.standard_normal((VARIANTS, SIZE), np.float32))
    ]
    ask = [json("/v1/ask", {"document": story(), "question": QUESTION}) for _ in range(10 * VARIANTS)]
    many = [
        json("/v1/ask", {"documents": [story() for _ in range(256)], "questions": [QUESTION] * 256})
        for _ in range(VARIANTS // 10)
    ]
    return [
        Drive("/lookup, one vector, JSON", one, 1, connections, 6_000, 0.040),
        Drive("/ask, one question", ask, 1, connections, 2_500, 0.060),
        Drive("/ask, 256 questions", many, 256, few, 10_000),
        Drive("/lookup, 1,024 vectors, packed", lookups("triangle"), 1_024, few, 100_000),
        Drive(f"the same by softmax over {TOKENS} states", lookups("states"), 1_024, few),
        Drive("/ask, four times the connections", ask, 1, 4 * connections),
    ]


def measure(port: int, each: Drive, seconds: float) -> Row:
    """Drive one row, after a while that warms up; an answer that is neither good nor "busy" is a failure."""
    asyncio.run(drive(port, each.requests, each.connections, min(1.0, seconds)))
    load = asyncio.run(drive(port, each.requests, each.connections, seconds))
    if set(load.statuses) - {200, 503}:
        raise OptionError(each.what, "answers with status 200, or 503", str(dict(load.statuses)))
    return row_of(each, load)


def row_of(each: Drive, load: Load) -> Row:
    """What came of a row, and whether that is enough."""
    rate, late = load.a_second * each.each, load.percentile(99)
    wishes = [f"≥ {each.least:,.0f}/s"] if each.least is not None else []
    wishes += [f"p99 ≤ {quantity(each.p99, 's')}"] if each.p99 is not None else []
    met = None
    if each.least is not None:
        met = rate >= each.least and (each.p99 is None or late <= each.p99)
    statuses = dict(load.statuses)
    return Row(
        each.what, load.a_second, rate, load.percentile(50), late, ", ".join(wishes) or "–", met, statuses
    )


@contextlib.contextmanager
def serving(folder: Path, reader: Path | None) -> Iterator[int]:
    """A server on a library, in a process of its own, at a port that was free."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    words = ["serve", str(folder), "--port", str(port), "--log-level", "error", "--read-only"]
    words += [] if reader is None else ["--reader", str(reader)]
    process = subprocess.Popen([sys.executable, "-m", "attar", *words])
    try:
        wait_until_ready(process, port)
        yield port
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Wait until a server can answer."""
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            asked.request("GET", "/readyz")
            if asked.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            asked.close()
    raise OptionError("server", "one that starts", "one that did not", "see what it said above")
