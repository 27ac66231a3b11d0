"""Table 1: methods are right before they are timed, all sizes are timed in turns, and the report shows it all."""

import pytest
import torch
from rich.console import Console

from attar import ops
from attar.errors import DeviceError, OptionError
from attar.paper.table1 import (
    ENCODER,
    TOP,
    Group,
    Sizes,
    TokenIndex,
    measure_costs,
    methods_for_many,
    methods_for_one,
    sizes_for,
    time_groups,
)
from attar.paper.table1_report import (
    choose_device,
    measure_table,
    print_table1,
)
from attar.paper.timing import Contender, Effort, Timer, WrongResultError

TINY = Sizes(k=8, lengths=(5, 20), tokens=20, batches=(1, 6), fit_from=5)
K = 12
FAISS = f"FAISS, top {TOP}"
NAMES = ["softmax, numpy", "softmax, SDPA", FAISS, "linear", "gated"]


def method_named(methods, name):
    return next(method for method in methods if method.name == name)


class TestMethods:
    @pytest.mark.parametrize("n", [1, 40, 300])
    @pytest.mark.parametrize("name", NAMES)
    def test_one_question_is_answered_as_in_float64(self, name, n):
        hidden, queries = torch.randn(n, K) / K**0.5, torch.randn(1, K)
        assert method_named(methods_for_one(K), name).error(hidden, queries) < 1e-5

    @pytest.mark.parametrize("m", [1, 7, 2_000])
    @pytest.mark.parametrize("name", NAMES)
    def test_many_questions_are_answered_as_in_float64(self, name, m):
        hidden, queries = torch.randn(250, K) / K**0.5, torch.randn(m, K)
        assert method_named(methods_for_many(K, "cpu"), name).error(hidden, queries) < 1e-5

    @pytest.mark.parametrize(
        ("name", "numbers"), [("softmax, numpy", 50 * K), (FAISS, 50 * K), ("gated", 78)]
    )
    def test_stored_bytes_are_those_of_the_numbers(self, name, numbers):
        assert method_named(methods_for_one(K), name).store(torch.randn(50, K)).nbytes == 4 * numbers

    def test_wrong_results_are_far_from_the_reference(self, monkeypatch):
        right = ops.packed_lookup
        monkeypatch.setattr(ops, "packed_lookup", lambda packed, query: 1.01 * right(packed, query))
        method = method_named(methods_for_one(K), "linear")
        assert method.error(torch.randn(50, K), torch.randn(1, K)) == pytest.approx(0.01, rel=1e-2)
        nearest = TokenIndex.nearest

        def farthest(index, queries):
            scores, places = nearest(index, -queries)
            return -scores, places

        monkeypatch.setattr(TokenIndex, "nearest", farthest)
        method = method_named(methods_for_many(K, "cpu"), FAISS)
        assert not method.error(torch.randn(400, K), torch.randn(2, K)) < 1e-5


class TestTiming:
    def test_contenders_are_timed_in_turns(self):
        order = []
        contenders = [Contender(name, lambda name=name: order.append(name)) for name in "ab"]
        times = Timer(Effort(budget=0.0, rounds=3, round_seconds=0.0)).time(contenders)
        assert order == ["a", "b"] * 4
        assert [len(t) for t in times] == [3, 3]


class FixedTimer:
    """A timer with known times that records what it timed."""

    def __init__(self, **seconds):
        self.seconds, self.timed = seconds, []

    def time(self, contenders):
        self.timed.append([contender.name for contender in contenders])
        return [[self.seconds[contender.name]] * 3 for contender in contenders]


def contender(name, error=0.0, amount=1.0):
    return Contender(name, lambda: None, lambda: error, 1e-3, amount)


class TestMeasuring:
    def test_every_method_has_a_cost_at_every_size(self):
        reported = []
        costs = measure_costs(TINY, "cpu", quick=True, progress=lambda what, *counts: reported.append(counts))
        assert reported == [(done, 4) for done in range(4)]
        for points in (costs.query_time, costs.stored_bytes):
            assert [point.tokens for point in points] == list(TINY.lengths)
            assert all(list(point.costs) == NAMES for point in points)
        assert [point.questions for point in costs.batch_time] == list(TINY.batches)
        assert all(list(point.costs) == [ENCODER, FAISS, "linear", "gated"] for point in costs.encoding_time)

    def test_a_wrong_memory_is_named_and_nothing_is_timed(self, monkeypatch):
        right = ops.encode
        monkeypatch.setattr(ops, "encode", lambda f, **options: 1.1 * right(f, **options))
        with pytest.raises(WrongResultError, match="linear is off by"):
            measure_costs(TINY, "cpu", quick=True)

    def test_all_sizes_are_timed_together_and_seconds_are_per_unit_of_work(self):
        timer = FixedTimer(a=1.0, b=2.0)
        groups = [Group(10, 4, [contender("a", amount=4.0)]), Group(20, 1, [contender("b")])]
        first, second = time_groups(groups, timer, 1, lambda: None)
        assert timer.timed == [["a", "b"]]
        assert (first.tokens, first.questions, first.costs["a"].median) == (10, 4, 0.25)
        assert set(second.costs) == {"b"}

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_all_of_it_runs_on_a_gpu(self):
        costs = measure_costs(sizes_for(100, "cuda", quick=True), "cuda", quick=True)
        assert all({"softmax, SDPA", "linear", "gated"} <= set(point.costs) for point in costs.query_time)


@pytest.fixture(scope="module")
def table():
    return measure_table(8, "cpu", quick=True)


class TestReport:
    def test_four_parts_and_the_predictions_are_printed_as_markdown_in_a_pipe(self, table, capsys):
        print_table1(table, Console())
        lines = capsys.readouterr().out.splitlines()
        assert [line[:2] for line in lines if line[1:2] == ")"] == ["a)", "b)", "c)", "d)"]
        for row, count in (("predicted exponent", 4), ("measured exponent", 4), ("n from which a packed", 1)):
            assert sum(line.startswith(f"| {row}") for line in lines) == count

    def test_devices_that_are_not_there_are_refused(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert choose_device(None) == "cpu"
        for device, error in (("cuda", DeviceError), ("tpu", OptionError)):
            with pytest.raises(error, match="--device"):
                choose_device(device)
