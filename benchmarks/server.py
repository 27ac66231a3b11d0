"""`python -m benchmarks.server`: a server in its own process, driven over loopback from this one."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from attar.cli.output import progress_bar
from attar.library.library import Library
from attar.paper.timing import Machine, print_plain, print_table, quantity, this_machine
from attar.progress import Progress, ignore_progress
from benchmarks.command import Json, Quick, ReaderFolder, run_command
from benchmarks.load import Load, drive_now
from benchmarks.server_rows import ServerProcess, batches_of_questions, check_statuses, questions, serving
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import save_tiny_reader

COLUMNS = ["what", "requests/s", "questions/s", "p50", "p99", "target", ""]
# Rounds of batched and unbatched questions in turns, and the ratio that batching should reach.
ROUNDS = 3
BATCHED_OVER_UNBATCHED = 2.0
# Memory counts as constant if it grows by at most this share.
GROWTH = 0.05


@dataclass(frozen=True)
class Drive:
    """A row before it is measured: its requests, the questions in each, and the targets."""

    what: str
    requests: list[bytes]
    questions: int
    connections: int
    least: float  # questions per second
    p99: float | None = None  # seconds


class Row(msgspec.Struct):
    """What a server reached."""

    what: str
    requests_per_second: float
    questions_per_second: float
    p50: float
    p99: float
    target: str
    met: bool | None

    def cells(self) -> list[str]:
        """The row of the table."""
        rates = [f"{rate:,.0f}" for rate in (self.requests_per_second, self.questions_per_second)]
        verdict = {None: "not judged", True: "met", False: "missed"}[self.met]
        return [self.what, *rates, quantity(self.p50, "s"), quantity(self.p99, "s"), self.target, verdict]


class Report(msgspec.Struct):
    """All rows, and the machine."""

    machine: Machine
    rows: list[Row]


def run(
    documents: int,
    seconds: float,
    connections: int,
    reader: Path | None,
    progress: Progress = ignore_progress,
) -> Report:
    """Fill a library, start a server on it, and drive every row."""
    machine = this_machine()
    drives = [
        Drive("/ask, one question", questions(documents), 1, connections, 2_500, 0.060),
        Drive("/ask, 256 questions", batches_of_questions(documents), 256, max(1, connections // 8), 10_000),
    ]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        progress(f"reading {documents:,} documents", 0, 1)
        folder = Path(place) / "library"
        reader = fill(folder, reader, documents)
        with serving(folder, reader, "--read-only") as server:
            for drive in drives:
                progress(drive.what, len(rows), 4)
                rows.append(measure(server, drive, seconds))
            pair_drive = replace(drives[0], what=f"{drives[0].what}, --workers 2")
            progress(pair_drive.what, len(rows), 4)
            with serving(folder, reader, "--read-only", "--workers", "2") as pair:
                # The second worker may be ready a moment after the first.
                drive_now(pair.port, pair_drive.requests, connections, min(3.0, seconds))
                rows.append(measure(pair, pair_drive, seconds))
            progress("batched compared with unbatched", len(rows), 4)
            with serving(folder, reader, "--read-only", "--max-batch", "1") as unbatched:
                rows.append(batched_vs_unbatched(server, unbatched, drives[0], seconds))
    return Report(machine, rows)


def measure(server: ServerProcess, drive: Drive, seconds: float) -> Row:
    """Drive one row after a warm-up; any status but 200 is an error.

    During the warm-up, a server may refuse requests: the length of its queue follows what it has answered so far.
    """
    warm_up = drive_now(server.port, drive.requests, drive.connections, min(1.0, seconds))
    check_statuses(drive.what, warm_up, [200, 503])
    load = drive_now(server.port, drive.requests, drive.connections, seconds)
    check_statuses(drive.what, load, [200])
    return row_of(drive, load)


def row_of(drive: Drive, load: Load) -> Row:
    """The row with its target, and whether it is met."""
    rate, p50, p99 = load.per_second * drive.questions, load.percentile(50), load.percentile(99)
    target, met = f"≥ {drive.least:,.0f}/s", rate >= drive.least
    if drive.p99 is not None:
        target, met = f"{target}, p99 ≤ {quantity(drive.p99, 's')}", met and p99 <= drive.p99
    return Row(drive.what, load.per_second, rate, p50, p99, target, met)


def batched_vs_unbatched(
    server: ServerProcess, unbatched: ServerProcess, drive: Drive, seconds: float
) -> Row:
    """The row of unbatched questions, and the ratio of batched to unbatched ones, measured in turns."""
    ratios: list[float] = []
    for _ in range(ROUNDS):
        batched = measure(server, drive, seconds / 2)
        alone = measure(unbatched, drive, seconds / 2)
        ratios.append(batched.requests_per_second / (alone.requests_per_second or 1.0))
    ratio = median(ratios)
    alone.what = "/ask, one question, unbatched (--max-batch 1)"
    alone.target = f"batched ≥ {BATCHED_OVER_UNBATCHED:g} × this: {ratio:.2f} ×"
    alone.met = ratio >= BATCHED_OVER_UNBATCHED
    return alone


def growth_of(before: int | None, after: int | None) -> float | None:
    """The share by which memory has grown.

    >>> growth_of(100, 110), growth_of(None, 1)
    (0.1, None)
    """
    return None if before is None or after is None else (after - before) / before


def memory_text(before: int | None, growth: float | None) -> str:
    """Memory and its growth as text.

    >>> memory_text(500_000_000, 0.012)
    '500 MB, +1.2 %'
    """
    if before is None or growth is None:
        return "unknown on this system"
    return f"{quantity(before, 'B')}, {growth:+.1%}".replace("%", " %")


def fill(folder: Path, reader: Path | None, documents: int) -> Path:
    """Read stories into a library with a reader, or a tiny one beside it; the reader's path."""
    if reader is None:
        reader = save_tiny_reader(folder.with_name("reader"))
    with Library(folder, reader, durability="relaxed") as library:
        stories = tell_stories(0, documents)
        library.add_many((f"story {at}", story.text) for at, story in enumerate(stories))
    return reader


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents in the library.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per row.")] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Concurrent connections.")] = 64,
    reader: ReaderFolder = None,
    json: Json = False,
    quick: Quick = False,
) -> None:
    """Drive a server over loopback: requests per second and latencies."""
    if quick:
        documents, seconds = min(documents, 8), 0.2
    with progress_bar() as progress:
        report = run(documents, seconds, connections, reader, progress)
    if quick:
        for row in report.rows:
            row.met = None
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        print_plain(Console(), f"{report.machine}\n")
        print_table(Console(), COLUMNS, [row.cells() for row in report.rows])


if __name__ == "__main__":
    run_command(main)
