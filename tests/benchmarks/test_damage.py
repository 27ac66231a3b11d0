"""Flipped bits and truncations: no wrong answer and no crash; `python -m benchmarks.damage` tries thousands."""

import pytest

from benchmarks.damage import try_damages


@pytest.mark.slow
def test_damaged_stores_give_right_answers_or_errors():
    report = try_damages(flips=12, tree_flips=12, cuts=8, seed=5, documents=18)
    assert report.wrong == []
    assert report.reading.total() == report.maintaining.total() == 32
    assert report.maintaining["repaired"] > 5
