"""`attar bench server`: a server in a process of its own, driven over loopback from others."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from rich.console import Console

from attar.bench.load import drive_now
from attar.bench.machine import Machine, this_machine
from attar.bench.server_overload import overload, soak
from attar.bench.server_process import Served, serving
from attar.bench.server_rows import (
    COLUMNS,
    SIZE,
    TOKENS,
    VARIANTS,
    WRK_FROM,
    Drive,
    Row,
    drives_for,
    measure,
)
from attar.bench.server_wrk import wrk
from attar.bench.tables import print_table
from attar.library import Library
from attar.memory import Memory
from benchmarks.stories import tell_stories

__all__ = ["COLUMNS", "Report", "Wanted", "print_report", "run"]

# How often micro-batched and unbatched questions take turns, and what the first should be over the second.
TURNS, BATCHED_OVER_UNBATCHED = 3, 2.0
OVERLOAD = 3.0  # times as long as a row
Tell = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Wanted:
    """How large a library, how long a row, how many connections; or so many minutes at half load instead."""

    documents: int = 10_000
    seconds: float = 10.0
    connections: int = 64
    reader: Path | None = None
    quick: bool = False
    soak: float | None = None


class Report(msgspec.Struct):
    """All rows, the machine that they were measured on, and what drove them."""

    machine: Machine
    driver: str
    rows: list[Row]


def run(wanted: Wanted, tell: Tell = lambda done, total, what: None) -> Report:
    """Fill a library, start a server on it, and drive every row, or soak it."""
    machine = this_machine()
    documents = min(wanted.documents, 8) if wanted.quick else wanted.documents
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        tell(0, 1, f"reading {documents:,} documents")
        folder = Path(place) / "library"
        fill(folder, wanted.reader, documents)
        rows = (
            soaked(folder, wanted, documents, tell) if wanted.soak else table(folder, wanted, documents, tell)
        )
    built_in = wrk() is None or wanted.quick or wanted.seconds < WRK_FROM or wanted.soak
    return Report(
        machine, "the built-in client" if built_in else "wrk; overload by the built-in client", rows
    )


def table(folder: Path, wanted: Wanted, documents: int, tell: Tell) -> list[Row]:
    """Every row of the table."""
    seconds = 0.2 if wanted.quick else wanted.seconds
    drives = drives_for(documents, wanted.connections)
    total = len(drives) + 3
    rows: list[Row] = []
    with serving(folder, wanted.reader, "--read-only") as served:
        for each in drives:
            tell(len(rows), total, each.what)
            rows.append(measure(served, each, seconds))
        both = replace(drives[0], what=f"{drives[0].what}, --workers 2")
        tell(len(rows), total, both.what)
        with serving(folder, wanted.reader, "--read-only", "--workers", "2") as pair:
            # The second may be ready a moment after the first.
            drive_now(pair.port, both.requests, both.connections, min(3.0, seconds))
            rows.append(measure(pair, both, seconds))
        tell(len(rows), total, "micro-batched against unbatched")
        with serving(folder, wanted.reader, "--read-only", "--max-batch", "1") as unbatched:
            rows.append(batched_against(served, unbatched, drives[1], seconds))
        tell(len(rows), total, "overload")
        rows.append(overload(served, documents, wanted.connections, OVERLOAD * seconds))
    return rows


def soaked(folder: Path, wanted: Wanted, documents: int, tell: Tell) -> list[Row]:
    """The row of a soak, on a server that writes too."""
    minutes = 0.03 if wanted.quick else wanted.soak or 0.0
    with serving(folder, wanted.reader) as served:
        return [soak(served, documents, wanted.connections, minutes, lambda said: tell(0, 1, said))]


def batched_against(served: Served, unbatched: Served, each: Drive, seconds: float) -> Row:
    """Questions that are answered together over questions that are answered one after the other, in turns."""
    ratios: list[float] = []
    alone: Row | None = None
    for _ in range(TURNS):
        together = measure(served, each, seconds / 2)
        alone = measure(unbatched, each, seconds / 2)
        ratios.append((together.requests_a_second or 0.0) / (alone.requests_a_second or 1.0))
    assert alone is not None
    ratio = median(ratios)
    alone.what = "/ask, one question, unbatched (--max-batch 1)"
    alone.target = f"micro-batched ≥ {BATCHED_OVER_UNBATCHED:g} × this: {ratio:.2f} ×"
    alone.met = ratio >= BATCHED_OVER_UNBATCHED
    return alone


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


def print_report(report: Report, console: Console) -> None:
    """The machine, what drove it, the table, and under it what needs more words than a cell."""
    console.print(f"{report.machine}; driven by {report.driver}", highlight=False, soft_wrap=True)
    console.print()
    print_table(console, COLUMNS, [row.cells() for row in report.rows])
    for row in report.rows:
        if row.note:
            console.print(f"- {row.what}: {row.note}", highlight=False, markup=False, soft_wrap=True)
