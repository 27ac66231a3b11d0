"""The paper's Table 1, measured: time per question, stored bytes and encoding time as documents grow.

Predictions count multiply-adds: softmax costs 2 n k per question (scores and sum) and a lookup k²; a token costs k²
to write, 2 k² with a gate, and 6 k² in the GRU, which every method needs.
"""

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from attar import ops
from attar.errors import DeviceError, OptionError
from attar.paper.compare import STYLES, aligned_table, load_pyplot
from attar.progress import Progress, ignore_progress

Floats = NDArray[np.float32]
LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
# A GPU gets many questions per call; alone, each would cost a kernel launch and little else.
GPU_QUESTIONS = 1_024
ENDINGS = (".png", ".svg", ".pdf")


class Method(NamedTuple):
    """`store(hidden [n, k])` is what is kept, `lookup(stored, queries)` gives the readouts."""

    store: Callable[[Tensor], Any]
    lookup: Callable[[Any, Any], Any]


def make_methods(k: int, device: str) -> dict[str, Method]:
    """Softmax, linear and gated attention; on a CPU in numpy, memories packed, for one question per call."""
    # Random gates, about half open on average.
    weight, bias = torch.randn(k, k, device=device) / k**0.5, torch.randn(k, device=device)

    def encode(hidden: Tensor) -> Tensor:
        return ops.encode(hidden[None])

    def encode_gated(hidden: Tensor) -> Tensor:
        return ops.encode(ops.gated(hidden[None], weight, bias))

    def memory(encode: Callable[[Tensor], Tensor]) -> Method:
        if device != "cpu":
            return Method(encode, lambda memory, queries: ops.lookup(memory, queries[None])[0])
        return Method(lambda hidden: ops.pack(encode(hidden))[0].numpy(), ops.packed_lookup)

    on_cpu, on_gpu = Method(Tensor.numpy, softmax_numpy), Method(lambda hidden: hidden, softmax_torch)
    softmax = on_cpu if device == "cpu" else on_gpu
    return {"softmax": softmax, "linear": memory(encode), "gated": memory(encode_gated)}


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


class Machine(msgspec.Struct, frozen=True):
    """What a measurement was made on, without the machine's name."""

    cpu: str
    cores: int
    gpu: str | None
    torch: str
    load: float
    date: str

    def __str__(self) -> str:
        parts = f"{self.cpu}, {self.cores} cores", self.gpu or "no GPU", f"torch {self.torch}"
        return "; ".join([*parts, f"load {self.load:.1f}", self.date])

    def busy_notes(self, advice: str = "do not trust the times.") -> list[str]:
        """A line of advice if other programs were running; the benchmark itself adds about one to the load."""
        if self.load <= max(1.0, 0.75 * self.cores):
            return []
        return [f"The machine was busy (load {self.load} on {self.cores} cores): {advice}"]


def this_machine() -> Machine:
    """The machine that runs this, and its load now."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [" ".join(line.split(":", 1)[1].split()) for line in lines if line.startswith("model name")]
    return Machine(
        cpu=models[0] if models else platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        torch=str(torch.__version__),
        load=round(os.getloadavg()[0], 1),
        date=datetime.date.today().isoformat(),
    )


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
    gru = nn.GRU(k, k, batch_first=True).to(device)
    cases = [(hidden, method) for hidden in documents for method in methods.values()]
    stored = [method.store(hidden) for hidden, method in cases]
    parts: list[list[Callable[[], object]]] = [
        [partial(method.lookup, kept, queries) for (_, method), kept in zip(cases, stored, strict=True)],
        [partial(method.store, hidden) for hidden, method in cases],
        [partial(gru, hidden[None]) for hidden in documents],
    ]
    medians = []
    for done, runs in enumerate(parts):
        progress("measuring", done, len(parts))
        with torch.inference_mode(), limited_threads(1 if device == "cpu" else None):
            medians.append(_time_in_turns(runs, device, quick=quick))
    asked, written, sizes = iter(medians[0]), iter(medians[1]), iter(int(kept.nbytes) for kept in stored)
    rows = []
    for hidden, seconds in zip(documents, medians[2], strict=True):
        costs = {name: Costs(next(asked) / len(questions), next(sizes), next(written)) for name in methods}
        rows.append(LengthCosts(len(hidden), seconds, costs))
    return Table1(machine, device, k, len(questions), rows)


def _time_in_turns(runs: Sequence[Callable[[], object]], device: str, *, quick: bool) -> list[float]:
    """Each run's median of seconds: CPU time, which leaves out what other programs take, or the GPU's own time.

    All take turns, so that other load on the machine raises the whole line and does not bend it. A round is long
    enough to be timed, and short enough for a GPU's queue.
    """
    rounds, budget, shortest = (3, 0.0, 0.0) if quick else (5, 10.0, 0.002)
    measure = gpu_seconds if device == "cuda" else _cpu_seconds
    calls = []
    for run in runs:
        measure(run, 3)  # compile, allocate, fill caches
        calls.append(max(1, round(shortest / max(measure(run, 1), 1e-9))))
    seconds: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + budget
    while len(seconds[0]) < rounds or time.perf_counter() < end:
        for run, count, times in zip(runs, calls, seconds, strict=True):
            times.append(measure(run, count) / count)
    return [median(times) for times in seconds]


def _cpu_seconds(run: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        run()
    return time.process_time() - start


def gpu_seconds(run: Callable[[], object], calls: int) -> float:
    """Seconds of the device's own work.

    The stream is delayed while the CPU fills its queue. Otherwise Python's launches would be timed too, which
    favours whoever launches the fewest kernels.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    launching = time.perf_counter()
    run()
    launching = (time.perf_counter() - launching) * calls
    # A queue holds about a thousand launches; beyond that the CPU waits for the device anyway.
    delay = min(2 * launching, 0.05)
    torch.cuda.synchronize()
    torch.cuda._sleep(int(delay * 2e9))  # type: ignore[no-untyped-call]  # cycles, at 2 GHz or less
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Limit torch and numpy's BLAS to `count` threads; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        with threadpool_limits(count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


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
        "timed in turns.",
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


def quantity(amount: float | None, unit: str) -> str:
    """Seconds, bytes or a share with three digits and a prefix.

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
