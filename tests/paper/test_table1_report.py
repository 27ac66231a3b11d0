"""Fits of known costs, and costs that follow the theory exactly: they give its exponents and break-even points."""

import numpy as np
import pytest

from attar.paper.table1 import ENCODER, Costs, Point, Sizes, Spread
from attar.paper.table1_report import find_crossing, fit_exponents, fit_slope, predict

SIZES = Sizes()
K, N = SIZES.k, SIZES.tokens


def point(n, m, spread=1.0, **costs):
    names = {"numpy": "softmax, numpy", "sdpa": "softmax, SDPA"}
    return Point(
        n, m, {names.get(way, way): Spread(cost, cost / spread, cost * spread) for way, cost in costs.items()}
    )


def by_theory(spread=1.0):
    """Multiply-adds and numbers in place of seconds and bytes; SDPA takes twice as long as it need."""
    query_time = [
        point(n, 1, spread, numpy=2 * n * K, sdpa=4 * n * K, linear=K**2, gated=K**2) for n in SIZES.lengths
    ]
    packed = K * (K + 1) / 2
    stored_bytes = [point(n, 0, numpy=n * K, sdpa=n * K, linear=packed, gated=packed) for n in SIZES.lengths]
    encoding_time = [
        point(n, 1, spread, **{ENCODER: 6 * n * K**2, "linear": n * K**2, "gated": 2 * n * K**2})
        for n in SIZES.lengths
    ]
    batch_time = [
        point(N, m, spread, numpy=2 * m * N * K, linear=(N + m) * K**2, gated=(2 * N + m) * K**2)
        for m in SIZES.batches
    ]
    return Costs(query_time, stored_bytes, encoding_time, batch_time)


def test_measured_exponents_are_the_predicted_ones():
    found = fit_exponents(by_theory(), SIZES)
    assert len(found) == 4 + 4 + 3 + 3
    for line in found:
        assert line.measured.exponent == pytest.approx(line.predicted, abs=1e-9), line


def test_only_memories_have_constant_query_time_and_size():
    flat = {(line.cost, line.method) for line in fit_exponents(by_theory(), SIZES) if line.predicted == 0}
    assert flat == {(cost, way) for cost in ("query_time", "stored_bytes") for way in ("linear", "gated")}


def test_measured_values_equal_the_counted_predictions():
    for prediction in predict(by_theory(), SIZES, "cpu"):
        # A sum of two powers is no straight line between two sizes.
        close = 0.1 if "all in one call" in prediction.what else 1e-9
        assert prediction.measured == pytest.approx(prediction.by_count, rel=close), prediction


def test_break_even_points_of_the_table():
    found = {prediction.what: prediction.by_table for prediction in predict(by_theory(), SIZES, "cpu")}
    assert found["n from which a lookup is faster than softmax, one question per call"] == K
    assert found["times that a lookup is faster than softmax, n = 100,000"] == 100_000 / K


def test_noise_gives_a_range_around_each_value():
    for prediction in predict(by_theory(spread=1.1), SIZES, "cpu"):
        if "smaller than H" in prediction.what:
            assert prediction.low == prediction.measured == prediction.high
        else:
            assert prediction.low < prediction.measured < prediction.high, prediction


def test_a_memory_that_never_pays_is_reported_as_never():
    costs = by_theory()
    slow = [point(p.tokens, 1, numpy=1.0, linear=2.0, gated=2.0) for p in costs.query_time]
    slower = Costs(slow, costs.stored_bytes, costs.encoding_time, costs.batch_time)
    shown = [prediction.shown for prediction in predict(slower, SIZES, "cpu")]
    assert "beyond 100,000" in shown
    assert "never (never … never)" in shown


FEW = [10, 30, 100, 300, 1_000]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_a_power_is_found_and_has_no_margin(power):
    slope = fit_slope(FEW, [7 * n**power for n in FEW])
    assert slope.exponent == pytest.approx(power, abs=1e-9)
    assert slope.margin == pytest.approx(0, abs=1e-9)


def test_the_interval_holds_the_truth_nineteen_times_in_twenty():
    noise = np.random.default_rng(0)
    held = 0
    for _ in range(1_000):
        slope = fit_slope(FEW, [n * np.exp(noise.normal(0, 0.2)) for n in FEW])
        held += abs(slope.exponent - 1) <= slope.margin
    assert 930 <= held <= 970


def test_the_last_crossing_counts():
    assert 100 < find_crossing(FEW, [1, 9, 9, 1, 1], [5] * 5).at < 300


@pytest.mark.parametrize(
    ("ours", "shown"), [([1] * 5, "below 10"), ([9_999] * 5, "beyond 1,000")], ids=["always", "never"]
)
def test_a_crossing_outside_of_the_sizes_is_reported_as_such(ours, shown):
    crossing = find_crossing(FEW, ours, FEW)
    assert crossing.at is None
    assert crossing.text == shown
