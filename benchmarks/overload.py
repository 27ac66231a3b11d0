"""`python -m benchmarks.overload`: several times the questions that a server can answer, for a while, and after.

Server and load each have cores of their own in all phases: what the load costs does not slow the server down.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer

from attar.paper.timing import Machine, aligned_table, this_machine
from benchmarks.command import Json, ReaderFolder, run_command
from benchmarks.load import Load, drive_now
from benchmarks.server import (
    GROWTH,
    ServerProcess,
    check_statuses,
    fill,
    growth_of,
    memory_text,
    questions,
    serving,
)

# What an overloaded server must keep: this share of its full rate, this latency of the answered, and its memory;
# and after the overload this share of the full rate within these seconds, counted in windows.
LEAST, LATEST = 0.6, 1.0
SHARE, RECOVERY, WINDOW = 0.9, 2.0, 0.5


class Overload(msgspec.Struct):
    """What a server did at full load, overloaded, and after; rates per second, times in seconds."""

    machine: Machine
    connections: int
    full_rate: float
    offered_rate: float
    sent_rate: float
    answered_rate: float
    ratio: float
    refused: int
    p50: float
    p99: float
    memory_before: int | None
    memory_growth: float | None
    recovered_after: float | None

    @property
    def met(self) -> bool:
        """Whether all targets are met."""
        recovered = self.recovered_after is not None and self.recovered_after <= RECOVERY
        constant = self.memory_growth is None or self.memory_growth <= GROWTH
        return self.ratio >= LEAST and self.p99 <= LATEST and constant and recovered


def run(
    documents: int = 1_000,
    seconds: float = 30.0,
    factor: float = 4.0,
    usual: Sequence[int] = (64, 256),
    connections: int = 512,
    reader: Path | None = None,
    options: Sequence[str] = (),
) -> Overload:
    """Fill a library, serve it with options of `attar serve`, and overload it."""
    with tempfile.TemporaryDirectory(prefix="attar-overload-") as place:
        folder = Path(place) / "library"
        reader = fill(folder, reader, documents)
        with apart(), serving(folder, reader, "--read-only", *options) as server:
            _own_cores()
            return overload(server, documents, seconds, factor, usual, connections)


def overload(
    server: ServerProcess,
    documents: int,
    seconds: float,
    factor: float,
    usual: Sequence[int],
    connections: int,
) -> Overload:
    """Measure the full rate, then offer `factor` times as many questions, then the full rate again."""
    requests, window = questions(documents), min(5.0, seconds)
    drive_now(server.port, requests, usual[0], window)
    # More connections make larger batches, up to a point.
    tries = [drive_now(server.port, requests, count, window) for count in usual]
    before = max(tries, key=lambda load: load.per_second)
    most = usual[tries.index(before)]
    memory = server.memory()
    offered = factor * before.per_second
    load = drive_now(server.port, requests, connections, seconds, rate=offered)
    after = drive_now(server.port, requests, most, window)
    for part in (*tries, load, after):
        check_statuses("/v1/ask, overload", part, [200, 503])
    return Overload(
        machine=this_machine(),
        connections=connections,
        full_rate=before.per_second,
        offered_rate=offered,
        sent_rate=load.all_per_second,
        answered_rate=load.per_second,
        ratio=load.per_second / before.per_second if before.per_second else 0.0,
        refused=load.statuses[503],
        p50=load.percentile(50),
        p99=load.percentile(99),
        memory_before=memory,
        memory_growth=growth_of(memory, server.memory()),
        recovered_after=seconds_until_recovered(after, before.per_second),
    )


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


def print_overload(measured: Overload) -> None:
    """Print what was measured, the targets, and whether each is met."""
    recovered = measured.recovered_after
    growth = measured.memory_growth
    rows: list[tuple[str, str, str, bool | None]] = [
        ("full rate", f"{measured.full_rate:,.0f}/s", "–", None),
        ("offered", f"{measured.offered_rate:,.0f}/s", "–", None),
        ("answered or refused", f"{measured.sent_rate:,.0f}/s", "–", None),
        ("answered", f"{measured.answered_rate:,.0f}/s", "–", None),
        ("answered / full rate", f"{measured.ratio:.0%}", f"≥ {LEAST:.0%}", measured.ratio >= LEAST),
        ("p50 of the answered", f"{measured.p50:.3f} s", "–", None),
        ("p99 of the answered", f"{measured.p99:.3f} s", f"≤ {LATEST:g} s", measured.p99 <= LATEST),
        (
            "memory",
            memory_text(measured.memory_before, growth),
            f"≤ {GROWTH:+.0%}",
            growth is None or growth <= GROWTH,
        ),
        (
            f"{SHARE:.0%} of the full rate after",
            "never" if recovered is None else f"{recovered:.1f} s",
            f"≤ {RECOVERY:g} s",
            recovered is not None and recovered <= RECOVERY,
        ),
    ]
    print(f"{measured.machine}; {measured.connections} connections\n")
    verdicts = {None: "", True: "met", False: "missed"}
    cells = [[*row[:3], verdicts[row[3]]] for row in rows]
    print(aligned_table(["what", "measured", "target", ""], cells))


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents in the library.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of overload.")] = 30.0,
    factor: Annotated[float, typer.Option(min=1.0, help="Times the full rate that is offered.")] = 4.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections while overloaded.")] = 512,
    reader: ReaderFolder = None,
    json: Json = False,
) -> None:
    """Offer a server several times the questions that it can answer; exit code 1 if a target is missed."""
    measured = run(documents, seconds, factor, connections=connections, reader=reader)
    if json:
        print(msgspec.json.encode(measured).decode())
    else:
        print_overload(measured)
    if not measured.met:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
