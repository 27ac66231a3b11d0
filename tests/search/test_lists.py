"""Inverted lists: they hold each row once, find what the scan of all finds, and grow with an index."""

import sys

import numpy as np
import pytest

from attar.search.scan import InvertedLists, ListKeeper
from benchmarks.search import best, made_up, queries_like

pytestmark = pytest.mark.slow

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def packed():
    return made_up(6_000, 1_032)


@pytest.fixture(scope="module")
def lists(packed):
    return InvertedLists.of(packed)


def recall(packed, lists, queries):
    exact = best(packed, queries, 10)
    found = [best(packed, query[None], 10, lists.near(query, 8))[0] for query in queries]
    return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, exact.tolist(), strict=True)])


def test_each_row_is_in_one_list(lists):
    np.testing.assert_array_equal(np.sort(lists.order), np.arange(6_000))
    assert (lists.bounds[0], lists.bounds[-1]) == (0, 6_000)


def test_the_nearest_lists_hold_the_best_signatures(packed, lists):
    queries = queries_like(packed, 32)
    assert len(lists.near(queries[0], 8)) < 0.3 * len(packed)
    assert recall(packed, lists, queries) >= 0.95


def test_lists_that_are_extended_find_the_rows_that_follow(packed):
    longer = InvertedLists.of(packed[:4_000]).extended(packed)
    assert len(longer) == 6_000
    np.testing.assert_array_equal(np.sort(longer.order), np.arange(6_000))
    assert recall(packed, longer, queries_like(packed[4_000:], 32)) >= 0.95


def test_of_twice_as_many_rows_the_centres_are_found_anew(packed):
    few = InvertedLists.of(packed[:1_000])
    assert len(few.extended(packed[:2_000]).centres) == len(few.centres)
    assert len(few.extended(packed).centres) > 2 * len(few.centres)


def test_a_keeper_makes_lists_and_extends_them_once_many_rows_are_missing(packed, monkeypatch):
    monkeypatch.setattr("attar.search.scan._TAIL", 100)
    keeper = ListKeeper()
    for rows, expected in ((4_000, 4_000), (4_100, 4_000), (4_101, 4_101)):
        keeper.keep(packed[:rows])
        keeper.wait()
        assert len(keeper.lists) == expected


def test_lists_of_rows_that_are_numbered_anew_are_never_kept(packed):
    keeper = ListKeeper()
    keeper.keep(packed)
    building = keeper._current
    keeper.clear()
    building.join()
    assert keeper.lists is None


def test_without_faiss_there_are_no_lists(packed, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    keeper = ListKeeper()
    keeper.keep(packed)
    keeper.wait()
    assert keeper.lists is None


def test_a_faiss_that_does_not_load_is_not_tried_again(packed, monkeypatch, tmp_path):
    (tmp_path / "faiss.py").write_text("raise ImportError('no library')")
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    keeper = ListKeeper()
    keeper.keep(packed)
    keeper.wait()
    first = keeper._current
    keeper.keep(packed)
    assert keeper._current is first
    assert keeper.lists is None
