"""`python -m benchmarks.server`: a server in its own process, driven over loopback from this one."""

import itertools
import tempfile
import threading
from collections.abc import Callable, Sequence
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
from benchmarks.load import drive_now, find_wrk
from benchmarks.server_rows import (
    COLUMNS,
    WRK_SECONDS,
    Drive,
    Row,
    ServerProcess,
    check_statuses,
    drives_for,
    json_request,
    measure,
    questions,
    serving,
)
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import save_tiny_reader

# Rounds of batched and unbatched questions in turns, and the ratio that batching should reach.
ROUNDS, BATCHED_OVER_UNBATCHED = 3, 2.0
# Memory counts as constant if it grows by at most this share.
GROWTH = 0.05
# One request in this many of a soak test writes a document.
WRITES = 1_000
NOT_JUDGED = "not judged at this size"


@dataclass(frozen=True)
class Options:
    """The size of the library, seconds per row, connections; `soak` is minutes at half load instead."""

    documents: int = 10_000
    seconds: float = 10.0
    connections: int = 64
    reader: Path | None = None
    quick: bool = False
    soak: float | None = None


class Report(msgspec.Struct):
    """All rows, the machine, and the client that drove them."""

    machine: Machine
    driver: str
    rows: list[Row]


def run(options: Options, progress: Progress = ignore_progress) -> Report:
    """Fill a library, start a server on it, and drive every row, or a soak test."""
    machine = this_machine()
    documents = min(options.documents, 8) if options.quick else options.documents
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        progress(f"reading {documents:,} documents", 0, 1)
        folder = Path(place) / "library"
        options = replace(options, reader=fill(folder, options.reader, documents))
        measured = _soak_rows if options.soak else _table_rows
        rows = measured(folder, options, documents, progress)
    if options.quick:
        for row in rows:
            row.met, row.target = None, NOT_JUDGED
    built_in = find_wrk() is None or options.quick or options.seconds < WRK_SECONDS or options.soak
    driver = "the built-in client" if built_in else "wrk"
    return Report(machine, driver, rows)


def _table_rows(folder: Path, options: Options, documents: int, progress: Progress) -> list[Row]:
    seconds = 0.2 if options.quick else options.seconds
    drives = drives_for(documents, options.connections)
    total = len(drives) + 2
    rows: list[Row] = []
    with serving(folder, options.reader, "--read-only") as server:
        for drive in drives:
            progress(drive.what, len(rows), total)
            rows.append(measure(server, drive, seconds))
        two_workers = replace(drives[0], what=f"{drives[0].what}, --workers 2")
        progress(two_workers.what, len(rows), total)
        with serving(folder, options.reader, "--read-only", "--workers", "2") as pair:
            # The second worker may be ready a moment after the first.
            drive_now(pair.port, two_workers.requests, two_workers.connections, min(3.0, seconds))
            rows.append(measure(pair, two_workers, seconds))
        progress("batched compared with unbatched", len(rows), total)
        with serving(folder, options.reader, "--read-only", "--max-batch", "1") as unbatched:
            rows.append(batched_vs_unbatched(server, unbatched, drives[0], seconds))
    return rows


def _soak_rows(folder: Path, options: Options, documents: int, progress: Progress) -> list[Row]:
    minutes = 0.03 if options.quick else options.soak or 0.0
    with serving(folder, options.reader) as server:
        on_status: Callable[[str], None] = lambda text: progress(text, 0, 1)  # noqa: E731
        return [soak(server, documents, options.connections, minutes, on_status)]


def batched_vs_unbatched(
    server: ServerProcess, unbatched: ServerProcess, drive: Drive, seconds: float
) -> Row:
    """The row of unbatched questions, and the ratio of batched to unbatched ones, measured in turns."""
    ratios: list[float] = []
    for _ in range(ROUNDS):
        batched = measure(server, drive, seconds / 2)
        alone = measure(unbatched, drive, seconds / 2)
        ratios.append((batched.requests_per_second or 0.0) / (alone.requests_per_second or 1.0))
    ratio = median(ratios)
    alone.what = "/ask, one question, unbatched (--max-batch 1)"
    alone.target = f"batched ≥ {BATCHED_OVER_UNBATCHED:g} × this: {ratio:.2f} ×"
    alone.met = ratio >= BATCHED_OVER_UNBATCHED
    return alone


def soak(
    server: ServerProcess,
    documents: int,
    connections: int,
    minutes: float,
    on_status: Callable[[str], None],
) -> Row:
    """Half of the server's capacity for minutes: questions, and sometimes a new document."""
    requests = mixed_requests(documents)
    seconds = 60 * minutes
    full = drive_now(server.port, requests, connections, min(5.0, seconds))
    memories: list[int | None] = []
    readers: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        # A hundred samples, whatever the duration. The first tenth is left out, while caches fill.
        for at in itertools.count(1):
            if ended.wait(seconds / 100):
                return
            memories.append(server.memory())
            readers.append(server.metric("attar_store_readers"))
            on_status(f"soak, {at} % of {minutes:g} min, memory {quantity(memories[-1], 'B')}")

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        load = drive_now(server.port, requests, connections, seconds, rate=full.per_second / 2)
    finally:
        ended.set()
        watching.join()
    check_statuses("soak", load, [200, 201])
    tenth = max(1, len(memories) // 10)
    first, last = slice(tenth, 2 * tenth + 1), slice(-tenth, None)
    memory = _median_memory(memories[first])
    growth = growth_of(memory, _median_memory(memories[last]))
    # Each thread of the server keeps its slot among LMDB's readers once it has read.
    readers_before, readers_after = max(readers[first]), max(readers[last])
    what, rate = f"half load for {minutes:g} min", load.per_second
    row = Row(what, rate, rate, load.percentile(50), load.percentile(99))
    row.target = "memory constant, no reader left open"
    row.met = readers_after <= readers_before and (growth is None or growth <= GROWTH)
    row.statuses = dict(load.statuses)
    row.note = (
        f"{full.per_second:,.0f}/s at full load; memory {memory_text(memory, growth)}; "
        f"{readers_before:g} readers first, {readers_after:g} last"
    )
    return row


def mixed_requests(documents: int) -> list[bytes]:
    """Questions; one request in a thousand writes a document."""
    requests = questions(documents)
    text = "Then Ann met Bob in Rome. Bob left for Paris, and Ann wrote to him every day. "
    for at in range(0, len(requests), WRITES):
        # Every text differs from the one before, since an equal one would change nothing.
        requests[at] = json_request("/v1/documents/soaked", {"text": text * (1 + at // WRITES)}, "PUT")
    return requests


def _median_memory(memories: Sequence[int | None]) -> int | None:
    known = [each for each in memories if each is not None]
    return round(median(known)) if known else None


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


def print_report(report: Report, console: Console) -> None:
    """Print the machine, the client, the table and the notes."""
    print_plain(console, f"{report.machine}; driven by {report.driver}\n")
    print_table(console, COLUMNS, [row.cells() for row in report.rows])
    print_plain(console, "".join(f"\n- {row.what}: {row.note}" for row in report.rows if row.note))


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents in the library.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per row.")] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Concurrent connections.")] = 64,
    reader: ReaderFolder = None,
    soak: Annotated[
        float | None, typer.Option(min=0.1, help="Run this many minutes at half load instead of the table.")
    ] = None,
    json: Json = False,
    quick: Quick = False,
) -> None:
    """Drive a server over loopback: requests per second, latencies, and a soak test."""
    with progress_bar() as progress:
        report = run(Options(documents, seconds, connections, reader, quick, soak), progress)
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        print_report(report, Console())


if __name__ == "__main__":
    run_command(main)
