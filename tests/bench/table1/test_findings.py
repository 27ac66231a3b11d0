"""Costs that follow the theory exactly give back its exponents and its break-even points."""

import pytest

from attar.bench.table1.costs import READING, Costs, Sizes
from attar.bench.table1.findings import exponents, findings
from attar.bench.table1.turns import Point, Spread

SIZES = Sizes()
K, N = SIZES.k, SIZES.tokens
KINDS = {"softmax, numpy": "softmax", "softmax, SDPA": "softmax", "linear": "memory", "gated": "memory"}


def point(n, m, spread=1.0, **costs):
    names = {"numpy": "softmax, numpy", "sdpa": "softmax, SDPA"}
    return Point(
        n, m, {names.get(way, way): Spread(cost, cost / spread, cost * spread) for way, cost in costs.items()}
    )


def by_theory(spread=1.0):
    """Multiply-adds and numbers in place of seconds and bytes; SDPA takes twice as long as it need."""
    asking = [
        point(n, 1, spread, numpy=2 * n * K, sdpa=4 * n * K, linear=K**2, gated=K**2) for n in SIZES.lengths
    ]
    packed = K * (K + 1) / 2
    keeping = [point(n, 0, numpy=n * K, sdpa=n * K, linear=packed, gated=packed) for n in SIZES.lengths]
    encoding = [
        point(n, 1, spread, **{READING: 6 * n * K**2, "linear": n * K**2, "gated": 2 * n * K**2})
        for n in SIZES.lengths
    ]
    sharing = [
        point(N, m, spread, numpy=2 * m * N * K, linear=(N + m) * K**2, gated=(2 * N + m) * K**2)
        for m in SIZES.questions
    ]
    return Costs(asking, keeping, encoding, sharing, KINDS, [])


def test_measured_exponents_are_the_predicted_ones():
    found = exponents(by_theory(), SIZES)
    assert len(found) == 4 + 4 + 3 + 3
    for line in found:
        assert line.measured.exponent == pytest.approx(line.predicted, abs=1e-9), line


def test_only_memories_ask_and_keep_in_constant_cost():
    flat = {(line.cost, line.way) for line in exponents(by_theory(), SIZES) if line.predicted == 0}
    assert flat == {(cost, way) for cost in ("asking", "keeping") for way in ("linear", "gated")}


def test_every_finding_is_the_counted_one():
    for finding in findings(by_theory(), SIZES, "cpu"):
        # A sum of two powers is no straight line between two sizes.
        close = 0.1 if "all in a call" in finding.what else 1e-9
        assert finding.measured == pytest.approx(finding.by_count, rel=close), finding


def test_break_even_points_of_the_table():
    found = {finding.what: finding.by_table for finding in findings(by_theory(), SIZES, "cpu")}
    assert found["n from which a lookup is quicker than softmax, one question a call"] == K
    assert found["times that a lookup is quicker than softmax, n = 100,000"] == 100_000 / K


def test_noise_makes_a_range_around_each():
    for finding in findings(by_theory(spread=1.1), SIZES, "cpu"):
        if "smaller than H" in finding.what:
            assert finding.low == finding.measured == finding.high
        else:
            assert finding.low < finding.measured < finding.high, finding


def test_a_gpu_keeps_whole_matrices():
    found = {finding.what: finding.by_count for finding in findings(by_theory(), SIZES, "cuda")}
    assert found["n from which a memory is smaller than H"] == K


def test_a_memory_that_never_pays_is_said_never_to_pay():
    costs = by_theory()
    slow = [point(p.tokens, 1, numpy=1.0, linear=2.0, gated=2.0) for p in costs.asking]
    shown = [f.shown for f in findings(Costs(slow, [], costs.encoding, [], KINDS, []), SIZES, "cpu")]
    assert "beyond 100,000" in shown
    assert "never (never … never)" in shown


def test_without_any_softmax_nothing_is_compared():
    found = findings(Costs([], [], [], [], KINDS, []), SIZES, "cpu")
    assert {finding.shown for finding in found} == {"–"}
