"""`attar bench …`: measurements, side by side in one run."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Measure Attar beside its alternatives, on this machine.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Measure Attar beside its alternatives, on this machine."""


@app.command()
def ops(
    only: Annotated[str | None, typer.Option(help="Only rows whose name holds this text.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the rows against their targets.")] = None,
    quick: Annotated[bool, typer.Option(help="Tiny sizes: to see that it runs, not how fast.")] = False,
) -> None:
    """The operations beside flash-linear-attention, torch and softmax; wrong results get no timing.

    For example: attar bench ops --only lookup --plot lookup.png
    """
    # Read when numpy first loads its BLAS, which it has not yet: one-thread rows are to have one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from attar.bench import ops as rows
    from attar.bench.report import draw, print_report, to_json

    errors = Console(stderr=True)
    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def tell(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        report = rows.run(quick=quick, only=only, tell=tell)
    if plot is not None:
        draw(report, plot)
    if as_json:
        sys.stdout.write(to_json(report).decode() + "\n")
    else:
        print_report(report, Console())
    if any(row.verdict in ("wrong", "failed") for row in report.rows):
        raise typer.Exit(1)
