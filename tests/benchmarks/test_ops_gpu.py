"""Rows that compare with flash-linear-attention: ours are right, on a CPU too, where fla refuses."""

import pytest
import torch

from attar.bench import QUICK, Timer
from attar.bench.comparison import measure
from benchmarks.ops_gpu import delta_reference, encode_cases, run, scan_cases

TIMER = Timer(QUICK)
SHAPE = (16, 40, 16)


@pytest.mark.parametrize("place", range(4))
def test_rows_of_encode_are_right_on_a_cpu_too(place):
    row = measure(encode_cases(TIMER, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


@pytest.mark.parametrize("place", range(2))
def test_rows_of_the_scan_are_right_on_a_cpu_too(place):
    row = measure(scan_cases(TIMER, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


def test_a_value_that_is_known_is_not_written_again():
    one = torch.ones(1, 2, 1)
    assert delta_reference(one, 3 * one, one[..., 0]).item() == 3


def test_without_a_gpu_one_line_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report = run(quick=True)
    assert report.rows == []
    assert [note for note in report.notes if "CUDA" in note and "\n" not in note]
