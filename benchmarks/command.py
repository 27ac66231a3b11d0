"""What the commands in this folder share: options, and printing a report."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attar.errors import AttarError
from benchmarks.report import Report, print_report, report_json

ReaderFolder = Annotated[
    Path | None, typer.Option("--reader", help="A reader's folder, or the name of a shipped one.")
]
Only = Annotated[str | None, typer.Option(help="Only rows whose name contains this text.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes, to test that it runs; nothing is judged.")]


def run_command(main: Callable[..., None]) -> None:
    """Run a command; a mistake in its options is one line on stderr and exit code 2, as in `attar`."""
    try:
        typer.run(main)
    except AttarError as mistake:
        print(mistake, file=sys.stderr)
        sys.exit(2)


def show(report: Report, json: bool) -> None:
    """Print a report; exit with code 1 if a row is wrong or failed."""
    if json:
        print(report_json(report))
    else:
        print_report(report, Console())
    if not report.correct:
        raise typer.Exit(1)
