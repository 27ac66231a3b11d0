"""Predictions for Table 1 and their measured values: exponents, and the sizes from which a memory pays.

There are two predictions: Table 1's terms as they stand (n k against k²), and multiply-adds counted one by one,
where softmax costs 2 n k (scores and sum), a lookup k², writing n k², and writing with a gate 2 n k².
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import torch
from rich.console import Console
from scipy.special import stdtrit

from attar.errors import DeviceError, OptionError, install_command
from attar.paper.table1 import (
    ENCODER,
    Costs,
    Point,
    Sizes,
    Spread,
    faiss_is_installed,
    measure_costs,
    sizes_for,
)
from attar.paper.timing import Machine, print_plain, print_table, quantity, this_machine
from attar.progress import Progress, ignore_progress

Cost = Literal["query_time", "stored_bytes", "encoding_time", "batch_time"]
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
# Multiply-adds of writing a token, in units of k²; a GRU has three gates, each with k² for input and for state.
WRITING = {"linear": 1, "gated": 2}
GRU_WORK = 6
# Which numbers of two spreads are compared: the medians, then opposite quartiles.
OPPOSITE = (("median", "median"), ("low", "high"), ("high", "low"))


class Slope(msgspec.Struct, frozen=True):
    """The exponent of a fitted power law, and the half-width of its 95 % interval."""

    exponent: float
    margin: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.margin:.2f}".replace("-0.00", "0.00")


class Exponent(msgspec.Struct, frozen=True):
    """How a method's cost grows with n, or with m for batches."""

    cost: Cost
    method: str
    predicted: float
    measured: Slope | None


class Prediction(msgspec.Struct, frozen=True):
    """A size or a ratio, predicted twice and measured; `low` and `high` compare opposite quartiles."""

    what: str
    by_table: float | None
    by_count: float | None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    shown: str = "–"


class Crossing(NamedTuple):
    """Where one cost falls below another for good: at a size, or if None as the text says."""

    at: float | None
    text: str


def fit_slope(sizes: Sequence[float], costs: Sequence[float]) -> Slope | None:
    """The least-squares exponent on log-log axes with Student's interval; None for fewer than three points.

    >>> str(fit_slope([1, 10, 100], [5, 50, 500])), fit_slope([1, 10], [5, 50])
    ('1.00 ± 0.00', None)
    """
    if len(sizes) < 3:
        return None
    x, y = np.log(sizes), np.log(costs)
    x = x - x.mean()
    exponent = x @ y / (x @ x)
    residual = y - y.mean() - exponent * x
    degrees = len(sizes) - 2
    error = np.sqrt(residual @ residual / degrees / (x @ x))
    return Slope(float(exponent), float(stdtrit(degrees, 0.975) * error))


def find_crossing(sizes: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> Crossing:
    """The size from which ours costs less, interpolated on log-log axes.

    >>> find_crossing([1, 100], [5, 5], [1, 100]).text
    '5'
    >>> find_crossing([1, 100], [1, 1], [2, 200]).text, find_crossing([1, 100], [3, 300], [2, 200]).text
    ('below 1', 'beyond 100')
    """
    gaps = np.log(ours) - np.log(theirs)
    higher = np.flatnonzero(gaps > 0)
    if not len(higher):
        return Crossing(None, f"below {short(sizes[0])}")
    left = int(higher[-1])
    if left == len(sizes) - 1:
        return Crossing(None, f"beyond {short(sizes[-1])}")
    x, share = np.log(sizes[left : left + 2]), gaps[left] / (gaps[left] - gaps[left + 1])
    at = float(np.exp(x[0] + share * (x[1] - x[0])))
    return Crossing(at, short(at))


def short(number: float) -> str:
    """A number with three digits, or all those before the point.

    >>> short(50.52), short(1903.2), short(1.166666)
    ('50.5', '1,903', '1.17')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def fit_exponents(costs: Costs, sizes: Sizes) -> list[Exponent]:
    """All exponents, over the sizes where the fixed cost of a call no longer shows."""
    exponents = []
    for cost in PARTS:
        least = sizes.fit_batches_from if cost == "batch_time" else sizes.fit_from
        points = [point for point in getattr(costs, cost) if size_of(cost, point) >= least]
        along = [size_of(cost, point) for point in points]
        for method in getattr(costs, cost)[0].costs:
            predicted = 1.0
            if cost == "batch_time" and method in WRITING:
                # The slope of (w n + m) k² on log-log axes over these m; softmax's 2 m n k has slope 1.
                work = fit_slope(along, [WRITING[method] * p.tokens + p.questions for p in points])
                predicted = work.exponent if work else 1.0
            elif cost in ("query_time", "stored_bytes") and method in WRITING:
                predicted = 0.0
            slope = fit_slope(along, [point.costs[method].median for point in points])
            exponents.append(Exponent(cost, method, predicted, slope))
    return exponents


def predict(costs: Costs, sizes: Sizes, device: str) -> list[Prediction]:
    """Break-even points, the gain at the longest document, and what a memory adds to encoding."""
    k, n = sizes.k, sizes.tokens
    packed, stored = ("packed ", (k + 1) / 2) if device == "cpu" else ("", float(k))
    per_call = "one question" if sizes.per_call == 1 else f"{sizes.per_call:,} questions"
    faster = Prediction(f"n from which a lookup is faster than softmax, {per_call} per call", k, k / 2)
    smaller = Prediction(f"n from which a {packed}memory is smaller than H", k, stored)
    predictions = [
        _break_even(faster, costs, "query_time", "linear"),
        _break_even(smaller, costs, "stored_bytes", "linear"),
    ]
    for method, work in WRITING.items():
        by_table = n * k / (n - k) if method == "linear" and n > k else None
        by_count = work * n * k / (2 * n - k) if 2 * n > k else None
        what = f"m from which {method} is cheaper than softmax, writing included, n = {n:,}"
        if sizes.per_call == 1:
            one = Prediction(f"{what}, one question per call", by_table, by_count)
            predictions.append(_paid_back(one, costs, method, n))
        batch = Prediction(f"{what}, all in one call", by_table, by_count)
        predictions.append(_break_even(batch, costs, "batch_time", method))
    longest = costs.query_time[-1]
    n = longest.tokens
    gain = Prediction(f"times that a lookup is faster than softmax, n = {n:,}", n / k, 2 * n / k)
    predictions.append(_measured(gain, lambda a, b: a / b, fastest_softmax(longest), longest.costs["linear"]))
    encoded = costs.encoding_time[-1].costs
    for method, work in WRITING.items():
        what = f"times that encoding takes longer with {method} than for softmax, n = {n:,}"
        added = Prediction(what, None, 1 + work / GRU_WORK)
        predictions.append(_measured(added, lambda a, b: 1 + a / b, encoded[method], encoded[ENCODER]))
    return predictions


def _measured(
    prediction: Prediction,
    ratio: Callable[[float, float], float | None],
    top: Spread,
    bottom: Spread,
) -> Prediction:
    """The prediction with the ratio of two costs, and its range from their opposite quartiles."""
    median, low, high = (ratio(getattr(top, a), getattr(bottom, b)) for a, b in OPPOSITE)
    shown = "{} ({} … {})".format(*("never" if x is None else short(x) for x in (median, low, high)))
    return msgspec.structs.replace(prediction, measured=median, low=low, high=high, shown=shown)


def _break_even(prediction: Prediction, costs: Costs, cost: Cost, method: str) -> Prediction:
    """The prediction with the size from which a memory costs less than the fastest softmax."""
    points = getattr(costs, cost)
    sizes = [size_of(cost, point) for point in points]
    middle, early, late = (
        find_crossing(
            sizes,
            [getattr(point.costs[method], a) for point in points],
            [getattr(fastest_softmax(point), b) for point in points],
        )
        for a, b in OPPOSITE
    )
    shown = middle.text if early.text == late.text else f"{middle.text} ({early.text} … {late.text})"
    return msgspec.structs.replace(prediction, measured=middle.at, low=early.at, high=late.at, shown=shown)


def _paid_back(prediction: Prediction, costs: Costs, method: str, n: int) -> Prediction:
    """The prediction with the time of writing over what each question saves."""
    asked = next(point for point in costs.query_time if point.tokens == n)
    written = next(point.costs[method] for point in costs.encoding_time if point.tokens == n)
    softmax, lookup = fastest_softmax(asked), asked.costs[method]
    saved = Spread(softmax.median - lookup.median, softmax.low - lookup.high, softmax.high - lookup.low)

    def questions(written: float, saved: float) -> float | None:
        return written / saved if saved > 0 else None

    return _measured(prediction, questions, written, saved)


def fastest_softmax(point: Point) -> Spread:
    softmaxes = [cost for name, cost in point.costs.items() if name.startswith("softmax")]
    return min(softmaxes, key=lambda cost: cost.median)


def size_of(cost: Cost, point: Point) -> int:
    """The size that a cost is drawn against: m for batches, n otherwise."""
    return point.questions if cost == "batch_time" else point.tokens


class Table1(msgspec.Struct, frozen=True):
    """The machine, what was measured on it, and the predictions."""

    machine: Machine
    device: str
    sizes: Sizes
    costs: Costs
    exponents: list[Exponent]
    predictions: list[Prediction]
    notes: list[str]


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
    notes = notes_on(machine, device, sizes)
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
    exponents = [exponent for exponent in table.exponents if exponent.cost == cost]
    compared = cost != "encoding_time"
    rows = []
    for point in points:
        cells = [quantity(spread.median, unit) for spread in point.costs.values()]
        if compared:
            cells.append(f"{short(fastest_softmax(point).median / point.costs['linear'].median)} ×")
        rows.append([f"{size_of(cost, point):,}", *cells])
    last = [""] if compared else []
    rows.append(["predicted exponent", *(f"{fit.predicted:.2g}" for fit in exponents), *last])
    rows.append(["measured exponent", *(str(fit.measured or "–") for fit in exponents), *last])
    columns = [_label(cost, method) for method in points[0].costs]
    letter = "m" if cost == "batch_time" else "n"
    return [letter, *columns, *(["softmax / linear"] if compared else [])], rows


def _label(cost: Cost, method: str) -> str:
    return f"+ {method}" if cost == "encoding_time" and method != ENCODER else method


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
    sizes = [size_of(cost, point) for point in points]
    for fit in table.exponents:
        if fit.cost != cost:
            continue
        spreads = [point.costs[fit.method] for point in points]
        colour, dashes, marker, width = STYLES["FAISS" if fit.method.startswith("FAISS") else fit.method]
        label = _label(cost, fit.method)
        if fit.measured:
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
