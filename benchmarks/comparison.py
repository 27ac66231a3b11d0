"""Benchmark cases: what is measured, against what, and the ratio to reach; and the report of all rows.

Every contender is checked against a float64 reference before it is timed; a wrong result gets no timing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Literal

import typer
from torch import Tensor

from attar.cli.output import progress_bar
from attar.errors import OptionError
from attar.paper.compare import aligned_table
from attar.paper.table1 import Machine, quantity
from benchmarks.timing import Contender, Timer, WrongResultError, check

_COLUMNS = ["what", "ours", "against", "theirs", "ratio", "spread", "target", ""]


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


def at_most(ratio: float) -> Goal:
    """At most so many times the cost."""
    return Goal(ratio, at_least=False)


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


@dataclass
class Row:
    """One measured row; wrong results have no numbers."""

    what: str
    against: str
    goal: Goal
    verdict: Literal["met", "missed", "not judged", "alone", "wrong", "failed"] = "failed"
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    note: str = ""

    def cells(self) -> list[str]:
        """The row of the table."""
        spread = "–" if self.low is None or self.high is None else f"{self.low:.3g} … {self.high:.3g}"
        ratio = "–" if self.ratio is None else f"{self.ratio:.3g} ×"
        ours, theirs = quantity(self.ours, self.unit), quantity(self.theirs, self.unit)
        judged = self.verdict != "not judged"
        target, verdict = (str(self.goal), self.verdict) if judged else ("–", "not judged at this size")
        return [self.what, ours, self.against, theirs, ratio, spread, target, verdict]


def compare(ours: Contender, baselines: Sequence[Contender], timer: Timer) -> Comparison:
    """Compare ours with the fastest baseline that runs and is right."""
    check(ours)
    notes: list[str] = []
    usable = keep_correct(baselines, notes)
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
            notes.append(f"{contender.name} refused: {_first_line(refusal)}")
    return correct


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0][:120]


def measure(case: Case, *, judged: bool = True) -> Row:
    """The row of a case; errors become rows too, so that one broken case does not stop the others."""
    row = Row(case.what, case.against, case.goal)
    try:
        result = case.run()
    except WrongResultError as wrong:
        row.verdict, row.note = "wrong", str(wrong)
        return row
    except Exception as failure:
        row.note = f"{type(failure).__name__}: {_first_line(failure)}"
        return row
    row.against, row.unit, row.note = result.against or case.against, result.unit, result.note
    row.verdict, row.ours = "alone", median(result.ours)
    if result.theirs is not None:
        row.theirs = median(result.theirs)
        row.ratio, row.low, row.high = result.ratio(case.goal)
        row.verdict = "met" if case.goal.reached(row.ratio) else "missed"
        if not judged:
            row.verdict = "not judged"
    return row


def run_cases(
    machine: Machine,
    cases: Sequence[Case],
    *,
    only: str | None = None,
    quick: bool = False,
    notes: Sequence[str] = (),
) -> None:
    """Measure the cases whose text contains `only` and print them; exit with code 1 if a row is wrong or failed.

    With `quick`, none is compared with its target.
    """
    chosen = [c for c in cases if only is None or only.casefold() in f"{c.what} {c.against}".casefold()]
    if cases and not chosen:
        names = "; ".join(dict.fromkeys(case.what for case in cases))
        raise OptionError.expected("--only", "part of a row's name", repr(only), f"rows: {names}")
    rows = []
    with progress_bar() as progress:
        for done, case in enumerate(chosen):
            progress("measuring", done, len(chosen))
            rows.append(measure(case, judged=not quick))
    print(f"{machine}\n")
    print(aligned_table(_COLUMNS, [row.cells() for row in rows]))
    told = [*(f"{row.what}: {row.note}" for row in rows if row.note), *notes]
    print("".join(f"\n- {note}" for note in told))
    if any(row.verdict in ("wrong", "failed") for row in rows):
        raise typer.Exit(1)


def sampled(tensor: Tensor, count: int = 8) -> Tensor:
    """About `count` documents spread over a batch: a float64 loop over all of them would not fit."""
    return tensor[:: max(1, tensor.shape[0] // count)]
