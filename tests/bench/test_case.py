"""Rows: checked before they are timed, and not timed when they are wrong."""

import math

import pytest

from attar.bench.case import Case, Contender, Goal, Measurement, duel, measure, ratio_of, weigh

FASTER = Goal(2)


class SetClock:
    """A clock whose times are known; it remembers whom it timed."""

    def __init__(self, **seconds):
        self.seconds, self.timed = seconds, []

    def race(self, contenders):
        self.timed += [contender.name for contender in contenders]
        return [[self.seconds[contender.name]] * 3 for contender in contenders]


def contender(name, error=0.0, amount=1.0):
    return Contender(name, lambda: None, lambda: error, 1e-3, amount)


def refusing(name):
    def refuse():
        raise RuntimeError("not on this chip\nand a long story")

    return Contender(name, refuse, refuse, 1e-3)


def row_of(goal, ours, rivals, clock):
    return measure(Case("what", "against", goal, lambda: duel(goal, ours, rivals, clock)))


def test_the_ratio_says_how_many_times_quicker():
    row = row_of(FASTER, contender("ours"), [contender("theirs")], SetClock(ours=1.0, theirs=3.0))
    assert (row.ratio, row.verdict, row.met, row.against) == (3.0, "met", True, "theirs")


def test_a_ratio_below_the_target_is_missed():
    row = row_of(FASTER, contender("ours"), [contender("theirs")], SetClock(ours=1.0, theirs=1.5))
    assert (row.ratio, row.verdict) == (1.5, "missed")


def test_a_cost_has_the_ratio_the_other_way_round():
    goal = Goal(1.2, at_least=False)
    row = row_of(goal, contender("ours"), [contender("theirs")], SetClock(ours=1.1, theirs=1.0))
    assert row.ratio == pytest.approx(1.1)
    assert row.met


@pytest.mark.parametrize("error", [0.5, math.inf, math.nan])
def test_a_wrong_result_gets_no_timing(error):
    clock = SetClock(ours=1.0, theirs=3.0)
    row = row_of(FASTER, contender("ours", error), [contender("theirs")], clock)
    assert clock.timed == []
    assert row.verdict == "wrong"
    assert (row.ratio, row.ours, row.theirs, row.met) == (None, None, None, False)
    assert "ours is off by" in row.note


def test_a_wrong_rival_is_left_out_and_named():
    clock = SetClock(ours=1.0, right=4.0)
    row = row_of(FASTER, contender("ours"), [contender("cheat", error=1.0), contender("right")], clock)
    assert clock.timed == ["ours", "right"]
    assert row.ratio == 4.0
    assert "cheat is off by" in row.note


def test_a_rival_that_refuses_is_left_out_and_quoted_in_a_line():
    clock = SetClock(ours=1.0, right=4.0)
    row = row_of(FASTER, contender("ours"), [refusing("fla"), contender("right")], clock)
    assert row.against == "right"
    assert "fla refused: not on this chip" in row.note
    assert "\n" not in row.note


def test_the_quickest_rival_counts():
    clock = SetClock(ours=1.0, slow=9.0, quick=2.5)
    row = row_of(FASTER, contender("ours"), [contender("slow"), contender("quick")], clock)
    assert (row.against, row.ratio) == ("quick", 2.5)


def test_without_any_rival_ours_is_timed_alone():
    row = row_of(FASTER, contender("ours"), [refusing("fla")], SetClock(ours=1.0))
    assert (row.verdict, row.ratio, row.ours, row.met) == ("alone", None, 1.0, False)


@pytest.mark.parametrize(("first", "timed"), [(contender("fla"), "fla"), (refusing("fla"), "plain")])
def test_a_stand_in_is_timed_only_where_every_rival_fails(first, timed):
    clock = SetClock(ours=1.0, fla=3.0, plain=90.0)
    duel(FASTER, contender("ours"), [first], clock, [contender("plain")])
    assert clock.timed == ["ours", timed]


def test_amounts_turn_times_into_rates():
    clock = SetClock(ours=1.0, copy=1.0)
    row = row_of(Goal(0.85), contender("ours", amount=90.0), [contender("copy", amount=100.0)], clock)
    assert row.ratio == pytest.approx(0.9)


def test_bytes_are_weighed_without_a_clock():
    goal = Goal(1.5, at_least=False)
    found = weigh(goal, contender("ours"), lambda: 120.0, 100.0)
    assert (found.ratio, found.unit) == (1.2, "B")


def test_a_row_that_breaks_does_not_cost_the_others():
    def broken() -> Measurement:
        raise KeyError("lost")

    row = measure(Case("what", "against", FASTER, broken))
    assert row.verdict == "failed"
    assert "KeyError" in row.note


def test_the_spread_is_of_the_rounds_own_ratios():
    ratio, low, high = ratio_of(FASTER, [1.0] * 20, [2.0] * 18 + [1.0, 9.0])
    assert ratio == 2.0
    assert low <= 2.0 <= high
