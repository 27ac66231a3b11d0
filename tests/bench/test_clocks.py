"""Clocks: turns, enough of them, and threads given back. Nothing here depends on how long anything takes."""

import torch

from attar.bench.case import Contender
from attar.bench.clocks import Effort, WallClock, calls_for, torch_threads


def writing(name, order):
    return Contender(name, lambda: order.append(name), lambda: 0.0, 0.0)


def test_contenders_take_turns():
    order = []
    effort = Effort(budget=0.0, rounds=3, round_seconds=0.0)
    times = WallClock(effort).race([writing("a", order), writing("b", order)])
    assert order == ["a", "b"] + ["a", "b"] * 3
    assert [len(t) for t in times] == [3, 3]


def test_a_round_is_as_many_runs_as_it_takes():
    assert calls_for(Effort(round_seconds=0.01), 0.001) == 10
    assert calls_for(Effort(round_seconds=0.01), 5.0) == 1
    assert calls_for(Effort(round_seconds=0.01), 0.0) > 1


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
