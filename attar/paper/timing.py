"""Interleaved timing of checked results, and what measurements are printed with: the machine, tables, units.

Contenders are timed interleaved, A B A B …, so that other programs on the machine disturb all of them alike.
"""

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from attar.errors import AttarError


@dataclass(frozen=True)
class Contender:
    """Something that does the work: `run` is timed, `error` gives its relative error against the reference.

    `amount` is how much one run does, in a unit that all contenders of a case share: 1, bytes or lookups.
    """

    name: str
    run: Callable[[], object]
    error: Callable[[], float] = float
    tolerance: float = 0.0
    amount: float = 1.0


@dataclass(frozen=True)
class Effort:
    """How long to measure: at least `rounds` rounds, and more until `budget` seconds have passed."""

    budget: float = 4.0
    rounds: int = 10
    most_rounds: int = 200
    round_seconds: float = 0.01


QUICK = Effort(budget=0.0, rounds=3, round_seconds=0.0)


@dataclass(frozen=True)
class Timer:
    """Times contenders by the wall clock, by this process's CPU time, or by events on the GPU's stream.

    CPU time leaves out what other programs take: on two cores with a load of six, softmax over 100,000 tokens
    took 19.5 ms of wall time and 9.7 ms of CPU time. `threads` limits torch and numpy's BLAS.
    """

    effort: Effort = Effort()
    clock: Literal["wall", "cpu", "gpu"] = "wall"
    threads: int | None = None

    def time(self, contenders: Sequence[Contender]) -> list[list[float]]:
        """For each contender the seconds per run, one number per round."""
        effort = self.effort
        seconds: list[list[float]] = [[] for _ in contenders]
        with limited_threads(self.threads):
            calls = [self.calls_per_round(contender.run) for contender in contenders]
            end = time.perf_counter() + effort.budget
            while contenders and (
                len(seconds[0]) < effort.rounds
                or (time.perf_counter() < end and len(seconds[0]) < effort.most_rounds)
            ):
                for contender, count, times in zip(contenders, calls, seconds, strict=True):
                    times.append(self.seconds_for(contender.run, count) / count)
        return seconds

    def calls_per_round(self, run: Callable[[], object]) -> int:
        """How many runs make a round long enough to be timed."""
        if self.clock == "gpu":  # compile, tune, allocate
            self.seconds_for(run, 3)
        seconds = self.seconds_for(run, 1)
        if seconds < 10 * self.effort.round_seconds:  # the first run met cold caches
            seconds = self.seconds_for(run, 5) / 5
        return max(1, -(-int(self.effort.round_seconds * 1e9) // max(1, int(seconds * 1e9))))

    def seconds_for(self, run: Callable[[], object], calls: int) -> float:
        if self.clock == "gpu":
            return _gpu_seconds(run, calls)
        clock = time.perf_counter if self.clock == "wall" else time.process_time
        start = clock()
        for _ in range(calls):
            run()
        return clock() - start


def _gpu_seconds(run: Callable[[], object], calls: int) -> float:
    """Seconds of the device's own work.

    The stream is delayed while the CPU fills its queue. Otherwise Python's launches would be timed too, which
    favours whoever launches the fewest kernels.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    launching = time.perf_counter()
    run()
    launching = (time.perf_counter() - launching) * calls
    # A queue holds about a thousand launches; beyond that the CPU waits for the device anyway.
    delay = min(2 * launching, 0.05)
    torch.cuda.synchronize()
    torch.cuda._sleep(int(delay * 2e9))  # type: ignore[no-untyped-call]  # cycles, at 2 GHz or less
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Limit torch and numpy's BLAS to `count` threads; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        with threadpool_limits(count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


class WrongResultError(AttarError):
    """A result too far from the reference to be worth timing."""


def check(contender: Contender) -> None:
    """Refuse a contender whose result is wrong; NaN is wrong."""
    error = contender.error()
    if not error <= contender.tolerance:
        raise WrongResultError(f"{contender.name} is off by {error:.1e}, more than {contender.tolerance:.0e}")


def relative_error(result: Tensor, expected: Tensor) -> float:
    """The largest ‖result − expected‖ / ‖expected‖ of any document, in float64.

    >>> relative_error(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 5.0]])) == 1 / 34**0.5
    True
    """
    if result.shape != expected.shape:
        return float("inf")
    exact = expected.detach().double().to(result.device).flatten(1)
    difference = result.detach().double().flatten(1) - exact
    errors = difference.norm(dim=1) / exact.norm(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    return float(errors.max()) if errors.isfinite().all() else float("inf")


def tolerance_for(dtype: torch.dtype) -> float:
    """The error of one rounding to the type, or what long sums in float32 may add."""
    return max(torch.finfo(dtype).eps, 1e-5)


class Machine(msgspec.Struct, frozen=True):
    """What a measurement was made on, without the machine's name."""

    cpu: str
    cores: int
    gpu: str | None
    torch: str
    load: float
    date: str

    def __str__(self) -> str:
        parts = f"{self.cpu}, {self.cores} cores", self.gpu or "no GPU", f"torch {self.torch}"
        return "; ".join([*parts, f"load {self.load:.1f}", self.date])

    def busy_notes(self, advice: str = "do not trust the times.") -> list[str]:
        """A line of advice if other programs were running; the benchmark itself adds about one to the load."""
        if self.load <= max(1.0, 0.75 * self.cores):
            return []
        return [f"The machine was busy (load {self.load} on {self.cores} cores): {advice}"]


def this_machine() -> Machine:
    """The machine that runs this, and its load now."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [" ".join(line.split(":", 1)[1].split()) for line in lines if line.startswith("model name")]
    return Machine(
        cpu=models[0] if models else platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        torch=str(torch.__version__),
        load=round(os.getloadavg()[0], 1),
        date=datetime.date.today().isoformat(),
    )


def aligned_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, with aligned columns.

    >>> print(aligned_table(["n", "time"], [["10", "1 s"]]))
    | n  | time |
    |----|------|
    | 10 | 1 s  |
    """
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"

    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([line(columns), f"|{rule}|", *map(line, rows)])


def quantity(amount: float | None, unit: str) -> str:
    """Seconds, bytes or a share with three digits and a prefix.

    >>> quantity(0.00000312, "s"), quantity(0.25, "s"), quantity(9_600_000, "B"), quantity(None, "s")
    ('3.12 µs', '250 ms', '9.6 MB', '–')
    """
    if amount is None:
        return "–"
    scales = {
        "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
        "%": ((1e-2, "%"),),
        "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    }[unit]
    scale, name = next(((s, name) for s, name in scales if amount >= s), scales[-1])
    return f"{amount / scale:.3g} {name}"
