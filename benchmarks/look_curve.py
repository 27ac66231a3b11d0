"""F1 against milliseconds per question, for each number of sentences that are read again.

    python -m benchmarks.look_curve docs/results.md docs/figures/looks.png

The points are the rows of the page's table that `attar evaluate-questions` fills; a row "the same" belongs to the row
above it.
"""

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from attar.paper.compare import load_pyplot
from benchmarks.command import run_command

# The columns of the table that points are made of.
COLUMNS = ("look", "F1", "ms per question, alone")
# Rows of one reader: the memory alone is the default reader without a second look.
SAME = ("the same", "the memory alone")


# Sentences read again, F1, and milliseconds.
Point = tuple[int, float, float]


def curves(page: str) -> dict[str, list[Point]]:
    """The points of each reader, from the first table with the columns; rows without a time are left out."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in page.splitlines()]
    at = next(at for at, cells in enumerate(lines) if set(COLUMNS) <= set(cells))
    points: dict[str, list[Point]] = defaultdict(list)
    name, places = "", [lines[at].index(column) for column in COLUMNS]
    for first, *cells in itertools.takewhile(lambda cells: len(cells) > 1, lines[at + 2 :]):
        name = name if first.startswith(SAME) else first.strip("*").replace("`", "")
        look, f1, milliseconds = (cells[place - 1].strip("*") for place in places)
        if milliseconds:
            points[name].append((int(look), float(f1), float(milliseconds)))
    return {name: sorted(line) for name, line in points.items()}


def main(
    page: Annotated[Path, typer.Argument(help="The page with the table.")],
    figure: Annotated[Path, typer.Argument(help="Draw the figure into this file.")],
) -> None:
    """Draw F1 against milliseconds."""
    pyplot = load_pyplot()
    drawn, axes = pyplot.subplots(figsize=(7.5, 3.6))
    for (name, line), marker in zip(curves(page.read_text(encoding="utf-8")).items(), "os^Dv", strict=False):
        looks, f1, times = zip(*line, strict=True)
        axes.plot(times, f1, f"{marker}-", label=name)
        for look, place in zip(looks, zip(times, f1, strict=True), strict=True):
            axes.annotate(f"{look}", place, (-3, 6), textcoords="offset points", fontsize=8)
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
