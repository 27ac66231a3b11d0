"""F1 against milliseconds per question, for each number of sentences that are read again.

    python -m benchmarks.look_curve docs/results.md docs/figures/looks.png

The points are the rows of the page's table that `attar evaluate-questions` fills; a row "the same" belongs to the row
above it.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from attar.errors import FormatError
from attar.paper.compare import load_pyplot
from benchmarks.command import run_command

# The columns of the table that points are made of.
COLUMNS = ("look", "F1", "ms per question, alone")
# Rows of one reader: the memory alone is the default reader without a second look.
SAME = ("the same", "the memory alone")


class Point(NamedTuple):
    """A row of the table."""

    look: int
    f1: float
    milliseconds: float


def curves(page: str) -> dict[str, list[Point]]:
    """The points of each reader, from the first table with the columns; rows without a time are left out."""
    points: dict[str, list[Point]] = defaultdict(list)
    name = ""
    for cells in _table(page):
        if not cells[""].startswith(SAME):
            name = cells[""].strip("*").replace("`", "")
        look, f1, milliseconds = (cells[column].strip("*") for column in COLUMNS)
        if milliseconds:
            points[name].append(Point(int(look), float(f1), float(milliseconds)))
    return {name: sorted(line) for name, line in points.items()}


def _table(page: str) -> Iterator[dict[str, str]]:
    header: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not header and set(COLUMNS) <= set(cells):
            header = cells
        elif header and not line.startswith("|"):
            return
        elif header and not cells[0].startswith("---"):
            yield dict(zip(header, cells, strict=True))
    if not header:
        raise FormatError.expected("the page", f"a table with the columns {', '.join(COLUMNS)}", "none")


def main(
    page: Annotated[Path, typer.Argument(help="The page with the table.")],
    figure: Annotated[Path, typer.Argument(help="Draw the figure into this file.")],
) -> None:
    """Draw F1 against milliseconds."""
    pyplot = load_pyplot()
    drawn, axes = pyplot.subplots(figsize=(7.5, 3.6))
    for (name, line), marker in zip(curves(page.read_text(encoding="utf-8")).items(), "os^Dv", strict=False):
        axes.plot([p.milliseconds for p in line], [p.f1 for p in line], f"{marker}-", label=name)
        for point in line:
            place = (point.milliseconds, point.f1)
            axes.annotate(f"{point.look}", place, (-3, 6), textcoords="offset points", fontsize=8)
    axes.set(xlabel="milliseconds per question, one thread; numbers: sentences read again", ylabel="F1")
    axes.margins(y=0.12)
    axes.set(xlim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    drawn.tight_layout()
    drawn.savefig(figure, dpi=110)
    pyplot.close(drawn)


if __name__ == "__main__":
    run_command(main)
