"""Every row of `attar bench ops`, measured at tiny sizes: right, named after its size, and complete."""

import numpy as np
import pytest
import torch

from attar.bench.comparison import measure
from attar.bench.cost import QUICK, Timer
from attar.bench.ops import cpu_cases, measure_ops, random_groups
from attar.bench.ops_gpu import bank_cases, encode_cases
from attar.bench.report import choose
from attar.errors import OptionError
from attar.ops import product_in_use

TIMER = Timer(QUICK)
SHAPE = (16, 40, 16)


@pytest.mark.parametrize("place", range(5))
def test_cpu_rows_are_right(place):
    row = measure(cpu_cases(QUICK, quick=True)[place])
    assert row.verdict in ("met", "missed"), row


@pytest.mark.parametrize("place", range(2))
def test_gpu_rows_of_encode_are_right_on_a_cpu_too(place):
    row = measure(encode_cases(TIMER, SHAPE, device="cpu")[place])
    assert row.verdict in ("met", "missed", "alone"), row


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("place", range(2))
def test_gpu_rows_of_the_bank_are_right_on_a_cpu_too(place, dtype):
    row = measure(bank_cases(TIMER, 300, 16, dtype=dtype, device="cpu", copied=2**16)[place])
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
    report = measure_ops(quick=True, only="torch.bmm")
    assert [note for note in report.notes if "CUDA" in note and "\n" not in note]


def test_tiny_sizes_are_not_judged():
    report = measure_ops(quick=True, only="CPU encode")
    assert {row.verdict for row in report.rows} == {"not judged"}


def test_the_row_of_many_documents_per_call_uses_every_baseline_and_names_the_product():
    case = next(case for case in cpu_cases(QUICK, quick=True) if "documents per call" in case.what)
    row = measure(case)
    assert row.verdict in ("met", "missed"), row
    assert "was the fastest of 2" in row.note
    assert product_in_use() in row.note


def test_random_groups_contain_each_number_at_most_once():
    numbers = np.concatenate(random_groups(10, 3))
    assert len(numbers) == len(set(numbers.tolist())) == 9


def test_rows_are_chosen_by_their_text():
    rows = cpu_cases(QUICK, quick=True)
    assert len(choose(rows, None)) == len(rows)
    assert 0 < len(choose(rows, "LOOKUP")) < len(rows)
    with pytest.raises(OptionError, match="part of a row's name"):
        choose(rows, "nothing like it")


def test_full_rows_are_those_of_the_targets():
    names = " ".join(f"{case.what} | {case.against} {case.goal}" for case in cpu_cases(QUICK))
    wanted = ("n = 750", "≥ 7.5 ×", "n = 10,000", "≥ 80 ×", "32 × 750 × 100", "≤ 1.2 ×", "8 × 1,024 × 128")
    assert [words for words in wanted if words not in names] == []
