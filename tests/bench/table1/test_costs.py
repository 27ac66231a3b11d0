"""Every size is measured for every way; what is wrong gets no timing and is named."""

import pytest
import torch

from attar import ops
from attar.bench.table1.costs import READING, Sizes, gru_over, measure_costs, sizes_for
from attar.bench.table1.turns import schedule_for

TINY = Sizes(k=8, lengths=(5, 20), tokens=20, questions=(1, 6), fit_from=5)


def measured(tell=lambda done, total, what: None):
    return measure_costs(TINY, "cpu", schedule_for("cpu", quick=True), tell)


def test_every_way_has_a_cost_at_every_size():
    costs = measured()
    assert costs.notes == []
    for points, sizes in ((costs.asking, TINY.lengths), (costs.keeping, TINY.lengths)):
        assert [point.tokens for point in points] == list(sizes)
        assert all(set(point.costs) == set(costs.kinds) for point in points)
    assert [point.questions for point in costs.sharing] == list(TINY.questions)
    assert all(READING in point.costs for point in costs.encoding)


def test_softmax_adds_nothing_to_encoding():
    costs = measured()
    added = {way for point in costs.encoding for way in point.costs}
    assert {costs.kinds[way] for way in added - {READING}} == {"nearest", "memory"} & set(
        costs.kinds.values()
    )


def test_progress_counts_every_pass():
    told = []
    measured(lambda done, total, what: told.append((done, total)))
    assert told == [(done, 4) for done in range(4)]


def test_a_wrong_memory_is_named_and_not_timed(monkeypatch):
    right = ops.encode
    monkeypatch.setattr(ops, "encode", lambda f, **options: 1.1 * right(f, **options))
    costs = measured()
    assert all("linear" not in point.costs for point in (*costs.asking, *costs.encoding, *costs.sharing))
    assert all("gated" in point.costs for point in costs.asking)
    assert any("linear is off by" in note for note in costs.notes)


def test_a_document_is_read_in_order():
    embedded = torch.randn(30, 8)
    gru = gru_over(embedded)
    assert gru.error() < gru.tolerance


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_full_sizes_are_those_of_the_table(device):
    sizes = sizes_for(100, device)
    assert (sizes.lengths[-1], sizes.questions[-1]) == (100_000, 10_000)
    assert {100, 1_000, 10_000} < set(sizes.lengths)
    assert sizes.tokens in sizes.lengths


def test_a_gpu_is_fed_many_questions_at_a_time():
    assert sizes_for(100, "cuda").together > sizes_for(100, "cpu").together == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_all_of_it_runs_on_a_gpu():
    sizes, schedule = sizes_for(100, "cuda", quick=True), schedule_for("cuda", quick=True)
    costs = measure_costs(sizes, "cuda", schedule, lambda done, total, what: None)
    assert costs.notes == []
    assert all({"softmax, SDPA", "linear", "gated"} <= set(point.costs) for point in costs.asking)
