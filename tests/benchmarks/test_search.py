"""The benchmark of search runs, and its scan finds what all scores say."""

import pytest

from benchmarks import search

pytestmark = pytest.mark.slow  # the default reader, and a library of some hundred documents


def test_every_part_is_measured():
    found = search.run(quick=True)
    assert found["recall@10 of the scan"] == 1.0
    assert found["signatures made per second"] > 0
    assert found["documents"] == 300


def test_made_up_signatures_are_in_clusters():
    packed = search.made_up(400, 129)
    bits = search.np.unpackbits(packed, axis=1).astype(float)
    alike = (bits @ bits.T + (1 - bits) @ (1 - bits).T) / bits.shape[1]
    assert (alike > 0.58).mean() > 0.3
