"""The CPU time per request of two checkouts."""

from pathlib import Path

import pytest

from attar.errors import OptionError
from benchmarks import compare_server
from benchmarks.compare_server import Row

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_two_checkouts_are_driven_in_turns():
    report = compare_server.run((ROOT, ROOT), rounds=2, seconds=0.5, connections=2, documents=3)
    assert [row.what for row in report.rows] == ["/v1/ask"]
    for row in report.rows:
        assert len(row.first) == len(row.second) == len(row.ratios) == 2
        assert min(row.first + row.second) >= 0


def test_a_row_has_the_medians_and_the_spread_of_its_ratios():
    row = Row("/v1/ask", [0.001, 0.002, 0.003], [0.002] * 3, [2.0, 1.0, 0.667])
    assert row.cells() == ["/v1/ask", "2 ms", "2 ms", "1.000", "0.667", "2.000"]


def test_a_folder_without_the_package_is_refused(tmp_path):
    with pytest.raises(OptionError, match="expected a checkout"):
        compare_server.run((ROOT, tmp_path))
