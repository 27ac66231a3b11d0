"""The scan: rounded scores are near the exact ones, and the compiled ones are the plain ones."""

import sys

import numpy as np
import pytest

from attar.search import ranking


@pytest.fixture(scope="module")
def signatures():
    random = np.random.default_rng(0)
    packed = random.integers(0, 256, (5_000, 129), dtype=np.uint8)
    return packed, random.standard_normal((3, 1_030)).astype(np.float32)


def test_scores_are_sums_over_signs(signatures):
    packed, queries = signatures
    bits = np.unpackbits(packed[:50], axis=1, count=1_030, bitorder="little").astype(np.float32)
    np.testing.assert_allclose(
        ranking.scores(packed[:50], queries), queries @ (2 * bits - 1).T, rtol=1e-4, atol=1e-3
    )


def test_compiled_scores_are_the_plain_ones(signatures, monkeypatch):
    pytest.importorskip("numba")
    packed, queries = signatures
    compiled = ranking.rounded_scores(packed, queries)
    monkeypatch.setitem(sys.modules, "attar.search.fast_scan", None)
    np.testing.assert_allclose(ranking.rounded_scores(packed, queries), compiled, rtol=1e-6, atol=1e-6)


def test_rounded_scores_are_near_the_exact_ones(signatures):
    packed, queries = signatures
    exact, rounded = ranking.scores(packed, queries), ranking.rounded_scores(packed, queries)
    # Four levels that lose least of normal numbers leave .8825 of their variance (Max, 1960): the root is .939.
    for one, other in zip(exact, rounded, strict=True):
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(0.939, abs=0.01)


@pytest.mark.parametrize("rounded", [True, False], ids=["rounded", "exact"])
def test_scores_of_many_queries_are_bit_for_bit_those_of_each_alone(rounded):
    random = np.random.default_rng(1)
    # 37 rows are no whole number of blocks; queries of very different sizes.
    packed = random.integers(0, 256, (1_061, 129), dtype=np.uint8)
    queries = (random.standard_normal((9, 1_030)) * 10.0 ** np.arange(-4, 5)[:, None]).astype(np.float32)
    rows = np.sort(random.permutation(1_061)[:37])
    together = ranking.near_scores(packed, queries, rounded, rows)
    alone = [ranking.near_scores(packed, query[None], rounded, rows)[0] for query in queries]
    np.testing.assert_array_equal(together, np.stack(alone))
    of_all = ranking.near_scores(packed, queries, rounded)
    np.testing.assert_array_equal(together, of_all[:, rows])
