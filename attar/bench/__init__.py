"""Benchmarks that users run: the paper's Table 1, the operations, and the demo.

Results are checked against a float64 reference before they are timed. `benchmarks/` in the repository uses the
same parts for the store, the server, the reader and training.
"""

from attar.bench.baselines import Floats, softmax_numpy, softmax_torch
from attar.bench.comparison import (
    Case,
    Comparison,
    Goal,
    WrongResultError,
    check,
    compare,
    compare_with_limit,
    relative_error,
    sampled,
    tolerance_for,
)
from attar.bench.cost import QUICK, Contender, Effort, Timer
from attar.bench.demo import run_demo
from attar.bench.ops import (
    compiled_product,
    encode_vs_bmm,
    exact_inputs,
    measure_ops,
    random_states,
    scan_inputs,
    shuffled_forever,
    unit_rows,
)
from attar.bench.report import (
    Machine,
    Report,
    print_plain,
    print_report,
    print_table,
    quantity,
    report_json,
    run_cases,
    this_machine,
)
from attar.bench.table1_report import check_plot_file, draw_table1, measure_table, print_table1, table1_json

__all__ = [
    "QUICK",
    "Case",
    "Comparison",
    "Contender",
    "Effort",
    "Floats",
    "Goal",
    "Machine",
    "Report",
    "Timer",
    "WrongResultError",
    "check",
    "check_plot_file",
    "compare",
    "compare_with_limit",
    "compiled_product",
    "draw_table1",
    "encode_vs_bmm",
    "exact_inputs",
    "measure_ops",
    "measure_table",
    "print_plain",
    "print_report",
    "print_table",
    "print_table1",
    "quantity",
    "random_states",
    "relative_error",
    "report_json",
    "run_cases",
    "run_demo",
    "sampled",
    "scan_inputs",
    "shuffled_forever",
    "softmax_numpy",
    "softmax_torch",
    "table1_json",
    "this_machine",
    "tolerance_for",
    "unit_rows",
]
