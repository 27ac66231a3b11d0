"""Interleaved timing of checked results.

Contenders are timed interleaved, A B A B …, so that other programs on the machine disturb all of them alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attar.errors import AttarError
from attar.paper.table1 import gpu_seconds, limited_threads


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
            return gpu_seconds(run, calls)
        clock = time.perf_counter if self.clock == "wall" else time.process_time
        start = clock()
        for _ in range(calls):
            run()
        return clock() - start


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
