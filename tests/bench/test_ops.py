"""Every row of `attar bench ops`, measured at tiny sizes: right, named after its size, and complete."""

import numpy as np
import pytest
import torch

from attar.bench.comparison import measure
from attar.bench.cost import QUICK
from attar.bench.ops import cpu_cases, measure_ops, random_groups
from attar.bench.report import choose
from attar.errors import OptionError
from attar.ops.packed.products import product_in_use


def assert_measured(row):
    """Both sides were right and timed, and the verdict follows from their ratio."""
    assert row.verdict == ("met" if row.goal.reached(row.ratio) else "missed"), row
    assert row.ours > 0
    assert row.theirs > 0
    assert row.low <= row.ratio <= row.high


@pytest.mark.parametrize("place", range(5))
def test_cpu_rows_are_right(place):
    assert_measured(measure(cpu_cases(QUICK, quick=True)[place]))


def test_a_row_of_a_broken_operation_is_wrong_and_has_no_timing(monkeypatch):
    from attar import ops

    right = ops.encode

    def broken(f, *, backend="auto", **options):
        return right(f, backend=backend, **options) * (1.0 if backend == "reference" else 1.1)

    monkeypatch.setattr(ops, "encode", broken)
    case = next(case for case in cpu_cases(QUICK, quick=True) if case.against == "torch.bmm")
    row = measure(case)
    assert (row.verdict, row.ratio, row.ours, row.theirs) == ("wrong", None, None, None)


def test_with_a_gpu_one_line_names_the_command_for_its_rows(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    report = measure_ops(quick=True, only="torch.bmm")
    assert [note for note in report.notes if "benchmarks.ops_gpu" in note and "\n" not in note]


def test_tiny_sizes_are_not_judged():
    report = measure_ops(quick=True, only="CPU encode")
    assert {row.verdict for row in report.rows} == {"not judged"}


def test_the_row_of_many_documents_per_call_uses_every_baseline_and_names_the_product():
    case = next(case for case in cpu_cases(QUICK, quick=True) if "documents per call" in case.what)
    row = measure(case)
    assert_measured(row)
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
