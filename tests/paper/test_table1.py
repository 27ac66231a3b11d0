"""Table 1: methods are right before they are timed, all sizes are timed in turns, and one table shows it all."""

import pytest
import torch

from attar import ops
from attar.paper import table1
from attar.paper.table1 import make_methods, measure_table
from attar.paper.timing import WrongResultError

K = 12
NAMES = ["softmax", "linear", "gated"]


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("name", NAMES)
def test_a_question_is_answered_as_in_float64(name, n):
    hidden, query = torch.randn(n, K) / K**0.5, torch.randn(K).numpy()
    assert make_methods(K, "cpu")[name].error(hidden, query) < 1e-5


def test_a_wrong_memory_is_named_and_nothing_is_timed(monkeypatch):
    right = ops.encode
    monkeypatch.setattr(ops, "encode", lambda f, **options: 1.1 * right(f, **options))
    monkeypatch.setattr(table1.Timer, "time", None)
    with pytest.raises(WrongResultError, match="linear is off by"):
        measure_table(8, "cpu", quick=True)


@pytest.fixture(scope="module")
def table():
    return measure_table(8, "cpu", quick=True)


def test_predictions_follow_the_counts(table):
    last = table.rows[-1]
    assert list(last.methods) == NAMES
    assert table.predict("question", "softmax", last.tokens) == pytest.approx(
        last.methods["softmax"].question
    )
    for n in (1, 100):  # n = k: half of 2 n k
        half = table.predict("question", "softmax", 8) / 2
        assert table.predict("question", "linear", n) == pytest.approx(half)
    assert table.predict("writing", "gated", 9) == 2 * table.predict("writing", "linear", 9)
    assert [costs.bytes for costs in last.methods.values()] == [4 * 8 * last.tokens, 4 * 36, 4 * 36]
