"""Ways to rank, measured on made-up texts by the reader that ships."""

import builtins

import numpy as np
import pytest

from attar.search.data import from_passages
from attar.search.encoders import load_encoder
from attar.search.evaluation import FIGURES, Evaluation, evaluation_table, interval, per_query

pytestmark = pytest.mark.slow

PASSAGES = [
    (
        "Rome is the capital of Italy. The Tiber flows through the city.",
        "a",
        ["Which river flows through Rome?"],
    ),
    ("Tea is made from the leaves of Camellia sinensis.", "b", ["What is tea made from?"]),
    ("Salt is mined near Salzburg.", "c", ["Where is salt mined?", "the of and"]),
    ("", "d", []),
]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(None)


@pytest.fixture(scope="module")
def evaluation(encoder):
    return Evaluation(from_passages("set", PASSAGES), encoder, sizes=(16, 128))


def test_every_way_is_measured(evaluation):
    pytest.importorskip("bm25s")
    pytest.importorskip("fastembed")
    rows = list(evaluation.run())
    names = [row.name for row in rows]
    for part in (
        "mean vectors",
        "bm25s",
        "MaxSim of all",
        "pooled",
        "MUVERA",
        "word pieces",
        "int8",
        "default",
    ):
        assert any(part in name for name in names), part
    for row in rows:
        assert set(row.figures) == set(FIGURES)
        assert all(0 <= low <= mean <= high <= 1 for mean, low, high in row.figures.values())
        assert row.bytes > 0
    assert len(evaluation_table(rows)) == len(rows) + 1


def test_words_find_what_shares_words(evaluation):
    rows = {row.name: row for row in evaluation.run(baseline=False)}
    assert rows["BM25 of word pieces"].figures["recall@1"][0] >= 0.75
    assert not any("MUVERA" in name for name in rows)


@pytest.mark.parametrize(("package", "way"), [("bm25s", "bm25s"), ("fastembed.postprocess", "MUVERA")])
def test_a_way_whose_package_is_missing_is_left_out_with_a_line(encoder, monkeypatch, package, way):
    evaluation = Evaluation(from_passages("set", PASSAGES), encoder, sizes=(128,))
    real = builtins.__import__

    def without(name, *rest, **words):
        if name.startswith(package):
            raise ImportError(name)
        return real(name, *rest, **words)

    monkeypatch.setattr(builtins, "__import__", without)
    names = [row.name for row in evaluation.run()]
    (line,) = evaluation.left_out
    assert "pip install" in line
    assert not any(way in name for name in names)
    assert any("default" in name for name in names)
    assert any("MaxSim" in name for name in names)


def test_ndcg_by_hand():
    scores = np.array([5.0, 4.0, 3.0, 2.0], np.float32)
    ndcg, *recalls = per_query(scores, {1: 2.0, 3: 1.0})
    best = 2 + 1 / np.log2(3)
    assert ndcg == pytest.approx((2 / np.log2(3) + 1 / np.log2(5)) / best)
    assert recalls == [0.0, 1.0, 1.0]


def test_intervals_hold_the_mean():
    mean, low, high = interval(np.array([0.0, 1.0] * 50))
    assert low < mean == 0.5 < high
