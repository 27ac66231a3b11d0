"""Benchmark cases: what is measured, against what, and the ratio to reach.

Every contender is checked against a float64 reference before it is timed; a wrong result gets no timing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Literal

import msgspec
from torch import Tensor

from attar.paper.timing import Contender, Timer, WrongResultError, check

Verdict = Literal["met", "missed", "not judged", "alone", "wrong", "failed"]


@dataclass(frozen=True)
class Goal:
    """The ratio to reach: at least `ratio` times faster, or at most `ratio` times the cost.

    >>> faster, cheap = Goal(8), Goal(1.2, at_least=False)
    >>> str(faster), faster.reached(7.9), str(cheap), cheap.reached(1.0)
    ('≥ 8 ×', False, '≤ 1.2 ×', True)
    """

    ratio: float
    at_least: bool = True

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.ratio:g} ×"

    def reached(self, ratio: float) -> bool:
        """Whether a measured ratio meets the goal."""
        return ratio >= self.ratio if self.at_least else ratio <= self.ratio


@dataclass(frozen=True)
class Comparison:
    """Our cost and the baseline's, one number per round; `theirs` is None if no baseline could run.

    A cost is divided by its amount before ratios are taken, and printed as it is.
    """

    ours: Sequence[float]
    theirs: Sequence[float] | None
    unit: str = "s"
    amounts: tuple[float, float] = (1.0, 1.0)
    against: str | None = None
    note: str = ""

    def ratio(self, goal: Goal) -> tuple[float, float, float]:
        """The ratio of medians, and the 10th and 90th percentile of the ratios per round.

        >>> Comparison([1.0, 1.0, 1.0], [3.0, 3.0, 3.0]).ratio(Goal(2))  # three times faster
        (3.0, 3.0, 3.0)
        """
        ours = [cost / self.amounts[0] for cost in self.ours]
        theirs = [cost / self.amounts[1] for cost in self.theirs or ()]
        top, bottom = (theirs, ours) if goal.at_least else (ours, theirs)
        rounds = sorted(t / b for t, b in zip(top, bottom, strict=True))
        if len(rounds) >= 10:
            rounds = quantiles(rounds, n=10)
        return median(top) / median(bottom), rounds[0], rounds[-1]


@dataclass(frozen=True)
class Case:
    """One row before it is measured."""

    what: str
    against: str
    goal: Goal
    run: Callable[[], Comparison]


class Row(msgspec.Struct, frozen=True):
    """One measured row; wrong results have no numbers."""

    what: str
    against: str
    target: float
    at_least: bool
    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def goal(self) -> Goal:
        """The ratio to reach."""
        return Goal(self.target, self.at_least)

    @property
    def met(self) -> bool | None:
        """Whether the result is right and reaches the goal; None if it was not judged."""
        return None if self.verdict == "not judged" else self.verdict == "met"


def compare(
    ours: Contender,
    baselines: Sequence[Contender],
    timer: Timer,
    fallback: Sequence[Contender] = (),
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare ours with the fastest baseline that runs and is right; `fallback` is used if there is none."""
    check(ours)
    notes = list(notes)
    usable = keep_correct(baselines, notes) or keep_correct(fallback, notes)
    own, *others = timer.time([ours, *usable])
    if not usable:
        return Comparison(own, None, note="; ".join(notes))
    fastest = min(range(len(usable)), key=lambda i: median(others[i]) / usable[i].amount)
    best = usable[fastest]
    if len(usable) > 1:
        notes.append(f"{best.name} was the fastest of {len(usable)}")
    amounts = ours.amount, best.amount
    return Comparison(own, others[fastest], "s", amounts, best.name, "; ".join(notes))


def compare_with_limit(ours: Contender, limit: float, timer: Timer) -> Comparison:
    """Compare our seconds per unit of work with a fixed number of seconds."""
    check(ours)
    seconds = [each / ours.amount for each in timer.time([ours])[0]]
    return Comparison(seconds, [limit] * len(seconds))


def measure(case: Case, *, judged: bool = True) -> Row:
    """The row of a case; errors become rows too, so that one broken case does not stop the others."""
    goal, change = case.goal, msgspec.structs.replace
    row = Row(case.what, case.against, goal.ratio, goal.at_least, "failed")
    try:
        result = case.run()
    except WrongResultError as wrong:
        return change(row, verdict="wrong", note=str(wrong))
    except Exception as failure:
        return change(row, note=f"{type(failure).__name__}: {first_line(failure)}")
    row = change(row, against=result.against or row.against, unit=result.unit, note=result.note)
    row = change(row, verdict="alone", ours=median(result.ours))
    if result.theirs is None:
        return row
    ratio, low, high = result.ratio(goal)
    verdict = "met" if goal.reached(ratio) else "missed"
    row = change(row, theirs=median(result.theirs), ratio=ratio, low=low, high=high)
    return change(row, verdict=verdict if judged else "not judged")


def sampled(tensor: Tensor, count: int = 8) -> Tensor:
    """About `count` documents spread over a batch: a float64 loop over all of them would not fit."""
    return tensor[:: max(1, tensor.shape[0] // count)]


def keep_correct(contenders: Sequence[Contender], notes: list[str]) -> list[Contender]:
    """The contenders that run and are right; `notes` receives a line about each of the others."""
    correct = []
    for contender in contenders:
        try:
            check(contender)
            correct.append(contender)
        except WrongResultError as wrong:
            notes.append(str(wrong))
        except Exception as refusal:  # other libraries refuse a chip or a shape with errors of any kind
            notes.append(f"{contender.name} refused: {first_line(refusal)}")
    return correct


def first_line(problem: BaseException) -> str:
    """The first line of an exception's message, at most 120 characters."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0][:120]
