"""Table 1: every method is right, and one table shows it all."""

import pytest
import torch

from attar import ops
from attar.paper.table1 import make_methods, measure_table, softmax_torch

K = 12
NAMES = ["softmax", "linear", "gated"]


@pytest.mark.parametrize("n", [1, 40, 300])
def test_a_question_is_answered_as_in_float64(monkeypatch, n):
    monkeypatch.setattr(ops, "gated", lambda f, weight, bias: f / 2)
    hidden, query = torch.randn(n, K) / K**0.5, torch.randn(K)
    H, q = hidden.double(), query.double()
    sums = (q @ H.mT) @ H
    expected = {"softmax": softmax_torch(H, q), "linear": sums, "gated": sums / 4}
    for name, method in make_methods(K, "cpu").items():
        found = torch.from_numpy(method.lookup(method.store(hidden), query.numpy()))
        torch.testing.assert_close(found.double(), expected[name], rtol=1e-5, atol=1e-5)


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
