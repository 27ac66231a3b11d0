"""The paper's Table 1, measured: time per question, stored bytes and encoding time as documents grow.

Predictions count multiply-adds: softmax costs 2 n k per question (scores and sum) and a lookup k²; a token costs k²
to write, 2 k² with a gate, and 6 k² in the GRU, which every method needs.
"""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attar import ops
from attar.errors import DeviceError, OptionError
from attar.paper.compare import STYLES, load_pyplot
from attar.paper.timing import (
    QUICK,
    Contender,
    Effort,
    Machine,
    Timer,
    aligned_table,
    check,
    quantity,
    relative_error,
    this_machine,
    tolerance_for,
)
from attar.progress import Progress, ignore_progress

Floats = NDArray[np.float32]
LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
# A GPU gets many questions per call; alone, each would cost a kernel launch and little else.
GPU_QUESTIONS = 1_024
ENDINGS = (".png", ".svg", ".pdf")


class Method(NamedTuple):
    """`store(hidden [n, k])` is what is kept, `lookup(stored, queries)` gives the readouts; `reference` in float64."""

    store: Callable[[Tensor], Any]
    lookup: Callable[[Any, Any], Any]
    reference: Callable[[Tensor, Tensor], Tensor]

    def error(self, hidden: Tensor, queries: Any) -> float:
        readouts = torch.as_tensor(self.lookup(self.store(hidden), queries)).reshape(-1, hidden.shape[1])
        exact = torch.as_tensor(queries).double().reshape(-1, hidden.shape[1])
        return relative_error(readouts, self.reference(hidden.double(), exact))


def make_methods(k: int, device: str) -> dict[str, Method]:
    """Softmax, linear and gated attention; on a CPU in numpy, memories packed, for one question per call."""
    # Random gates, about half open on average.
    weight, bias = torch.randn(k, k, device=device) / k**0.5, torch.randn(k, device=device)

    def encode_gated(hidden: Tensor) -> Tensor:
        return ops.encode(ops.gated(hidden[None], weight, bias))

    def linear(hidden: Tensor, queries: Tensor) -> Tensor:
        return (queries @ hidden.mT) @ hidden

    def gated(hidden: Tensor, queries: Tensor) -> Tensor:
        return linear(torch.sigmoid(hidden @ weight.double().mT + bias.double()) * hidden, queries)

    def memory(encode: Callable[[Tensor], Tensor], reference: Callable[[Tensor, Tensor], Tensor]) -> Method:
        if device != "cpu":
            return Method(encode, lambda memory, queries: ops.lookup(memory, queries[None])[0], reference)
        return Method(lambda hidden: ops.pack(encode(hidden))[0].numpy(), ops.packed_lookup, reference)

    on_cpu = Method(Tensor.numpy, softmax_numpy, softmax_torch)
    return {
        "softmax": on_cpu if device == "cpu" else Method(lambda hidden: hidden, softmax_torch, softmax_torch),
        "linear": memory(lambda hidden: ops.encode(hidden[None]), linear),
        "gated": memory(encode_gated, gated),
    }


def softmax_numpy(hidden: Floats, queries: Floats) -> Floats:
    """Hᵀ softmax(H q) in numpy, for one query `[k]` or many `[m, k]`.

    >>> softmax_numpy(np.float32([[1], [3]]), np.float32([[0]])).tolist()
    [[2.0]]
    """
    scores = queries @ hidden.T
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    # Dividing last touches k numbers per query, not n.
    readouts: Floats = (scores @ hidden) / scores.sum(-1, keepdims=True)
    return readouts


def softmax_torch(hidden: Tensor, queries: Tensor) -> Tensor:
    return torch.softmax(queries @ hidden.mT, -1) @ hidden


class Costs(msgspec.Struct, frozen=True):
    """Of one method at one length: seconds per question, stored bytes, and seconds to write the memory."""

    question: float
    bytes: int
    writing: float


class LengthCosts(msgspec.Struct, frozen=True):
    """The costs of all methods for documents of `tokens` tokens, and the GRU's seconds for reading one."""

    tokens: int
    gru: float
    methods: dict[str, Costs]


class Table1(msgspec.Struct, frozen=True):
    machine: Machine
    device: str
    k: int
    questions_per_call: int
    rows: list[LengthCosts]

    def predict(self, cost: str, method: str, tokens: int) -> float:
        """The seconds per question or for writing, by multiply-adds at the rate of softmax at the longest document."""
        n, k, last = tokens, self.k, self.rows[-1]
        rate = last.methods["softmax"].question / (2 * last.tokens * k)
        if cost == "question":
            return rate * (2 * n * k if method == "softmax" else k * k)
        return rate * {"softmax": 0, "linear": 1, "gated": 2, "GRU": 6}[method] * n * k * k


def measure_table(
    k: int = 100, device: str | None = None, *, quick: bool = False, progress: Progress = ignore_progress
) -> Table1:
    """Measure all of Table 1 on "cpu" or "cuda"; by default on a GPU if there is one."""
    device = choose_device(device)
    machine = this_machine()  # before the first size adds to its load
    torch.manual_seed(0)
    methods = make_methods(k, device)
    # The scores of random queries with these states have a variance of one.
    lengths = (4, 40, 160) if quick else LENGTHS
    documents = [torch.randn(n, k, device=device).mul_(k**-0.5) for n in lengths]
    questions = torch.randn(1 if device == "cpu" else GPU_QUESTIONS, k, device=device)
    queries: Any = questions[0].numpy() if device == "cpu" else questions
    # On a GPU float32 products may be made of three TensorFloat-32 ones.
    tolerance = tolerance_for(torch.float32) * (1 if device == "cpu" else 10)
    asking: list[Contender] = []
    writing: list[Contender] = []
    for hidden in documents:
        for name, method in methods.items():
            error = partial(method.error, hidden, queries)
            lookup = partial(method.lookup, method.store(hidden), queries)
            asking.append(Contender(name, lookup, error, tolerance))
            writing.append(Contender(name, partial(method.store, hidden), error, tolerance))
    parts = (asking, writing, [_gru(hidden) for hidden in documents])
    medians: list[list[float]] = []
    for done, contenders in enumerate(parts):
        progress("measuring", done, len(parts))
        for contender in contenders:
            check(contender)
        # All sizes in turns: other load on the machine raises the whole line, and does not bend it.
        rounds = _timer(device, quick=quick).time(contenders)
        medians.append([median(seconds) for seconds in rounds])
    asked, written = iter(medians[0]), iter(medians[1])
    rows = []
    for hidden, gru in zip(documents, medians[2], strict=True):
        costs = {
            name: Costs(next(asked) / len(questions), int(method.store(hidden).nbytes), next(written))
            for name, method in methods.items()
        }
        rows.append(LengthCosts(len(hidden), gru, costs))
    return Table1(machine, device, k, len(questions), rows)


def _timer(device: str, *, quick: bool) -> Timer:
    """One thread's CPU time, or the device's own time, in rounds that a GPU's launch queue holds."""
    effort = QUICK if quick else Effort(budget=10.0, rounds=5, round_seconds=0.002)
    return Timer(effort, "cpu", threads=1) if device == "cpu" else Timer(effort, "gpu")


def _gru(embedded: Tensor) -> Contender:
    """A GRU as in the paper, its hidden size that of the embeddings `[n, k]`, over one document."""
    gru = nn.GRU(embedded.shape[1], embedded.shape[1], batch_first=True).to(embedded.device)

    @torch.inference_mode()
    def run() -> Tensor:
        states: Tensor = gru(embedded[None])[0]
        return states

    @torch.inference_mode()
    def error() -> float:
        beginning = embedded[:1_000]
        exact = copy.deepcopy(gru).double()(beginning.double()[None])[0]
        return relative_error(run()[:, : len(beginning)], exact)

    # cuDNN's GRU multiplies in TensorFloat-32, ten bits, by default.
    dtype = torch.float32 if embedded.device.type == "cpu" else torch.bfloat16
    return Contender("GRU", run, error, tolerance_for(dtype))


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


COLUMNS = (
    *("n", "question: softmax", "linear", "gated", "softmax / linear", "predicted"),
    *("bytes: H", "C", "H / C", "writing: linear", "gated", "gated / GRU", "predicted"),
)


def describe_table1(table: Table1) -> str:
    clock = "CPU time of one thread" if table.device == "cpu" else "the device's own time"
    notes = (
        f"k = {table.k}, float32, questions per call: {table.questions_per_call:,}; {clock}, medians; all sizes are "
        "timed in turns, after a check against float64.",
        "predicted, by multiply-adds: softmax 2 n k, lookup k², writing n k² (gated 2 n k²), GRU 6 n k².",
        *table.machine.busy_notes("trust ratios, not times."),
    )
    rows = aligned_table(COLUMNS, [_cells(table, row) for row in table.rows])
    return "\n".join([f"{table.machine}\n", rows, "", *(f"- {note}" for note in notes)])


def _cells(table: Table1, row: LengthCosts) -> list[str]:
    softmax, linear, gated = (row.methods[name] for name in ("softmax", "linear", "gated"))
    faster, dearer = (
        table.predict(cost, one, row.tokens) / table.predict(cost, other, row.tokens)
        for cost, one, other in (("question", "softmax", "linear"), ("writing", "gated", "GRU"))
    )
    return [
        f"{row.tokens:,}",
        *(quantity(costs.question, "s") for costs in (softmax, linear, gated)),
        *(_short(ratio) for ratio in (softmax.question / linear.question, faster)),
        *(quantity(costs.bytes, "B") for costs in (softmax, linear)),
        _short(softmax.bytes / linear.bytes),
        *(quantity(costs.writing, "s") for costs in (linear, gated)),
        *(_short(ratio) for ratio in (gated.writing / row.gru, dearer)),
    ]


def _short(number: float) -> str:
    """A number with two digits, or all those before the point.

    >>> _short(0.333), _short(50.52), _short(1903.2)
    ('0.33', '51', '1,903')
    """
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def check_plot_file(file: Path) -> None:
    """Refuse a file that cannot be written as a figure, before anything is measured."""
    if file.suffix.lower() not in ENDINGS:
        raise OptionError.expected("--plot", f"a file that ends with {', '.join(ENDINGS)}", repr(file.name))
    if not file.parent.is_dir():
        raise OptionError.expected("--plot", "a file in a folder that exists", repr(str(file)))
    load_pyplot()


def draw_table1(table: Table1, file: Path) -> None:
    """Draw time per question, bytes and writing time on log-log axes; predictions are dotted."""
    pyplot = load_pyplot()
    sizes = [row.tokens for row in table.rows]
    panels = {"question": "seconds per question", "bytes": "bytes stored", "writing": "seconds to write"}
    with pyplot.rc_context({"svg.hashsalt": "table1"}):
        figure, grid = pyplot.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
        for axes, (cost, title) in zip(grid, panels.items(), strict=True):
            for name in table.rows[0].methods:
                if (cost, name) == ("writing", "softmax"):  # it keeps the states as they are
                    continue
                colour, line, marker = STYLES[name]
                measured = [getattr(row.methods[name], cost) for row in table.rows]
                axes.loglog(sizes, measured, line, color=colour, marker=marker, mfc="none", label=name)
                if cost != "bytes":
                    predicted = [table.predict(cost, name, n) for n in sizes]
                    axes.loglog(sizes, predicted, ":", color=colour, linewidth=0.8)
            if cost == "writing":
                axes.loglog(sizes, [row.gru for row in table.rows], "k-", label="GRU")
            axes.set_title(title, fontsize=10)
            axes.set_xlabel("tokens n")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        where = table.machine.gpu if table.device == "cuda" else f"{table.machine.cpu}, one thread"
        figure.suptitle(f"Table 1, k = {table.k}, {where}, {table.machine.date}", fontsize=10)
        undated = {"Date": None} if file.suffix.lower() == ".svg" else None
        figure.savefig(file, dpi=130, metadata=undated)
        pyplot.close(figure)
