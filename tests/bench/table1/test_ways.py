"""Every way to keep a document is right before it is raced, and keeps the bytes that it says."""

import numpy as np
import pytest
import torch

from attar import ops
from attar.bench.table1 import ways
from attar.bench.table1.tokens import TokenIndex, softmax_numpy_many, softmax_torch_many
from attar.bench.table1.ways import TOP, ways_for_many, ways_for_one

K = 12
NAMES = ["softmax, numpy", "softmax, SDPA", f"FAISS, top {TOP}", "linear", "gated"]


def way_named(found, name):
    return next(way for way in found if way.name == name)


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("name", NAMES)
def test_one_question_is_answered_as_in_float64(name, n):
    hidden, queries = torch.randn(n, K) / K**0.5, torch.randn(1, K)
    assert way_named(ways_for_one(K), name).error(hidden, queries) < 1e-5


@pytest.mark.parametrize("m", [1, 7, 2_000])
@pytest.mark.parametrize("name", NAMES)
def test_many_questions_are_answered_as_in_float64(name, m):
    hidden, queries = torch.randn(250, K) / K**0.5, torch.randn(m, K)
    assert way_named(ways_for_many(K, "cpu"), name).error(hidden, queries) < 1e-5


@pytest.mark.parametrize(
    ("name", "numbers"), [("softmax, numpy", 50 * K), (NAMES[2], 50 * K), ("gated", K * (K + 1) // 2)]
)
def test_bytes_are_those_of_the_numbers_kept(name, numbers):
    assert way_named(ways_for_one(K), name).keep(torch.randn(50, K)).nbytes == 4 * numbers


def test_a_broken_lookup_is_far_from_the_referee(monkeypatch):
    right = ops.packed_lookup
    monkeypatch.setattr(ops, "packed_lookup", lambda packed, query: 1.01 * right(packed, query))
    way = way_named(ways_for_one(K), "linear")
    assert way.error(torch.randn(50, K), torch.randn(1, K)) == pytest.approx(0.01, rel=1e-2)


def test_all_softmaxes_for_many_agree():
    hidden, queries = torch.randn(20, K), torch.randn(5, K)
    found = softmax_numpy_many(hidden.numpy(), queries.numpy())
    torch.testing.assert_close(torch.from_numpy(found), softmax_torch_many(hidden, queries))


def test_an_index_that_leaves_out_the_nearest_tokens_is_wrong(monkeypatch):
    way = way_named(ways_for_many(K, "cpu"), NAMES[2])
    right = TokenIndex.nearest

    def farthest(index, queries):
        scores, places = right(index, -queries)
        return -scores, places

    monkeypatch.setattr(TokenIndex, "nearest", farthest)
    assert not way.error(torch.randn(400, K), torch.randn(2, K)) < 1e-5


def test_without_faiss_there_is_no_such_way(monkeypatch):
    monkeypatch.setattr(ways, "faiss_is_installed", lambda: False)
    assert [way.name for way in ways_for_one(K)] == [name for name in NAMES if "FAISS" not in name]


def test_an_index_asks_many_in_parts_and_changes_nothing():
    index = TokenIndex(np.random.randn(60, K).astype(np.float32), 10)
    queries = np.random.randn(index.QUESTIONS_AT_A_TIME + 3, K).astype(np.float32)
    np.testing.assert_allclose(index.ask(queries)[-2:], index.ask(queries[-2:]), rtol=1e-4, atol=1e-5)
