"""Rows that need a GPU: ours are right, on a CPU too, where flash-linear-attention refuses."""

import pytest
import torch

from attar.bench import QUICK, Timer
from attar.bench.comparison import measure
from attar.ops import encode
from benchmarks.bank_gpu import bank_cases
from benchmarks.ops_gpu import delta_reference, encode_cases, plain_scan, run, scan_cases

TIMER = Timer(QUICK)
SHAPE = (16, 40, 16)


@pytest.mark.parametrize("place", range(6))
def test_rows_of_encode_are_right_on_a_cpu_too(place):
    row = measure(encode_cases(TIMER, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


@pytest.mark.parametrize("place", range(2))
def test_rows_of_the_scan_are_right_on_a_cpu_too(place):
    row = measure(scan_cases(TIMER, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("place", range(2))
def test_rows_of_the_bank_are_right_on_a_cpu_too(place, dtype):
    row = measure(bank_cases(TIMER, 300, 16, dtype=dtype, device="cpu", copied=2**16)[place])
    assert row.verdict in ("met", "missed"), row
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
