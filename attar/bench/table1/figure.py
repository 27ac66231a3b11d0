"""Table 1 on log-log paper: four panels, told apart by marks and dashes, colours or not."""

from pathlib import Path
from typing import Any

from attar.bench.table1.costs import READING
from attar.bench.table1.findings import Cost, in_m, in_n, names_in
from attar.bench.table1.table import Table1
from attar.bench.table1.turns import Point
from attar.errors import OptionError

# Told apart by marks, dashes and shades of grey: printed, or by readers who see fewer colours.
LOOKS: dict[str, tuple[str, Any, str]] = {
    "softmax, numpy": ("#1b6e1b", "-.", "^"),
    "softmax, torch": ("#1b6e1b", "-.", "^"),
    "softmax, SDPA": ("#5fb35f", ":", "v"),
    "FAISS": ("#8a8a8a", (0, (6, 2)), "D"),
    "linear": ("#1f4e9e", "--", "s"),
    "gated": ("#c01818", "-", "o"),
    READING: ("black", "-.", "x"),
}
MARK_SIZES = {"^": 9, "v": 9, "D": 4, "s": 8, "o": 4}
PANELS: dict[Cost, tuple[str, str, str]] = {
    "asking": ("a) query time", "tokens n", "seconds a question"),
    "keeping": ("b) document compression", "tokens n", "bytes kept"),
    "encoding": ("c) encoding time", "tokens n", "seconds a document"),
    "sharing": ("d) encode once, ask m times", "questions m", "seconds for all"),
}
ENDINGS = (".png", ".svg", ".pdf")


def check_ending(file: Path) -> None:
    """Refuse a file that cannot be drawn, before anything is measured for it."""
    if file.suffix.lower() not in ENDINGS:
        raise OptionError("--plot", f"a file that ends with {', '.join(ENDINGS)}", repr(file.name))
    if not file.parent.is_dir():
        raise OptionError("--plot", "a file in a folder that exists", repr(str(file)))


def draw(table: Table1, file: Path) -> None:
    """Draw the four panels into a file of the kind that its name ends with."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "table1"}):
        figure, grid = pyplot.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
        for axes, cost in zip(grid.flat, PANELS, strict=True):
            draw_panel(axes, table, cost)
        where = table.machine.gpu if table.device == "cuda" else f"{table.machine.cpu}, one thread"
        figure.suptitle(f"Table 1, k = {table.sizes.k}, {where}, {table.machine.date}", fontsize=10)
        undated = {"Date": None} if file.suffix.lower() == ".svg" else None
        figure.savefig(file, dpi=130, metadata=undated)
        pyplot.close(figure)


def draw_panel(axes: Any, table: Table1, cost: Cost) -> None:
    """One part: a line a way, with its exponent beside its name, and a mark where a memory begins to pay."""
    title, along, up = PANELS[cost]
    points: list[Point] = getattr(table.costs, cost)
    size = in_m if cost == "sharing" else in_n
    lines = {line.way: line for line in table.exponents if line.cost == cost}
    for way in names_in(points):
        with_it = [point for point in points if way in point.costs]
        colour, dashes, mark = LOOKS[way.split(",")[0] if way.startswith("FAISS") else way]
        line = lines.get(way)
        fitted = f": exponent {line.measured} ({line.predicted:.2g})" if line and line.measured else ""
        axes.loglog(
            [size(point) for point in with_it],
            [point.costs[way].middle for point in with_it],
            color=colour,
            linestyle=dashes,
            marker=mark,
            # Lines that lie on each other stay visible: hollow marks, some larger than others.
            markersize=MARK_SIZES.get(mark, 6),
            markerfacecolor="none",
            label=f"{'+ ' if cost == 'encoding' and way != READING else ''}{way}{fitted}",
        )
        axes.fill_between(
            [size(point) for point in with_it],
            [point.costs[way].low for point in with_it],
            [point.costs[way].high for point in with_it],
            color=colour,
            alpha=0.12,
            linewidth=0,
        )
    if cost in ("asking", "keeping"):
        axes.axvline(table.sizes.k, color="0.5", linewidth=0.8)
        axes.annotate(
            "n = k",
            (table.sizes.k, 0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 4),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(along)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7.5, title="measured (predicted)", title_fontsize=7.5)
