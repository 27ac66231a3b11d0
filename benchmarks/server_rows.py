"""Rows of the server benchmark: a server in its own process, the requests, and what they reached."""

import contextlib
import http.client
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from attar.errors import OptionError
from attar.paper.timing import quantity
from benchmarks.load import Load, drive_by_wrk, drive_now, find_wrk, request_for

COLUMNS = ["what", "requests/s", "items/s", "p50", "p99", "target", ""]
QUESTION = "Who left the house before the night?"
# Different requests, sent in turn.
VARIANTS = 200
# The shortest load, in seconds, for which wrk is used.
WRK_SECONDS = 1.0
# Loading the default reader takes seconds, and minutes where a dozen other programs run.
STARTUP_SECONDS = 600.0


@dataclass(frozen=True)
class ServerProcess:
    """The port and the process of a running server."""

    port: int
    process: int

    def memory(self) -> int | None:
        """The resident memory in bytes; None on systems other than Linux."""
        status = Path(f"/proc/{self.process}/status")
        match = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return int(match[1]) * 1024 if match else None

    def cpu_seconds(self) -> float:
        """The CPU time used so far; 0 on systems other than Linux."""
        stat = Path(f"/proc/{self.process}/stat")
        if not stat.exists():
            return 0.0
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/metrics")
            metrics = connection.getresponse().read().decode()
        finally:
            connection.close()
        match = re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)
        if match is None:
            raise OptionError.expected("/metrics", name, "no metric of that name")
        return float(match[1])


@contextlib.contextmanager
def serving(
    folder: Path, reader: Path | None, *options: str, checkout: Path | None = None
) -> Iterator[ServerProcess]:
    """A server on a library, at a free port, with options of `attar serve`; perhaps that of another checkout."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "attar", "serve", str(folder), "--port", str(port)]
    command += ["--log-level", "error", *options, *([] if reader is None else ["--reader", str(reader)])]
    env = None if checkout is None else os.environ | {"PYTHONPATH": str(checkout)}
    process = subprocess.Popen(command, cwd=checkout, env=env)
    try:
        _wait_until_ready(process, port)
        yield ServerProcess(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + STARTUP_SECONDS
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise OptionError.expected("server", "one that starts", "one that did not", "see its output above")


@dataclass(frozen=True)
class Drive:
    """A row before it is measured: its requests, the items in each, and the targets."""

    what: str
    requests: list[bytes]
    items: int
    connections: int
    least: float | None = None  # items per second
    p99: float | None = None  # seconds


class Row(msgspec.Struct):
    """What a server reached; an item is a question, of which a request may have many."""

    what: str
    requests_per_second: float | None
    items_per_second: float | None
    p50: float | None
    p99: float | None
    target: str = "–"
    met: bool | None = None
    statuses: dict[int, int] = {}
    note: str = ""

    def cells(self) -> list[str]:
        """The row of the table."""
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        rates = (self.requests_per_second, self.items_per_second)
        shown = ["–" if rate is None else f"{rate:,.0f}" for rate in rates]
        return [self.what, *shown, quantity(self.p50, "s"), quantity(self.p99, "s"), self.target, verdict]


def json_request(path: str, body: object, method: str = "POST") -> bytes:
    """A request with a JSON body."""
    return request_for(path, msgspec.json.encode(body), method=method)


def questions(documents: int, count: int = 10 * VARIANTS) -> list[bytes]:
    """Requests with one question each, to random documents."""
    rng = random.Random(0)
    return [
        json_request("/v1/ask", {"document": f"story {rng.randrange(documents)}", "question": QUESTION})
        for _ in range(count)
    ]


def batches_of_questions(documents: int) -> list[bytes]:
    """Requests with 256 questions each."""
    rng = random.Random(1)
    bodies = [
        {
            "documents": [f"story {rng.randrange(documents)}" for _ in range(256)],
            "questions": [QUESTION] * 256,
        }
        for _ in range(VARIANTS // 10)
    ]
    return [json_request("/v1/ask", body) for body in bodies]


def drives_for(documents: int, connections: int) -> list[Drive]:
    """The rows: questions alone and in batches."""
    few = max(1, connections // 8)
    return [
        Drive("/ask, one question", questions(documents), 1, connections, 2_500, 0.060),
        Drive("/ask, 256 questions", batches_of_questions(documents), 256, few, 10_000),
    ]


def measure(server: ServerProcess, drive: Drive, seconds: float) -> Row:
    """Drive one row after a warm-up; any status but 200 is an error.

    During the warm-up, a server may refuse requests: the length of its queue follows what it has answered so far.
    """
    warm_up = drive_now(server.port, drive.requests, drive.connections, min(1.0, seconds))
    check_statuses(drive.what, warm_up, [200, 503])
    if find_wrk() is None or seconds < WRK_SECONDS:
        load = drive_now(server.port, drive.requests, drive.connections, seconds)
        check_statuses(drive.what, load, [200])
        return row_of(drive, load)
    wrk = drive_by_wrk(server.port, drive.requests, drive.connections, seconds)
    if wrk.refused or wrk.lost:
        raise OptionError.expected(
            drive.what, "status 200 only", f"{wrk.refused:,} errors and {wrk.lost:,} lost"
        )
    return _judge(drive, wrk.answers / wrk.seconds, wrk.p50, wrk.p99, {200: wrk.answers})


def check_statuses(what: str, load: Load, allowed: Sequence[int]) -> None:
    """Refuse to count a load with other statuses."""
    if set(load.statuses) - set(allowed):
        raise OptionError.expected(what, f"responses with status {allowed}", str(dict(load.statuses)))


def row_of(drive: Drive, load: Load) -> Row:
    """The row of a load by the built-in client."""
    p50, p99 = load.percentile(50), load.percentile(99)
    return _judge(drive, load.per_second, p50, p99, dict(load.statuses))


def _judge(drive: Drive, per_second: float, p50: float, p99: float, statuses: dict[int, int]) -> Row:
    """The row with its target, and whether it is met."""
    rate = per_second * drive.items
    targets = [f"≥ {drive.least:,.0f}/s"] if drive.least is not None else []
    targets += [f"p99 ≤ {quantity(drive.p99, 's')}"] if drive.p99 is not None else []
    met = None
    if drive.least is not None:
        met = rate >= drive.least and (drive.p99 is None or p99 <= drive.p99)
    return Row(drive.what, per_second, rate, p50, p99, ", ".join(targets) or "–", met, statuses)
