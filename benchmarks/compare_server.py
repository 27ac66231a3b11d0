"""`python -m benchmarks.compare_server FIRST SECOND`: the CPU time that the servers of two checkouts take per request.

Each reads the same texts into a library of its own, as formats may differ. Both are driven in turns: whatever else runs
on the machine slows both down, and CPU time hardly depends on it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from attar.cli.output import progress_bar
from attar.errors import OptionError
from attar.paper.timing import Machine, print_plain, print_table, quantity, this_machine
from attar.progress import Progress, ignore_progress
from benchmarks.command import Json, ReaderFolder, run_command
from benchmarks.load import drive_now
from benchmarks.server_rows import ServerProcess, check_statuses, questions, serving
from benchmarks.stories import tell_stories

COLUMNS = ["what", "first", "second", "second / first", "least", "most"]
WARM_UP = 2.0


class Row(msgspec.Struct):
    """CPU seconds per request of both servers, and the ratio of each round."""

    what: str
    first: list[float]
    second: list[float]
    ratios: list[float]

    def cells(self) -> list[str]:
        """The row of the table: medians over all rounds."""
        ratios = median(self.ratios), min(self.ratios), max(self.ratios)
        times = [quantity(median(each), "s") for each in (self.first, self.second)]
        return [self.what, *times, *(f"{ratio:.3f}" for ratio in ratios)]


class Report(msgspec.Struct):
    """The machine, the checkouts and the rows."""

    machine: Machine
    checkouts: list[str]
    rows: list[Row]


def run(
    checkouts: tuple[Path, Path],
    rounds: int = 12,
    seconds: float = 2.0,
    connections: int = 16,
    documents: int = 200,
    reader: Path | None = None,
    progress: Progress = ignore_progress,
) -> Report:
    """Serve one library from both checkouts, and drive them in turns."""
    for checkout in checkouts:
        if not (checkout / "attar" / "__main__.py").is_file():
            raise OptionError.expected(
                str(checkout), "a checkout, with attar/__main__.py", "a folder without it"
            )
    requests = {"/v1/ask": questions(documents)}
    rows = [Row(path, [], [], []) for path in requests]
    with tempfile.TemporaryDirectory(prefix="attar-compare-") as place:
        texts = Path(place) / "texts"
        texts.mkdir()
        for at, story in enumerate(tell_stories(0, documents)):
            (texts / f"story {at}.txt").write_text(story.text)
        libraries = [
            _read(checkout, texts, reader, Path(place) / str(at)) for at, checkout in enumerate(checkouts)
        ]
        one, other = (
            serving(library, reader, "--read-only", checkout=checkout)
            for library, checkout in zip(libraries, checkouts, strict=True)
        )
        with one as first, other as second:
            for server in (first, second):
                for sent in requests.values():
                    drive_now(server.port, sent, connections, min(WARM_UP, seconds))
            for at in range(rounds):
                progress("rounds", at, rounds)
                for row in rows:
                    # Who comes first changes: the machine may be quicker for one of them.
                    servers = (first, second) if at % 2 == 0 else (second, first)
                    used = {each: _cpu(each, requests[row.what], connections, seconds) for each in servers}
                    row.first.append(used[first])
                    row.second.append(used[second])
                    row.ratios.append(used[second] / used[first] if used[first] else 1.0)
    return Report(this_machine(), [str(each) for each in checkouts], rows)


def _read(checkout: Path, texts: Path, reader: Path | None, library: Path) -> Path:
    """Read texts into a library with the command of a checkout."""
    command = [sys.executable, "-m", "attar", "add", str(library), *map(str, sorted(texts.iterdir()))]
    command += [] if reader is None else ["--reader", str(reader)]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    subprocess.run(command, check=True, capture_output=True, cwd=checkout, env=environment)
    return library


def _cpu(server: ServerProcess, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    """The CPU seconds that a server takes for each of the requests."""
    before = server.cpu_seconds()
    load = drive_now(server.port, requests, connections, seconds)
    check_statuses("load", load, [200])
    return (server.cpu_seconds() - before) / max(1, load.statuses[200])


def main(
    first: Annotated[Path, typer.Argument(help="A checkout, such as a git worktree of an earlier commit.")],
    second: Annotated[Path, typer.Argument(help="The checkout that is compared with it.")],
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in each of which both are driven.")] = 12,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per route, server and round.")] = 2.0,
    connections: Annotated[int, typer.Option(min=1, help="Concurrent connections.")] = 16,
    documents: Annotated[int, typer.Option(min=1, help="Documents in the library.")] = 200,
    reader: ReaderFolder = None,
    json: Json = False,
) -> None:
    """Compare the CPU time per request of the servers of two checkouts."""
    with progress_bar() as progress:
        checkouts = first.absolute(), second.absolute()
        report = run(checkouts, rounds, seconds, connections, documents, reader, progress)
    if json:
        print(msgspec.json.encode(report).decode())
        return
    console = Console()
    print_plain(console, f"{report.machine}; {rounds} rounds, CPU time per request, medians\n")
    print_table(console, COLUMNS, [row.cells() for row in report.rows])


if __name__ == "__main__":
    run_command(main)
