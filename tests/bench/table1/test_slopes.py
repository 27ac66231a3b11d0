"""Exponents and meeting points of costs whose answer is known."""

import numpy as np
import pytest

from attar.bench.table1.slopes import Slope, meeting_of, slope_of

SIZES = [10, 30, 100, 300, 1_000]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_a_power_is_found_and_has_no_margin(power):
    slope = slope_of(SIZES, [7 * n**power for n in SIZES])
    assert slope.exponent == pytest.approx(power, abs=1e-9)
    assert slope.margin == pytest.approx(0, abs=1e-9)


def test_the_interval_holds_the_truth_nineteen_times_in_twenty():
    noise = np.random.default_rng(0)
    held = 0
    for _ in range(1_000):
        slope = slope_of(SIZES, [n * np.exp(noise.normal(0, 0.2)) for n in SIZES])
        held += abs(slope.exponent - 1) <= slope.margin
    assert 930 <= held <= 970


def test_two_points_are_no_measurement():
    assert slope_of([1, 10], [1, 10]) is None


def test_nothing_is_not_shown_as_less_than_nothing():
    assert str(Slope(-0.0004, 0.001)) == "0.00 ± 0.00"


def test_costs_meet_between_two_sizes():
    assert meeting_of(SIZES, [50] * 5, SIZES).at == pytest.approx(50)


def test_the_last_meeting_counts():
    assert 100 < meeting_of(SIZES, [1, 9, 9, 1, 1], [5] * 5).at < 300


@pytest.mark.parametrize(
    ("ours", "shown"), [([1] * 5, "below 10"), ([9_999] * 5, "beyond 1,000")], ids=["always", "never"]
)
def test_what_lies_outside_is_said_to_lie_outside(ours, shown):
    meeting = meeting_of(SIZES, ours, SIZES)
    assert meeting.at is None
    assert str(meeting) == shown
