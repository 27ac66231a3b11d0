"""Ways and sizes timed in turns, all of one part together.

An exponent compares sizes with each other. Measured one size after the other, a neighbour who works for half a
minute would bend the line; in turns over all sizes it lifts the whole of it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

import msgspec

from attar.bench.case import Clock, Contender, fit_among
from attar.bench.clocks import QUICK, DeviceClock, Effort, WallClock, calls_for, rounds_of, torch_threads


class Spread(msgspec.Struct, frozen=True):
    """The median of the rounds, and the quarters below and above it.

    Quartiles, not tenths: where others use the machine too, a tenth of the rounds says how much they do.
    """

    middle: float
    low: float
    high: float


class Point(msgspec.Struct, frozen=True):
    """What each way cost at one size: seconds, or bytes, which do not spread."""

    tokens: int
    questions: int
    costs: dict[str, Spread]


@dataclass(frozen=True)
class ComputingClock(WallClock):
    """Seconds that this process computes for: on one thread those on the wall, less what neighbours take.

    On two cores with a load of six, softmax over 100,000 tokens took 19.5 ms on the wall and 9.7 ms of computing.
    """

    def race(self, contenders: Sequence[Contender]) -> list[list[float]]:
        """One list of seconds a run for each contender."""
        with torch_threads(self.threads):
            calls = [self.calls_of(contender) for contender in contenders]
            return rounds_of(self.effort, contenders, calls, self.time_of)

    def calls_of(self, contender: Contender) -> int:
        """How many runs make a round; the first one made things ready and found cold caches, so short ones go on."""
        first = self.time_of(contender, 1)
        again = first < 10 * self.effort.round_seconds
        return calls_for(self.effort, self.time_of(contender, 5) / 5 if again else first)

    def time_of(self, contender: Contender, calls: int) -> float:
        """Seconds for so many runs."""
        start = time.process_time()
        for _ in range(calls):
            contender.run()
        return time.process_time() - start


@dataclass(frozen=True)
class Field:
    """Those who race at one size; a contender's amount is what its seconds are divided by."""

    tokens: int
    questions: int
    contenders: list[Contender]


@dataclass(frozen=True)
class Turns:
    """A clock, and how often it is asked to time all of them; progress is told in between."""

    clock: Clock
    passes: int


@dataclass(frozen=True)
class Schedule:
    """The turns of every part; a GRU's runs are so long that each of them counts."""

    asking: Turns
    reading: Turns
    writing: Turns
    sharing: Turns

    @property
    def passes(self) -> int:
        """All of them."""
        return self.asking.passes + self.reading.passes + self.writing.passes + self.sharing.passes


def schedule_for(device: str, *, quick: bool = False) -> Schedule:
    """A minute or two, of one thread or of the device."""
    # A GPU's launch queue holds about a thousand kernels, and its runs are short enough for many a round.
    round_seconds = 0.005 if device == "cpu" else 0.002

    def turns(passes: int, budget: float, rounds: int) -> Turns:
        effort = QUICK if quick else Effort(budget, rounds, round_seconds=round_seconds)
        clock = ComputingClock(effort, threads=1) if device == "cpu" else DeviceClock(effort)
        return Turns(clock, 1 if quick else passes)

    return Schedule(turns(8, 2.0, 2), turns(1, 8.0, 3), turns(4, 2.0, 2), turns(3, 5.0, 2))


def race(fields: Sequence[Field], turns: Turns, notes: list[str], tell: Callable[[], None]) -> list[Point]:
    """Check everyone, time those that are right in turns over all sizes; the notes name the others."""
    fit = [fit_in(field, notes) for field in fields]
    everyone = [contender for group in fit for contender in group]
    spent: list[list[float]] = [[] for _ in everyone]
    for _ in range(turns.passes):
        tell()
        for seconds, more in zip(spent, turns.clock.race(everyone) if everyone else [], strict=True):
            seconds += more
    times = iter(spent)
    return [
        Point(
            field.tokens,
            field.questions,
            {each.name: spread_of([seconds / each.amount for seconds in next(times)]) for each in group},
        )
        for field, group in zip(fields, fit, strict=True)
    ]


def fit_in(field: Field, notes: list[str]) -> list[Contender]:
    """Those of a field whose results are right."""
    problems: list[str] = []
    fit = fit_among(field.contenders, problems)
    notes += [f"n = {field.tokens:,}, m = {field.questions:,}: {problem}" for problem in problems]
    return fit


def spread_of(seconds: Sequence[float]) -> Spread:
    """The middle and the edges of some rounds.

    >>> spread_of([3.0, 1.0, 2.0])
    Spread(middle=2.0, low=1.5, high=2.5)
    """
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return Spread(middle, low, high)
