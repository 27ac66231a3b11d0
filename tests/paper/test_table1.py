"""Every method is measured at every size, in turns; wrong results get no timing and a note."""

import pytest
import torch

from attar import ops
from attar.paper.table1 import (
    ENCODER,
    SCHEDULE,
    Group,
    Sizes,
    encoder_run,
    measure_costs,
    sizes_for,
    time_groups,
    timer_for,
)
from attar.paper.timing import Contender, Effort, Timer

TINY = Sizes(k=8, lengths=(5, 20), tokens=20, batches=(1, 6), fit_from=5)


def measured(progress=lambda what, done, total: None):
    return measure_costs(TINY, "cpu", quick=True, progress=progress)


def test_every_method_has_a_cost_at_every_size():
    costs = measured()
    assert costs.notes == []
    for points, sizes in ((costs.query_time, TINY.lengths), (costs.stored_bytes, TINY.lengths)):
        assert [point.tokens for point in points] == list(sizes)
        assert all(set(point.costs) == set(costs.kinds) for point in points)
    assert [point.questions for point in costs.batch_time] == list(TINY.batches)
    assert all(ENCODER in point.costs for point in costs.encoding_time)


def test_softmax_adds_nothing_to_encoding():
    costs = measured()
    added = {method for point in costs.encoding_time for method in point.costs}
    assert {costs.kinds[method] for method in added - {ENCODER}} == {"nearest", "memory"} & set(
        costs.kinds.values()
    )


def test_progress_counts_every_pass():
    reported = []
    measured(lambda what, done, total: reported.append((done, total)))
    assert reported == [(done, 4) for done in range(4)]


def test_a_wrong_memory_is_named_and_not_timed(monkeypatch):
    right = ops.encode
    monkeypatch.setattr(ops, "encode", lambda f, **options: 1.1 * right(f, **options))
    costs = measured()
    assert all(
        "linear" not in point.costs for point in (*costs.query_time, *costs.encoding_time, *costs.batch_time)
    )
    assert all("gated" in point.costs for point in costs.query_time)
    assert any("linear is off by" in note for note in costs.notes)


def test_the_encoder_equals_its_float64_copy():
    embedded = torch.randn(30, 8)
    gru = encoder_run(embedded)
    assert gru.error() < gru.tolerance


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_full_sizes_are_those_of_the_table(device):
    sizes = sizes_for(100, device)
    assert (sizes.lengths[-1], sizes.batches[-1]) == (100_000, 10_000)
    assert {100, 1_000, 10_000} < set(sizes.lengths)
    assert sizes.tokens in sizes.lengths


def test_a_gpu_is_fed_many_questions_at_a_time():
    assert sizes_for(100, "cuda").per_call > sizes_for(100, "cpu").per_call == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_all_of_it_runs_on_a_gpu():
    costs = measure_costs(sizes_for(100, "cuda", quick=True), "cuda", quick=True)
    assert costs.notes == []
    assert all({"softmax, SDPA", "linear", "gated"} <= set(point.costs) for point in costs.query_time)


class FixedTimer:
    """A timer with known times that records what it timed."""

    def __init__(self, **seconds):
        self.seconds, self.timed = seconds, []

    def time(self, contenders):
        self.timed.append([contender.name for contender in contenders])
        return [[self.seconds[contender.name]] * 3 for contender in contenders]


def contender(name, error=0.0, amount=1.0, run=lambda: None):
    return Contender(name, run, lambda: error, 1e-3, amount)


def test_sizes_are_timed_in_turns_as_well_as_methods():
    order = []
    groups = [
        Group(
            n,
            1,
            [
                contender(method, run=lambda n=n, method=method: order.append(f"{method}{n}"))
                for method in "ab"
            ],
        )
        for n in (1, 2)
    ]
    time_groups(groups, Timer(Effort(budget=0.0, rounds=2, round_seconds=0.0)), 1, [], lambda: None)
    assert order == ["a1", "b1", "a2", "b2"] * 3


def test_seconds_are_per_unit_of_work():
    (point,) = time_groups(
        [Group(7, 4, [contender("a", amount=4.0)])], FixedTimer(a=1.0), 1, [], lambda: None
    )
    assert (point.tokens, point.questions, point.costs["a"].median) == (7, 4, 0.25)


def test_progress_is_reported_before_every_pass():
    timer, reported = FixedTimer(a=1.0), []
    time_groups([Group(7, 1, [contender("a")])], timer, 3, [], lambda: reported.append(len(timer.timed)))
    assert reported == [0, 1, 2]


def test_a_wrong_method_is_left_out_at_that_size_and_named():
    timer, notes = FixedTimer(a=1.0, b=2.0), []
    groups = [Group(10, 1, [contender("a"), contender("b", error=1.0)]), Group(20, 1, [contender("b")])]
    first, second = time_groups(groups, timer, 1, notes, lambda: None)
    assert timer.timed == [["a", "b"]]
    assert (set(first.costs), set(second.costs)) == ({"a"}, {"b"})
    assert notes == ["n = 10, m = 1: b is off by 1.0e+00, more than 1e-03"]


def test_if_all_are_wrong_nothing_is_timed():
    timer = FixedTimer()
    assert time_groups([Group(1, 1, [contender("a", 1.0)])], timer, 2, [], lambda: None)[0].costs == {}
    assert timer.timed == []


@pytest.mark.parametrize(("device", "clock"), [("cpu", "cpu"), ("cuda", "gpu")])
@pytest.mark.parametrize("part", SCHEDULE)
def test_each_device_has_its_own_clock(part, device, clock):
    assert timer_for(part, device)[1].clock == clock
