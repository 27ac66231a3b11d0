"""`python -m benchmarks.overload`: several times the questions that a server can answer, for a while, and after.

Server and load each have cores of their own in all phases: what the load costs does not slow the server down.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from attar.paper.compare import aligned_table
from attar.paper.table1 import quantity, this_machine
from benchmarks.command import ReaderFolder, run_command
from benchmarks.load import Load, drive_now
from benchmarks.server import (
    GROWTH,
    ServerProcess,
    check_statuses,
    fill,
    growth_of,
    questions,
    serving,
)

# What an overloaded server must keep: this share of its full rate, this latency of the answered, and its memory;
# and after the overload this share of the full rate within these seconds, counted in windows.
LEAST, LATEST = 0.6, 1.0
SHARE, RECOVERY, WINDOW = 0.9, 2.0, 0.5
# Connections of a full load: more make larger batches, up to a point.
USUAL = (64, 256)
# Documents in the library, and how many times the full rate is offered.
DOCUMENTS, FACTOR = 1_000, 4.0


@dataclass(frozen=True)
class Overload:
    """What a server did at full load, overloaded, and after; rates per second, times in seconds."""

    full_rate: float
    offered_rate: float
    load: Load
    memory_before: int
    memory_growth: float
    recovered_after: float | None

    def rows(self) -> list[tuple[str, str, str, bool | None]]:
        """What was measured, as text, with its target and whether that is met."""
        load, growth, recovered = self.load, self.memory_growth, self.recovered_after
        ratio = load.per_second / self.full_rate if self.full_rate else 0.0
        memory = f"{quantity(self.memory_before, 'B')}, {growth:+.1%}"
        after = "never" if recovered is None else f"{recovered:.1f} s"
        is_back = recovered is not None and recovered <= RECOVERY
        return [
            ("full rate", f"{self.full_rate:,.0f}/s", "–", None),
            ("offered", f"{self.offered_rate:,.0f}/s", "–", None),
            ("answered or refused", f"{load.all_per_second:,.0f}/s", "–", None),
            ("answered", f"{load.per_second:,.0f}/s", "–", None),
            ("answered / full rate", f"{ratio:.0%}", f"≥ {LEAST:.0%}", ratio >= LEAST),
            ("p50 of the answered", f"{load.percentile(50):.3f} s", "–", None),
            (
                "p99 of the answered",
                f"{load.percentile(99):.3f} s",
                f"≤ {LATEST:g} s",
                load.percentile(99) <= LATEST,
            ),
            ("memory", memory, f"≤ {GROWTH:+.0%}", growth <= GROWTH),
            (f"{SHARE:.0%} of the full rate after", after, f"≤ {RECOVERY:g} s", is_back),
        ]


def overload(server: ServerProcess, seconds: float, connections: int) -> Overload:
    """Measure the full rate, then offer four times as many questions, then the full rate again."""
    requests, window = questions(DOCUMENTS), min(5.0, seconds)
    drive_now(server.port, requests, USUAL[0], window)
    tries = [drive_now(server.port, requests, count, window) for count in USUAL]
    before = max(tries, key=lambda load: load.per_second)
    most = USUAL[tries.index(before)]
    memory = server.memory()
    offered = FACTOR * before.per_second
    load = drive_now(server.port, requests, connections, seconds, rate=offered)
    after = drive_now(server.port, requests, most, window)
    for part in (*tries, load, after):
        check_statuses("/v1/ask, overload", part, [200, 503])
    recovered = seconds_until_recovered(after, before.per_second)
    growth = growth_of(memory, server.memory())
    return Overload(before.per_second, offered, load, memory, growth, recovered)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Run what is started in this block, a server, on half of the cores."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[: max(1, len(cores) // 2)])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _own_cores() -> None:
    """Leave the cores on which a server was started, where there are others."""
    if hasattr(os, "sched_setaffinity"):
        theirs = os.sched_getaffinity(0)
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - theirs or theirs)


def seconds_until_recovered(after: Load, usual: float) -> float | None:
    """The end of the first window in which the server was as fast as usual; None if there is none.

    >>> slow, fast = [0.1, 0.4], [0.5 + at / 100 for at in range(50)]
    >>> seconds_until_recovered(Load(1.0, moments=slow + fast), 80.0)
    1.0
    """
    moments = np.array(after.moments)
    for start in np.arange(0.0, max(after.seconds, WINDOW), WINDOW).tolist():
        answered = int(((moments >= start) & (moments < start + WINDOW)).sum())
        if answered >= SHARE * usual * WINDOW:
            return float(start + WINDOW)
    return None


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of overload.")] = 30.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections while overloaded.")] = 512,
    reader: ReaderFolder = None,
) -> None:
    """Offer a server several times the questions that it can answer; exit code 1 if a target is missed."""
    with tempfile.TemporaryDirectory(prefix="attar-overload-") as place:
        folder = Path(place) / "library"
        reader = fill(folder, reader, DOCUMENTS)
        with apart(), serving(folder, reader, "--read-only") as server:
            _own_cores()
            rows = overload(server, seconds, connections).rows()
    print(f"{this_machine()}; {connections} connections\n")
    verdicts = {None: "", True: "met", False: "missed"}
    print(aligned_table(["what", "measured", "target", ""], [[*row[:3], verdicts[row[3]]] for row in rows]))
    if any(met is False for *_, met in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
