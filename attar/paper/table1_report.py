"""Table 1 as a report: measured, printed in four parts with its predictions, as JSON, and drawn."""

from pathlib import Path
from typing import Any

import msgspec
import torch
from rich.console import Console

from attar.errors import DeviceError, OptionError, install_command
from attar.paper.machine import Machine, print_plain, print_table, quantity, this_machine
from attar.paper.table1 import ENCODER, Costs, Sizes, measure_costs, sizes_for
from attar.paper.table1_methods import faiss_is_installed
from attar.paper.table1_predictions import (
    Cost,
    Exponent,
    Prediction,
    fastest_softmax,
    fit_exponents,
    method_names,
    predict,
    short,
    size_of,
)
from attar.progress import Progress, ignore_progress


class Table1(msgspec.Struct, frozen=True):
    """The machine, what was measured on it, and the predictions."""

    machine: Machine
    device: str
    sizes: Sizes
    costs: Costs
    exponents: list[Exponent]
    predictions: list[Prediction]
    notes: list[str]

    @property
    def correct(self) -> bool:
        """Whether our own methods were right, and so were measured, at every size."""
        points = [*self.costs.query_time, *self.costs.encoding_time, *self.costs.batch_time]
        return all(method in point.costs for point in points for method in ("linear", "gated"))


def measure_table(
    k: int = 100,
    device: str | None = None,
    *,
    quick: bool = False,
    progress: Progress = ignore_progress,
) -> Table1:
    """Measure all of Table 1 on "cpu" or "cuda"; by default on a GPU if there is one."""
    device = choose_device(device)
    machine = this_machine()  # before the first size adds to its load
    torch.manual_seed(0)
    sizes = sizes_for(k, device, quick=quick)
    costs = measure_costs(sizes, device, quick=quick, progress=progress)
    notes = [*costs.notes, *notes_on(machine, device, sizes)]
    exponents = fit_exponents(costs, sizes)
    return Table1(machine, device, sizes, costs, exponents, predict(costs, sizes, device), notes)


def choose_device(device: str | None) -> str:
    """The device, or the default for None; refuses one that does not exist.

    >>> choose_device("cpu")
    'cpu'
    """
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise OptionError.expected("--device", "cpu or cuda", repr(device))
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceError.expected("--device cuda", "a CUDA device", "none", "use --device cpu")
    return device


def notes_on(machine: Machine, device: str, sizes: Sizes) -> list[str]:
    """How the numbers were measured."""
    on_cpu = device == "cpu"
    clock = "CPU time of one thread" if on_cpu else "the device's own time, without kernel launches"
    notes = [
        f"Random states of size k = {sizes.k} in float32; {clock}; medians; all methods and sizes of a part are "
        "timed interleaved. Every result was checked against float64 before it was timed.",
        f"Exponents are fitted from n = {sizes.fit_from:,} and from m = {sizes.fit_batches_from:,} on, where the "
        "fixed cost of a call no longer shows; ± is the 95 % interval of the fit.",
        "In parentheses: the lower quartile of one side against the upper quartile of the other.",
    ]
    if not on_cpu:
        notes.append("FAISS is measured on a CPU only: --device cpu.")
    elif not faiss_is_installed():
        notes.append(f"FAISS is not installed: {install_command('search')} for its column.")
    return [*notes, *machine.busy_notes("trust ratios, not times.")]


# Of each part: its title, its unit, and the axes of its panel in the figure.
PARTS: dict[Cost, tuple[str, str, str, str]] = {
    "query_time": (
        "a) Query time: seconds per question, {per_call} per call, for a document that is already encoded",
        "s",
        "tokens n",
        "seconds per question",
    ),
    "stored_bytes": ("b) Document compression: bytes stored", "B", "tokens n", "bytes stored"),
    "encoding_time": (
        "c) Encoding time: the GRU, which softmax needs as well, and what each method adds",
        "s",
        "tokens n",
        "seconds per document",
    ),
    "batch_time": (
        "d) m questions in one call to a document of {tokens:,} tokens, its memory or index made first",
        "s",
        "questions m",
        "seconds for all",
    ),
}


def print_table1(table: Table1, console: Console) -> None:
    """Print the machine, the four parts, the predictions and the notes."""
    print_plain(console, str(table.machine))
    per_call = "one" if table.sizes.per_call == 1 else f"{table.sizes.per_call:,}"
    for cost, (title, *_) in PARTS.items():
        print_plain(console, f"\n{title.format(per_call=per_call, tokens=table.sizes.tokens)}\n")
        print_table(console, *_part(table, cost))
    console.print()
    rows = [
        [p.what, *("–" if x is None else short(x) for x in (p.by_table, p.by_count)), p.shown]
        for p in table.predictions
    ]
    print_table(console, ["prediction", "by Table 1", "by counting", "measured"], rows)
    print_plain(console, "".join(f"\n- {note}" for note in table.notes))


def _part(table: Table1, cost: Cost) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of one part; the exponents come last."""
    points, unit = getattr(table.costs, cost), PARTS[cost][1]
    methods = method_names(points)
    exponents = {fit.method: fit for fit in table.exponents if fit.cost == cost}
    rows = []
    for point in points:
        cells = [quantity(point.costs[m].median, unit) if m in point.costs else "–" for m in methods]
        if cost != "encoding_time":
            softmax, linear = fastest_softmax(table.costs, point), point.costs.get("linear")
            cells.append(f"{short(softmax.median / linear.median)} ×" if softmax and linear else "–")
        rows.append([f"{size_of(cost, point):,}", *cells])
    last = [] if cost == "encoding_time" else [""]
    predicted = [f"{exponents[m].predicted:.2g}" if m in exponents else "–" for m in methods]
    measured = [str(exponents[m].measured or "–") if m in exponents else "–" for m in methods]
    rows += [["predicted exponent", *predicted, *last], ["measured exponent", *measured, *last]]
    columns = [f"+ {m}" if cost == "encoding_time" and m != ENCODER else m for m in methods]
    letter = "m" if cost == "batch_time" else "n"
    return [letter, *columns, *(["softmax / linear"] if last else [])], rows


def table1_json(table: Table1) -> str:
    """{"machine": …, "costs": {"query_time": [{"tokens", "questions", "costs": {method: …}}], …}, …}."""
    return msgspec.json.format(msgspec.json.encode(table), indent=2).decode()


# Colour, dashes, marker and its size: lines differ in all of them, for print and for colour-blind readers.
STYLES: dict[str, tuple[str, Any, str, int]] = {
    "softmax, numpy": ("#1b6e1b", "-.", "^", 9),
    "softmax, torch": ("#1b6e1b", "-.", "^", 9),
    "softmax, SDPA": ("#5fb35f", ":", "v", 9),
    "FAISS": ("#8a8a8a", (0, (6, 2)), "D", 4),
    "linear": ("#1f4e9e", "--", "s", 8),
    "gated": ("#c01818", "-", "o", 4),
    ENCODER: ("black", "-.", "x", 6),
}
ENDINGS = (".png", ".svg", ".pdf")


def check_plot_file(file: Path) -> None:
    """Refuse a file that cannot be written as a figure, before anything is measured."""
    if file.suffix.lower() not in ENDINGS:
        raise OptionError.expected("--plot", f"a file that ends with {', '.join(ENDINGS)}", repr(file.name))
    if not file.parent.is_dir():
        raise OptionError.expected("--plot", "a file in a folder that exists", repr(str(file)))


def draw_table1(table: Table1, file: Path) -> None:
    """Draw the four parts on log-log axes, in the format that the file's name ends with."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "table1"}):
        figure, grid = pyplot.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
        for axes, cost in zip(grid.flat, PARTS, strict=True):
            _draw_part(axes, table, cost)
        where = table.machine.gpu if table.device == "cuda" else f"{table.machine.cpu}, one thread"
        figure.suptitle(f"Table 1, k = {table.sizes.k}, {where}, {table.machine.date}", fontsize=10)
        undated = {"Date": None} if file.suffix.lower() == ".svg" else None
        figure.savefig(file, dpi=130, metadata=undated)
        pyplot.close(figure)


def _draw_part(axes: Any, table: Table1, cost: Cost) -> None:
    """One line per method, with its exponent in the legend."""
    title, _, along, up = PARTS[cost]
    points = getattr(table.costs, cost)
    exponents = {fit.method: fit for fit in table.exponents if fit.cost == cost}
    for method in method_names(points):
        with_it = [point for point in points if method in point.costs]
        sizes = [size_of(cost, point) for point in with_it]
        spreads = [point.costs[method] for point in with_it]
        colour, dashes, marker, width = STYLES["FAISS" if method.startswith("FAISS") else method]
        fit = exponents.get(method)
        label = f"+ {method}" if cost == "encoding_time" and method != ENCODER else method
        if fit and fit.measured:
            label += f": exponent {fit.measured} ({fit.predicted:.2g})"
        # Hollow markers of different sizes keep lines visible that coincide.
        style = {"markersize": width, "markerfacecolor": "none", "label": label}
        axes.loglog(
            sizes, [s.median for s in spreads], color=colour, linestyle=dashes, marker=marker, **style
        )
        low, high = [s.low for s in spreads], [s.high for s in spreads]
        axes.fill_between(sizes, low, high, color=colour, alpha=0.12, linewidth=0)
    if cost in ("query_time", "stored_bytes"):
        axes.axvline(table.sizes.k, color="0.5", linewidth=0.8)
        offset = {"xytext": (3, 4), "textcoords": "offset points", "fontsize": 8}
        axes.annotate("n = k", (table.sizes.k, 0), xycoords=("data", "axes fraction"), **offset)
    axes.set_title(title.partition(":")[0].partition(" in one call")[0], fontsize=10)
    axes.set_xlabel(along)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7.5, title="measured (predicted)", title_fontsize=7.5)
