"""Clocks: contenders are timed in turns, A B A B …, so that a noisy neighbour disturbs all of them alike."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from attar.bench.case import Contender


@dataclass(frozen=True)
class Effort:
    """How long a case is timed: at least `rounds` rounds, and on until `budget` seconds are spent."""

    budget: float = 4.0
    rounds: int = 10
    most_rounds: int = 200
    round_seconds: float = 0.01


QUICK = Effort(budget=0.0, rounds=3, round_seconds=0.0)


@dataclass(frozen=True)
class WallClock:
    """Seconds on the wall; `threads` limits torch's (BLAS of numpy and scipy: OPENBLAS_NUM_THREADS)."""

    effort: Effort = Effort()
    threads: int | None = None

    def race(self, contenders: Sequence[Contender]) -> list[list[float]]:
        """One list of seconds a run for each contender."""
        with torch_threads(self.threads):
            calls = [calls_for(self.effort, self.time_of(contender, 1)) for contender in contenders]
            return rounds_of(self.effort, contenders, calls, self.time_of)

    def time_of(self, contender: Contender, calls: int) -> float:
        """Seconds for so many runs."""
        start = time.perf_counter()
        for _ in range(calls):
            contender.run()
        return time.perf_counter() - start


@dataclass(frozen=True)
class DeviceClock:
    """Seconds on the GPU, between two events on its stream.

    The stream is held up while the CPU puts the runs into the queue: what is timed is the device's work, not
    Python's launches, which would flatter whoever launches least.
    """

    effort: Effort = Effort()
    cycles_a_second: float = 2e9  # a little over the clock of today's chips: too long a hold-up harms nothing

    def race(self, contenders: Sequence[Contender]) -> list[list[float]]:
        """One list of seconds a run for each contender."""
        for contender in contenders:  # compile, tune, allocate
            self.time_of(contender, 3)
        calls = [calls_for(self.effort, self.time_of(contender, 3) / 3) for contender in contenders]
        return rounds_of(self.effort, contenders, calls, self.time_of)

    def time_of(self, contender: Contender, calls: int) -> float:
        """Seconds on the device for so many runs."""
        begun, ended = event(), event()
        torch.cuda.synchronize()
        launching = time.perf_counter()
        contender.run()
        launching = (time.perf_counter() - launching) * calls
        # A queue holds about a thousand launches; beyond that the CPU waits for the device anyway.
        hold = min(2 * launching, 0.05)
        torch.cuda.synchronize()
        torch.cuda._sleep(int(hold * self.cycles_a_second))  # type: ignore[no-untyped-call]
        begun.record()
        for _ in range(calls):
            contender.run()
        ended.record()
        torch.cuda.synchronize()
        return float(begun.elapsed_time(ended)) / 1000


def rounds_of(
    effort: Effort, contenders: Sequence[Contender], calls: Sequence[int], time_of: Any
) -> list[list[float]]:
    """Rounds in turns until the effort is spent."""
    seconds: list[list[float]] = [[] for _ in contenders]
    end = time.perf_counter() + effort.budget
    while len(seconds[0]) < effort.rounds or (
        time.perf_counter() < end and len(seconds[0]) < effort.most_rounds
    ):
        for contender, count, times in zip(contenders, calls, seconds, strict=True):
            times.append(time_of(contender, count) / count)
    return seconds


def calls_for(effort: Effort, seconds: float) -> int:
    """How many runs make a round long enough to be timed.

    >>> calls_for(Effort(round_seconds=0.01), 0.003)
    4
    """
    return max(1, -(-int(effort.round_seconds * 1e9) // max(1, int(seconds * 1e9))))


def event() -> Any:
    """A mark on the GPU's stream that knows its time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Torch limited to so many threads for a while; None leaves it as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
