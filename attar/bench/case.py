"""One row of a benchmark: what is measured, against what, and what it should reach.

A contender is checked against the float64 referee before it is timed; a wrong one gets no timing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Literal, Protocol

import msgspec


@dataclass(frozen=True)
class Goal:
    """The ratio to reach: `at_least` that many times quicker, or at most that many times the cost.

    >>> quick, cheap = Goal(8), Goal(1.2, at_least=False)
    >>> str(quick), quick.reached(7.9), str(cheap), cheap.reached(1.0)
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
class Contender:
    """Something that does the work: `error` is its distance from the referee, `run` is what is timed.

    `amount` is how much one run does, in a unit that a case's contenders share (1, or bytes, or lookups).
    """

    name: str
    run: Callable[[], object]
    error: Callable[[], float]
    tolerance: float
    amount: float = 1.0


class Clock(Protocol):
    """Times contenders in turns; gives each one's seconds a run, round by round."""

    def race(self, contenders: Sequence[Contender]) -> list[list[float]]:
        """One list of seconds a contender, all of the same length."""


@dataclass(frozen=True)
class Measurement:
    """A ratio with its spread over the rounds, and the two quantities that it was made of.

    Where there was nothing to measure against, ours stands alone.
    """

    ratio: float | None
    low: float | None
    high: float | None
    ours: float
    theirs: float | None
    unit: str
    against: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Case:
    """A row before it is measured."""

    what: str
    against: str
    goal: Goal
    measure: Callable[[], Measurement]


class Row(msgspec.Struct, frozen=True):
    """A row as it is printed and written to JSON; there is no ratio where a result was wrong."""

    what: str
    against: str
    target: float
    at_least: bool
    verdict: Literal["met", "missed", "alone", "wrong", "failed"]
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def goal(self) -> Goal:
        """What it should reach."""
        return Goal(self.target, self.at_least)

    @property
    def met(self) -> bool:
        """Whether it was measured, right, and good enough."""
        return self.verdict == "met"


class WrongResultError(Exception):
    """A result too far from the referee's to be worth timing."""


def check(contender: Contender) -> None:
    """Refuse a contender whose result is wrong; not-a-number is wrong."""
    error = contender.error()
    if not error <= contender.tolerance:
        raise WrongResultError(f"{contender.name} is off by {error:.1e}, more than {contender.tolerance:.0e}")


def duel(
    goal: Goal,
    ours: Contender,
    rivals: Sequence[Contender],
    clock: Clock,
    otherwise: Sequence[Contender] = (),
) -> Measurement:
    """Check ours, then time it in turns with every rival that runs and is right; the quickest one counts.

    Where none of them does, those named `otherwise` take their place.
    """
    check(ours)
    notes: list[str] = []
    fit = fit_among(rivals, notes) or fit_among(otherwise, notes)
    mine, *others = clock.race([ours, *fit])
    if not fit:
        return Measurement(None, None, None, median(mine), None, "s", note="; ".join(notes))
    per_amount = [
        [seconds / rival.amount for seconds in times] for rival, times in zip(fit, others, strict=True)
    ]
    quickest = min(range(len(fit)), key=lambda i: median(per_amount[i]))
    own, its = [seconds / ours.amount for seconds in mine], per_amount[quickest]
    if len(fit) > 1:
        notes.append(f"{fit[quickest].name} was the quickest of {len(fit)}")
    ratio, low, high = ratio_of(goal, own, its)
    return Measurement(
        ratio, low, high, median(mine), median(others[quickest]), "s", fit[quickest].name, "; ".join(notes)
    )


def fit_among(rivals: Sequence[Contender], notes: list[str]) -> list[Contender]:
    """The rivals that run and are right; the notes say of the others why not."""
    fit = []
    for rival in rivals:
        try:
            check(rival)
            fit.append(rival)
        except WrongResultError as wrong:
            notes.append(str(wrong))
        except Exception as refusal:  # a peer may refuse a chip, a shape or a version in any way it likes
            notes.append(f"{rival.name} refused: {one_line(refusal)}")
    return fit


def ratio_of(goal: Goal, ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of medians, and the tenth and ninetieth percentile of the rounds' own ratios.

    >>> ratio_of(Goal(2), [1.0, 1.0, 1.0], [3.0, 3.0, 3.0])  # three times quicker
    (3.0, 3.0, 3.0)
    """
    top, bottom = (theirs, ours) if goal.at_least else (ours, theirs)
    rounds = sorted(t / b for t, b in zip(top, bottom, strict=True))
    low, high = rounds[0], rounds[-1]
    if len(rounds) >= 10:
        *_, high = tenths = quantiles(rounds, n=10)
        low = tenths[0]
    return median(top) / median(bottom), low, high


def weigh(goal: Goal, ours: Contender, bytes_made: Callable[[], float], against: float) -> Measurement:
    """Check ours, then compare the bytes that it makes with the bytes it may make."""
    check(ours)
    made = bytes_made()
    ratio = against / made if goal.at_least else made / against
    return Measurement(ratio, ratio, ratio, made, against, "B")


def measure(case: Case) -> Row:
    """The case as a row, whatever happens; no timing goes with a wrong result."""
    try:
        found = case.measure()
    except WrongResultError as wrong:
        return Row(case.what, case.against, case.goal.ratio, case.goal.at_least, "wrong", note=str(wrong))
    except Exception as failure:  # one broken row must not cost the others
        note = f"{type(failure).__name__}: {one_line(failure)}"
        return Row(case.what, case.against, case.goal.ratio, case.goal.at_least, "failed", note=note)
    return Row(
        case.what,
        found.against or case.against,
        case.goal.ratio,
        case.goal.at_least,
        verdict_of(case.goal, found.ratio),
        found.ratio,
        found.low,
        found.high,
        found.ours,
        found.theirs,
        found.unit,
        found.note,
    )


def verdict_of(goal: Goal, ratio: float | None) -> Literal["met", "missed", "alone"]:
    """What a right result is worth; without a rival it is not worth a word."""
    if ratio is None:
        return "alone"
    return "met" if goal.reached(ratio) else "missed"


def one_line(problem: BaseException) -> str:
    """An exception's message, cut to a line.

    >>> one_line(ValueError("first\\nsecond"))
    'first'
    """
    text = str(problem).strip() or type(problem).__name__
    first = text.splitlines()[0]
    return first if len(first) <= 120 else first[:119] + "…"
