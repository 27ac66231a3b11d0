"""`attar bench`: the paper's Table 1; `attar bench …`: measurements, side by side in one run."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.errors import OptionError

if TYPE_CHECKING:
    from attar.bench.ops import Report

app = typer.Typer()


@app.callback(invoke_without_command=True)
def table1(
    context: typer.Context,
    size: Annotated[int, typer.Option(min=1, help="The states' size k; the paper's is 100.")] = 100,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; by default a GPU where there is one.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it on log-log paper: a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: to see that it runs.")] = False,
) -> None:
    """Measure the paper's Table 1 on this machine; with a command, Attar beside its alternatives.

    Table 1: query time, bytes kept and encoding time of softmax, linear and gated attention as documents and
    questions grow, beside PyTorch's SDPA and FAISS; exponents and break-even points, predicted and measured.

    For example: attar bench --plot table1.png
    """
    if context.invoked_subcommand is not None:
        refuse_given(context)
        return
    # Read when numpy first loads its BLAS, which it has not yet: all ways are to have one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console

    from attar.bench.table1.figure import check_ending, draw
    from attar.bench.table1.printing import print_table1, to_json
    from attar.bench.table1.table import measure_table

    if plot is not None:
        check_ending(plot)
    with progress_bar() as tell:
        table = measure_table(size, device, quick=quick, tell=tell)
    if plot is not None:
        draw(table, plot)
    if as_json:
        sys.stdout.write(to_json(table).decode() + "\n")
    else:
        print_table1(table, Console())
    if not table.whole:
        raise typer.Exit(1)


def refuse_given(context: typer.Context) -> None:
    """Options before a command's name belong to no one: say so rather than drop them."""
    given = [
        name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")
    ]
    if given:
        option = next(o.opts[0] for o in context.command.params if o.name == given[0])
        command = context.invoked_subcommand
        raise OptionError(option, f"the command's options after {command}", f"{option} before it")


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
    from attar.bench import ops as rows
    from attar.bench.report import draw

    with progress_bar() as tell:
        report = rows.run(quick=quick, only=only, tell=tell)
    if plot is not None:
        draw(report, plot)
    show(report, as_json)


@app.command()
def store(
    documents: Annotated[int, typer.Option(min=1, help="Made-up documents in the store.")] = 10_000,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Only rows on made-up memories: nothing is read.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="What they are kept in: float32, float16 or int8.")] = "float32",
    place: Annotated[
        Path | None, typer.Option(help="Where the stores are made, and deleted again; the temporary folder.")
    ] = None,
    data: Annotated[
        list[Path] | None, typer.Option("--data", "-d", help="A cloze set, for rounded memories' answers.")
    ] = None,
    reader: Annotated[
        Path | None, typer.Option(help="A reader's folder; the one in the package otherwise.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only rows whose name holds this text.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option(help="Tiny sizes: to see that it runs, not how fast.")] = False,
) -> None:
    """The store beside stored hidden states, reading alone and its own limits, on one core.

    For example: attar bench store --documents 1000000 --dtype float16 --synthetic
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.bench import store as rows

    wanted = rows.Wanted(documents, dtype, synthetic, place, data or (), reader, quick)
    with progress_bar() as tell:
        report = rows.run(wanted, only=only, tell=tell)
    show(report, as_json)


@app.command("reader")
def reader_rows(
    reader: Annotated[
        Path | None, typer.Option(help="A reader's folder; the one in the package otherwise.")
    ] = None,
    text: Annotated[
        list[Path] | None, typer.Option("--text", "-t", help="Real texts to read; made-up stories otherwise.")
    ] = None,
    documents: Annotated[int, typer.Option(min=1, help="How many texts.")] = 256,
    only: Annotated[str | None, typer.Option(help="Only rows whose name holds this text.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option(help="Tiny sizes: to see that it runs, not how fast.")] = False,
) -> None:
    """Reading texts beside the bare GRUs, and text questions answered a second, on one core.

    For example: attar bench reader --text wiki.jsonl.xz
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.bench import reader as rows

    with progress_bar() as tell:
        report = rows.run(reader, text or (), count=documents, only=only, quick=quick, tell=tell)
    show(report, as_json)


@app.command()
def server(
    documents: Annotated[int, typer.Option(min=1, help="Documents in the library.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long a row is driven.")] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections at a time.")] = 64,
    reader: Annotated[
        Path | None, typer.Option(help="A reader's folder; the one in the package otherwise.")
    ] = None,
    soak: Annotated[
        float | None,
        typer.Option(min=0.1, help="Minutes at half load instead of the table: memory, readers."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option(help="Tiny sizes: to see that it runs, not how fast.")] = False,
) -> None:
    """A server in a process of its own, driven over loopback from this one.

    For example: attar bench server --seconds 5 --connections 64
    """
    import msgspec
    from rich.console import Console

    from attar.bench import server as rows

    with progress_bar() as tell:
        report = rows.run(rows.Wanted(documents, seconds, connections, reader, quick, soak), tell)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    rows.print_report(report, Console())


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A bar on the terminal, for as long as rows are measured."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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

        yield tell


def show(report: "Report", as_json: bool) -> None:
    """Print a report; a row that is wrong or failed is a failure."""
    from rich.console import Console

    from attar.bench.report import print_report, to_json

    if as_json:
        sys.stdout.write(to_json(report).decode() + "\n")
    else:
        print_report(report, Console())
    if any(row.verdict in ("wrong", "failed") for row in report.rows):
        raise typer.Exit(1)
