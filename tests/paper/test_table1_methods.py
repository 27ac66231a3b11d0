"""Every method of Table 1 is right, and stores as many bytes as it should."""

import pytest
import torch

from attar import ops
from attar.paper import table1_methods as baselines
from attar.paper.table1_methods import TOP, TokenIndex, methods_for_many, methods_for_one

K = 12
NAMES = ["softmax, numpy", "softmax, SDPA", f"FAISS, top {TOP}", "linear", "gated"]


def method_named(methods, name):
    return next(method for method in methods if method.name == name)


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("name", NAMES)
def test_one_question_is_answered_as_in_float64(name, n):
    hidden, queries = torch.randn(n, K) / K**0.5, torch.randn(1, K)
    assert method_named(methods_for_one(K), name).error(hidden, queries) < 1e-5


@pytest.mark.parametrize("m", [1, 7, 2_000])
@pytest.mark.parametrize("name", NAMES)
def test_many_questions_are_answered_as_in_float64(name, m):
    hidden, queries = torch.randn(250, K) / K**0.5, torch.randn(m, K)
    assert method_named(methods_for_many(K, "cpu"), name).error(hidden, queries) < 1e-5


@pytest.mark.parametrize(
    ("name", "numbers"), [("softmax, numpy", 50 * K), (NAMES[2], 50 * K), ("gated", K * (K + 1) // 2)]
)
def test_stored_bytes_are_those_of_the_numbers(name, numbers):
    assert method_named(methods_for_one(K), name).store(torch.randn(50, K)).nbytes == 4 * numbers


def test_a_broken_lookup_is_far_from_the_reference(monkeypatch):
    right = ops.packed_lookup
    monkeypatch.setattr(ops, "packed_lookup", lambda packed, query: 1.01 * right(packed, query))
    method = method_named(methods_for_one(K), "linear")
    assert method.error(torch.randn(50, K), torch.randn(1, K)) == pytest.approx(0.01, rel=1e-2)


def test_an_index_that_leaves_out_the_nearest_tokens_is_wrong(monkeypatch):
    method = method_named(methods_for_many(K, "cpu"), NAMES[2])
    right = TokenIndex.nearest

    def farthest(index, queries):
        scores, places = right(index, -queries)
        return -scores, places

    monkeypatch.setattr(TokenIndex, "nearest", farthest)
    assert not method.error(torch.randn(400, K), torch.randn(2, K)) < 1e-5


def test_without_faiss_there_is_no_such_method(monkeypatch):
    monkeypatch.setattr(baselines, "faiss_is_installed", lambda: False)
    assert [method.name for method in methods_for_one(K)] == [name for name in NAMES if "FAISS" not in name]
