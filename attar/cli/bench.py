"""`attar bench`: the paper's Table 1."""

import os
from pathlib import Path
from typing import Annotated

import typer

from attar.cli.output import progress_bar

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes, to test that it runs; nothing is judged.")]


def table1(
    size: Annotated[int, typer.Option(min=1, help="Hidden size k; 100 in the paper.")] = 100,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Save a log-log plot: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
    quick: Quick = False,
) -> None:
    """Measure the paper's Table 1 on this machine.

    Query time, stored bytes and encoding time of softmax, linear and gated attention as documents and questions
    grow, compared with PyTorch's SDPA and FAISS; exponents and break-even points, predicted and measured.

    For example: attar bench --plot table1.png
    """
    _use_one_blas_thread()
    from rich.console import Console

    from attar.bench.table1_report import (
        check_plot_file,
        draw_table1,
        measure_table,
        print_table1,
        table1_json,
    )

    if plot is not None:
        check_plot_file(plot)
    with progress_bar() as progress:
        table = measure_table(size, device, quick=quick, progress=progress)
    if plot is not None:
        draw_table1(table, plot)
    if as_json:
        print(table1_json(table))
    else:
        print_table1(table, Console())
    if not table.correct:
        raise typer.Exit(1)


def _use_one_blas_thread() -> None:
    """Limit BLAS to one thread for one-thread rows; it reads the variable when numpy is first imported."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
