"""Every row of the benchmark, measured with tiny sizes: right, named after its size, and complete."""

import pytest
import torch

from attar.bench.case import measure
from attar.bench.clocks import QUICK, WallClock
from attar.bench.cpu import cpu_cases
from attar.bench.gpu_bank import bank_cases
from attar.bench.gpu_encode import encode_cases
from attar.bench.gpu_scan import scan_cases
from attar.bench.ops import cases, chosen
from attar.errors import OptionError

CLOCK = WallClock(QUICK)
SHAPE = (16, 40, 16)


@pytest.mark.parametrize("place", range(5))
def test_cpu_rows_are_right(place):
    row = measure(cpu_cases(QUICK, quick=True)[place])
    assert row.verdict in ("met", "missed"), row


@pytest.mark.parametrize("place", range(6))
def test_gpu_rows_of_encode_are_right_on_a_cpu_too(place):
    row = measure(encode_cases(CLOCK, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


@pytest.mark.parametrize("place", range(2))
def test_gpu_rows_of_the_scan_are_right_on_a_cpu_too(place):
    row = measure(scan_cases(CLOCK, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("place", range(2))
def test_gpu_rows_of_the_bank_are_right_on_a_cpu_too(place, dtype):
    row = measure(bank_cases(CLOCK, 300, 16, dtype=dtype, device="cpu", copied=2**16)[place])
    assert row.verdict in ("met", "missed"), row
    assert ("TB/s" if place == 0 else "M lookups/s") in row.note


def test_a_row_of_a_broken_operation_is_wrong_and_has_no_timing(monkeypatch):
    from attar import ops

    right = ops.encode

    def broken(f, *, backend="auto", **options):
        return right(f, backend=backend, **options) * (1.0 if backend == "reference" else 1.1)

    monkeypatch.setattr(ops, "encode", broken)
    case = next(case for case in cpu_cases(QUICK, quick=True) if case.against == "torch.bmm")
    row = measure(case)
    assert (row.verdict, row.ratio, row.ours, row.theirs) == ("wrong", None, None, None)


def test_without_a_gpu_one_line_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _, note = cases(quick=True)
    assert "CUDA" in note
    assert "\n" not in note


def test_rows_are_chosen_by_their_text():
    rows = cpu_cases(QUICK, quick=True)
    assert len(chosen(rows, None)) == len(rows)
    assert 0 < len(chosen(rows, "LOOKUP")) < len(rows)
    with pytest.raises(OptionError, match="part of a row's name"):
        chosen(rows, "nothing like it")


def test_full_rows_are_those_of_the_targets():
    names = " ".join(f"{case.what} | {case.against} {case.goal}" for case in cpu_cases(QUICK))
    wanted = ("n = 750", "≥ 7.5 ×", "n = 10,000", "≥ 80 ×", "32 × 750 × 100", "≤ 1.2 ×", "8 × 1,024 × 128")
    assert [words for words in wanted if words not in names] == []
