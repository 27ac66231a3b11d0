"""Costs follow the rates; the simulation of shards behaves as queues do; the command runs."""

import numpy as np
import pytest

from benchmarks import scale

RATES = scale.Rates(
    tokens=150, read=100, disk=8_000, index=1_400, lookup=2e5, ask=500, scan=1e7, answer=0.01, merge=1e-4
)


def test_costs_are_the_rates_times_the_numbers():
    found = scale.costs(RATES, 1e9, 1e4)
    assert found["disk (GB)"] == 8_000
    assert found["core-days to read"] == pytest.approx(1e7 / 86_400)
    assert found["cores, lookups"] == 0.05
    assert found["cores, one document per question"] == 20
    assert found["cores, all documents per question"] == pytest.approx(1e4 * (100 + 0.01))


def test_equal_service_times_without_load_are_the_latency():
    times = np.full(3, 0.02)
    found = scale.simulate(times, shards=50, replicas=2, load=0.001, questions=400)
    assert found["p50 (ms)"] == pytest.approx(20, rel=0.01)


def test_the_slowest_of_many_shards_decides():
    times = np.random.default_rng(0).exponential(0.01, 500)
    one, many = (scale.simulate(times, shards, 1, 0.01, 400)["p50 (ms)"] for shards in (1, 200))
    assert many > 3 * one


def test_replicas_shorten_the_queues_at_the_same_load():
    times = np.random.default_rng(0).exponential(0.01, 500)
    one, four = (scale.simulate(times, 20, replicas, 0.7, 2_000)["p99 (ms)"] for replicas in (1, 4))
    assert four < one


@pytest.mark.slow  # the default reader, and a library of some hundred documents
def test_the_command_measures_and_simulates():
    found = scale.run(quick=True, shards=20)
    assert all(value > 0 for name, value in found["rates"].items() if name != "answer")
    assert len(found["costs"]) == 4
    assert len(found["simulation"]) == 6
