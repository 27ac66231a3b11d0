"""Interleaved timing. No assertion depends on how long anything takes."""

import time

import pytest
import torch
from threadpoolctl import threadpool_info

from attar.paper.timing import QUICK, Contender, Effort, Timer, limited_threads


def recording(name, order):
    return Contender(name, lambda: order.append(name))


def test_contenders_are_timed_in_turns():
    order = []
    effort = Effort(budget=0.0, rounds=3, round_seconds=0.0)
    times = Timer(effort).time([recording("a", order), recording("b", order)])
    assert order == ["a", "b"] + ["a", "b"] * 3
    assert [len(t) for t in times] == [3, 3]


@pytest.mark.parametrize(("seconds", "calls"), [(0.001, 10), (5.0, 1), (0.003, 4)])
def test_a_round_is_as_many_runs_as_it_takes(monkeypatch, seconds, calls):
    monkeypatch.setattr(Timer, "seconds_for", lambda self, run, count: seconds * count)
    assert Timer(Effort(round_seconds=0.01)).calls_per_round(lambda: None) == calls


def test_short_runs_are_repeated_before_they_are_counted():
    ran = []
    Timer(Effort(round_seconds=1e-9)).calls_per_round(lambda: ran.append(sum(range(10_000))))
    assert len(ran) == 1
    Timer(Effort(round_seconds=60.0)).calls_per_round(lambda: ran.append(0))
    assert len(ran) == 1 + 1 + 5


def test_cpu_time_leaves_out_time_spent_waiting():
    def wait():
        time.sleep(0.05)

    assert Timer(QUICK, "wall").seconds_for(wait, 2) >= 0.1
    assert Timer(QUICK, "cpu").seconds_for(wait, 2) < 0.1


def blas_threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_the_threads_of_torch_and_blas_are_limited_and_restored():
    before = torch.get_num_threads(), blas_threads()
    with limited_threads(1):
        assert torch.get_num_threads() == 1
        assert set(blas_threads()) == {1}
    assert (torch.get_num_threads(), blas_threads()) == before
