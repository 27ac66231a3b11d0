"""Comparisons: contenders are checked before they are timed, and wrong ones get no timing."""

import math

import pytest

from attar.bench.comparison import Case, Comparison, Goal, compare, compare_with_limit, measure
from attar.bench.cost import Contender

FASTER = Goal(2)


class FixedTimer:
    """A timer with known times that records what it timed."""

    def __init__(self, **seconds):
        self.seconds, self.timed = seconds, []

    def time(self, contenders):
        self.timed += [contender.name for contender in contenders]
        return [[self.seconds[contender.name]] * 3 for contender in contenders]


def contender(name, error=0.0, amount=1.0):
    return Contender(name, lambda: None, lambda: error, 1e-3, amount)


def refusing(name):
    def refuse():
        raise RuntimeError("not on this chip\nand a long story")

    return Contender(name, refuse, refuse, 1e-3)


def row_of(goal, ours, baselines, timer, **options):
    return measure(Case("what", "against", goal, lambda: compare(ours, baselines, timer)), **options)


def test_the_ratio_is_how_many_times_faster_ours_is():
    row = row_of(FASTER, contender("ours"), [contender("theirs")], FixedTimer(ours=1.0, theirs=3.0))
    assert (row.ratio, row.verdict, row.met, row.against) == (3.0, "met", True, "theirs")


def test_a_ratio_below_the_target_is_missed():
    row = row_of(FASTER, contender("ours"), [contender("theirs")], FixedTimer(ours=1.0, theirs=1.5))
    assert (row.ratio, row.verdict, row.met) == (1.5, "missed", False)


@pytest.mark.parametrize("theirs", [1.5, 3.0])
def test_a_row_that_is_not_judged_has_a_ratio_but_no_verdict(theirs):
    timer = FixedTimer(ours=1.0, theirs=theirs)
    row = row_of(FASTER, contender("ours"), [contender("theirs")], timer, judged=False)
    assert (row.ratio, row.verdict, row.met) == (theirs, "not judged", None)


def test_wrong_results_are_reported_even_if_rows_are_not_judged():
    row = row_of(FASTER, contender("ours", 1.0), [], FixedTimer(), judged=False)
    assert (row.verdict, row.met) == ("wrong", False)


def test_the_ratio_of_a_cost_is_ours_over_theirs():
    goal = Goal(1.2, at_least=False)
    row = row_of(goal, contender("ours"), [contender("theirs")], FixedTimer(ours=1.1, theirs=1.0))
    assert row.ratio == pytest.approx(1.1)
    assert row.met


@pytest.mark.parametrize(("ours", "verdict"), [(0.5, "met"), (0.4, "missed")])
def test_a_higher_accuracy_is_better(ours, verdict):
    result = Comparison([ours], [0.45], "%", higher_is_better=True)
    row = measure(Case("what", "against", Goal(1), lambda: result))
    assert row.ratio == pytest.approx(ours / 0.45)
    assert row.verdict == verdict


@pytest.mark.parametrize("error", [0.5, math.inf, math.nan])
def test_a_wrong_result_gets_no_timing(error):
    timer = FixedTimer(ours=1.0, theirs=3.0)
    row = row_of(FASTER, contender("ours", error), [contender("theirs")], timer)
    assert timer.timed == []
    assert row.verdict == "wrong"
    assert (row.ratio, row.ours, row.theirs, row.met) == (None, None, None, False)
    assert "ours is off by" in row.note


def test_a_wrong_baseline_is_left_out_and_named():
    timer = FixedTimer(ours=1.0, right=4.0)
    row = row_of(FASTER, contender("ours"), [contender("wrong", error=1.0), contender("right")], timer)
    assert timer.timed == ["ours", "right"]
    assert row.ratio == 4.0
    assert "wrong is off by" in row.note


def test_a_baseline_that_refuses_is_left_out_and_its_message_quoted_in_one_line():
    timer = FixedTimer(ours=1.0, right=4.0)
    row = row_of(FASTER, contender("ours"), [refusing("fla"), contender("right")], timer)
    assert row.against == "right"
    assert "fla refused: not on this chip" in row.note
    assert "\n" not in row.note


def test_the_fastest_baseline_counts():
    timer = FixedTimer(ours=1.0, slow=9.0, fast=2.5)
    row = row_of(FASTER, contender("ours"), [contender("slow"), contender("fast")], timer)
    assert (row.against, row.ratio) == ("fast", 2.5)


def test_without_a_baseline_ours_is_timed_alone():
    row = row_of(FASTER, contender("ours"), [refusing("fla")], FixedTimer(ours=1.0))
    assert (row.verdict, row.ratio, row.ours, row.met) == ("alone", None, 1.0, False)


@pytest.mark.parametrize(("first", "timed"), [(contender("fla"), "fla"), (refusing("fla"), "plain")])
def test_the_fallback_is_timed_only_if_every_baseline_fails(first, timed):
    timer = FixedTimer(ours=1.0, fla=3.0, plain=90.0)
    compare(contender("ours"), [first], timer, [contender("plain")])
    assert timer.timed == ["ours", timed]


def test_times_are_divided_by_amounts_for_the_ratio_and_printed_as_they_are():
    timer = FixedTimer(ours=1.0, copy=1.0)
    row = row_of(Goal(0.85), contender("ours", amount=90.0), [contender("copy", amount=100.0)], timer)
    assert row.ratio == pytest.approx(0.9)
    assert (row.ours, row.theirs) == (1.0, 1.0)


def test_a_limit_is_compared_with_the_time_per_unit_of_work():
    result = compare_with_limit(contender("ours", amount=4.0), 0.5, FixedTimer(ours=1.0))
    assert result.ratio(Goal(1)) == (2.0, 2.0, 2.0)


def test_a_wrong_result_is_not_compared_with_a_limit():
    case = Case(
        "what", "a limit", Goal(1), lambda: compare_with_limit(contender("x", 1.0), 1.0, FixedTimer())
    )
    assert measure(case).verdict == "wrong"


def test_a_case_that_raises_becomes_a_failed_row():
    def broken():
        raise KeyError("lost")

    row = measure(Case("what", "against", FASTER, broken))
    assert row.verdict == "failed"
    assert "KeyError" in row.note


def test_the_spread_is_of_the_ratios_per_round():
    ratio, low, high = Comparison([1.0] * 20, [2.0] * 17 + [1.0, 9.0, 9.0]).ratio(FASTER)
    assert (ratio, low) == (2.0, 2.0)
    assert high > 2.0
