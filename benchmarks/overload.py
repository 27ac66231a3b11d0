"""`python -m benchmarks.overload`: several times the questions that a server can answer, for a while, and after.

Server and load each have cores of their own in all phases: what the load costs does not slow the server down.
"""

import contextlib
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from attar.errors import OptionError
from attar.paper.compare import aligned_table
from attar.paper.table1 import quantity, this_machine
from benchmarks.command import ReaderFolder, run_command
from benchmarks.server import (
    QUESTION,
    Load,
    ServerProcess,
    drive_now,
    fill,
    growth_of,
    json_request,
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
# Different requests, sent in turn.
VARIANTS = 2_000
# Memory counts as constant if it grows by at most this share.
GROWTH = 0.05


def overload(
    server: ServerProcess, seconds: float, connections: int
) -> list[tuple[str, str, str, bool | None]]:
    """Measure the full rate, then offer four times as many questions, then the full rate again.

    Rows of what was measured, as text, with its target and whether that is met.
    """
    rng, window = random.Random(0), min(5.0, seconds)
    names = [f"story {rng.randrange(DOCUMENTS)}" for _ in range(VARIANTS)]
    requests = [json_request("/v1/ask", {"document": name, "question": QUESTION}) for name in names]
    drive_now(server.port, requests, USUAL[0], window)
    tries = [drive_now(server.port, requests, count, window) for count in USUAL]
    before = max(tries, key=lambda load: load.per_second)
    most, usual = USUAL[tries.index(before)], before.per_second
    memory = server.memory()
    load = drive_now(server.port, requests, connections, seconds, rate=FACTOR * usual)
    after = drive_now(server.port, requests, most, window)
    for part in (*tries, load, after):
        if set(part.statuses) - {200, 503}:
            raise OptionError.expected("/v1/ask", "responses with status 200 or 503", str(part.statuses))
    recovered, growth = seconds_until_recovered(after, usual), growth_of(memory, server.memory())
    ratio = load.per_second / usual if usual else 0.0
    latest, back = load.percentile(99), "never" if recovered is None else f"{recovered:.1f} s"
    is_back = recovered is not None and recovered <= RECOVERY
    return [
        ("full rate", f"{usual:,.0f}/s", "–", None),
        ("offered", f"{FACTOR * usual:,.0f}/s", "–", None),
        ("answered or refused", f"{load.all_per_second:,.0f}/s", "–", None),
        ("answered", f"{load.per_second:,.0f}/s", "–", None),
        ("answered / full rate", f"{ratio:.0%}", f"≥ {LEAST:.0%}", ratio >= LEAST),
        ("p50 of the answered", f"{load.percentile(50):.3f} s", "–", None),
        ("p99 of the answered", f"{latest:.3f} s", f"≤ {LATEST:g} s", latest <= LATEST),
        ("memory", f"{quantity(memory, 'B')}, {growth:+.1%}", f"≤ {GROWTH:+.0%}", growth <= GROWTH),
        (f"{SHARE:.0%} of the full rate after", back, f"≤ {RECOVERY:g} s", is_back),
    ]


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
            rows = overload(server, seconds, connections)
    print(f"{this_machine()}; {connections} connections\n")
    verdicts = {None: "", True: "met", False: "missed"}
    print(aligned_table(["what", "measured", "target", ""], [[*row[:3], verdicts[row[3]]] for row in rows]))
    if any(met is False for *_, met in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
