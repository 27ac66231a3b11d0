"""Rows that need a GPU: ours are right, on a CPU too, where flash-linear-attention refuses."""

import pytest
import torch

from attar.bench.cost import QUICK, Timer
from attar.ops.gram import encode
from benchmarks.bank_gpu import bank_cases
from benchmarks.comparison import measure
from benchmarks.ops_gpu import delta_reference, encode_cases, plain_scan, run, scan_cases

TIMER = Timer(QUICK)
SHAPE = (16, 40, 16)


def assert_measured(row):
    """Ours is right and timed; where the other runs too, the verdict follows from the ratio."""
    assert row.ours is not None, row
    assert row.ours > 0
    if row.theirs is None:
        assert (row.verdict, row.ratio) == ("alone", None)
        assert row.note  # why there is no other
    else:
        assert row.verdict == ("met" if row.goal.reached(row.ratio) else "missed")
        assert row.theirs > 0


@pytest.mark.parametrize("place", range(6))
def test_rows_of_encode_are_right_on_a_cpu_too(place):
    assert_measured(measure(encode_cases(TIMER, SHAPE, device="cpu")[place]))


@pytest.mark.parametrize("place", range(2))
def test_rows_of_the_scan_are_right_on_a_cpu_too(place):
    assert_measured(measure(scan_cases(TIMER, SHAPE, device="cpu")[place]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("place", range(2))
def test_rows_of_the_bank_are_right_on_a_cpu_too(place, dtype):
    row = measure(bank_cases(TIMER, 300, 16, dtype=dtype, device="cpu", copied=2**16)[place])
    assert_measured(row)
    assert row.theirs is not None
    assert ("TB/s" if place == 0 else "M lookups/s") in row.note


def test_the_plain_scan_equals_encode():
    f, alpha = torch.randn(2, 9, 4), torch.rand(2, 9)
    torch.testing.assert_close(plain_scan(f, alpha), encode(f, alpha=alpha))
    torch.testing.assert_close(plain_scan(f), encode(f))


def test_a_value_that_is_known_is_not_written_again():
    one = torch.ones(1, 2, 1)
    assert delta_reference(one, 3 * one, one[..., 0]).item() == 3


def test_without_a_gpu_one_line_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report = run(quick=True)
    assert report.rows == []
    assert [note for note in report.notes if "CUDA" in note and "\n" not in note]
