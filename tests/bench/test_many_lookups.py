"""The row of many documents a call: right on both sides, and never the same document twice in a round."""

import numpy as np

from attar.bench.case import measure
from attar.bench.clocks import QUICK
from attar.bench.cpu import cpu_cases, groups
from attar.ops import product_in_use


def test_its_row_is_right():
    case = next(case for case in cpu_cases(QUICK, quick=True) if "documents a call" in case.what)
    row = measure(case)
    assert row.verdict in ("met", "missed"), row
    assert "refused" not in row.note
    assert "off by" not in row.note
    assert product_in_use() in row.note


def test_groups_meet_each_document_once():
    met = np.concatenate(groups(10, 3))
    assert len(met) == len(set(met.tolist())) == 9
