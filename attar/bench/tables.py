"""Tables for people: rich on a terminal, Markdown where the output goes into a pipe or a file."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers or words beside it."""
    if not console.is_terminal:
        print(markdown(columns, rows), file=console.file)
        return
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as Markdown, in columns that line up.

    >>> print(markdown(["n", "time"], [["10", "1 s"]]))
    | n  | time |
    |----|------|
    | 10 | 1 s  |
    """
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([line(columns), f"|{rule}|", *map(line, rows)])


def quantity(amount: float | None, unit: str) -> str:
    """A number of seconds or bytes, or a share, as people say it.

    >>> quantity(0.00000312, "s"), quantity(0.25, "s"), quantity(9_600_000, "B"), quantity(None, "s")
    ('3.12 µs', '250 ms', '9.6 MB', '–')
    """
    if amount is None:
        return "–"
    scales = {
        "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
        "%": ((1e-2, "%"),),
        "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    }[unit]
    scale, name = next(((s, name) for s, name in scales if amount >= s), scales[-1])
    return f"{amount / scale:.3g} {name}"
