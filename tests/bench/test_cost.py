"""Costs: interleaved timing and peak bytes. No assertion depends on how long anything takes."""

import time

import pytest
import torch

from attar.bench.cost import QUICK, Allocations, Contender, Effort, Timer, peak_bytes, torch_threads


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


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


X = torch.zeros(250)  # 1,000 bytes


def test_arguments_do_not_count():
    assert peak_bytes(lambda: X.add_(0)) == 0
    assert peak_bytes(lambda: X.view(5, 50)[1:]) == 0


def test_freed_tensors_count_no_longer():
    def one_after_another():
        for _ in range(5):
            X + 1

    assert peak_bytes(one_after_another) == 1000


def test_live_tensors_add_up():
    assert peak_bytes(lambda: [X + i for i in range(5)]) == 5000


def test_views_count_once():
    assert peak_bytes(lambda: (X + 1).view(5, 50).mT) == 1000


def test_a_tensor_held_only_by_autograd_still_counts():
    leaf = torch.zeros(250, requires_grad=True)
    with Allocations() as made:
        loss = (leaf * 2).exp().sum()
        during = made.live
        loss.backward()
    assert during >= 1000  # exp keeps its own result
    assert made.peak > during


def test_backward_is_counted():
    leaf = torch.zeros(250, requires_grad=True)
    loss = (leaf * leaf).sum()
    assert peak_bytes(lambda: torch.autograd.grad(loss, leaf)) >= 1000
