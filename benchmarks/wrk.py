"""`python -m benchmarks.wrk`: questions per second over HTTP, with `wrk` as the client (Debian's package wrk).

Beside rate and latencies it prints the processor time that the server takes per question: that says what cores can do
where other programs, such as wrk itself, use them too.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from attar.errors import MissingError
from attar.paper.compare import aligned_table
from attar.paper.table1 import this_machine
from attar.reader.folders import ReaderFolder as Reader
from benchmarks.command import ReaderFolder, run_command
from benchmarks.server import QUESTION, ServerProcess, family_of, fill, serving


class Row(NamedTuple):
    """How many sentences are read again, and what two cores must do: answers per second, seconds."""

    look: int
    connections: int
    least: float
    latest: float


_ROWS = (Row(0, 64, 700.0, 0.150), Row(1, 16, 90.0, 1.0))
_SCRIPT = """
local number = 0
request = function()
  number = number + 1
  local body = string.gsub([[{body}]], "NUMBER", number % {documents})
  return wrk.format("POST", "/v1/ask", {{["content-type"] = "application/json"}}, body)
end
"""
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class Measured(NamedTuple):
    """Answers per second, latencies, how many requests were refused, and the processor time of the server for each."""

    rate: float
    p50: float
    p99: float
    refused: int
    cpu: float


def measure(server: ServerProcess, script: Path, connections: int, seconds: float) -> Measured:
    """Run wrk for some seconds."""
    command = ["wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds:g}s", "--latency"]
    command += ["--timeout=30s", f"--script={script}", f"http://127.0.0.1:{server.port}"]
    before = cpu_seconds(server.process)
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    requests, refused, rate, p50, p99 = read_report(printed)
    answered = 1 - refused / max(1, requests)
    return Measured(
        rate * answered, p50, p99, refused, (cpu_seconds(server.process) - before) / max(1, requests)
    )


def read_report(printed: str) -> tuple[int, int, float, float, float]:
    """Requests, those refused, requests per second, and the latencies p50 and p99 in seconds.

    >>> read_report('''    50%   40.25ms
    ...    99%    1.21s
    ...   7000 requests in 10.00s, 1.00MB read
    ...   Non-2xx or 3xx responses: 3
    ... Requests/sec:    700.00''')
    (7000, 3, 700.0, 0.04025, 1.21)
    """
    latencies = {
        share: float(number) * _SECONDS[unit]
        for share, number, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s|m)\b", printed)
    }
    numbers = [
        float(found[1]) if (found := re.search(pattern, printed)) else 0.0
        for pattern in (r"(\d+) requests in", r"Non-2xx or 3xx responses: (\d+)", r"Requests/sec:\s+([\d.]+)")
    ]
    return int(numbers[0]), int(numbers[1]), numbers[2], latencies["50"], latencies["99"]


def cpu_seconds(process: int) -> float:
    """The processor time of a process and of those that it has started."""
    stats = (Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in family_of(process))
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def main(
    seconds: Annotated[float, typer.Option(min=1, help="Seconds per row.")] = 15.0,
    documents: Annotated[int, typer.Option(min=1, help="Documents in the library.")] = 1_000,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the server.")] = 2,
    reader: ReaderFolder = None,
) -> None:
    """Measure `POST /v1/ask` with no sentence and with one read again."""
    if shutil.which("wrk") is None:
        raise MissingError("the program wrk is not installed", "apt-get install wrk")
    rows = []
    with tempfile.TemporaryDirectory(prefix="attar-wrk-") as place:
        folder, script = Path(place) / "library", Path(place) / "questions.lua"
        reader = fill(folder, Reader.open(reader).path, documents)
        with serving(folder, reader, "--workers", str(workers)) as server:
            for row in _ROWS:
                asked = {"document": "story NUMBER", "question": QUESTION, "look": row.look}
                body = msgspec.json.encode(asked).decode()
                script.write_text(_SCRIPT.format(body=body, documents=documents))
                measure(server, script, row.connections, 1)  # documents into caches
                found = measure(server, script, row.connections, seconds)
                is_met = found.rate >= row.least and found.p99 <= row.latest and not found.refused
                cells = [f"look {row.look}, {row.connections} connections", f"{found.rate:,.0f}/s"]
                cells += [f"{1e3 * latency:.0f} ms" for latency in (found.p50, found.p99)]
                cells += [f"{found.refused:,}", f"{1e3 * found.cpu:.2f} ms"]
                target = f"≥ {row.least:g}/s, p99 ≤ {1e3 * row.latest:g} ms"
                rows.append([*cells, target, "met" if is_met else "missed"])
    print(f"{this_machine()}; {workers} processes\n")
    print(aligned_table(["", "answers", "p50", "p99", "refused", "CPU each", "target", ""], rows))


if __name__ == "__main__":
    run_command(main)
