"""Tables of the examples, in Markdown."""

from collections.abc import Sequence


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells below the names of their columns."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, ["-" * width for width in widths], *rows):
        print(f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |")
