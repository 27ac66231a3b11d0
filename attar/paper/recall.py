"""Associative recall: pairs of a key and a value are read once, then every key is asked for its value.

The task is MQAR (Arora et al. 2023) with documents that are read without their questions. One network per mechanism,
size and seed is trained on documents of all lengths in turns. Recall against bytes says what a memory holds; the same
networks say whether memories that were read apart can be merged, and a part taken out again.
"""

import multiprocessing
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import msgspec
import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from torch import Tensor, nn

from attar.errors import OptionError, writing_to
from attar.nn.mechanisms import attention
from attar.paper.compare import STYLES, aligned_table, load_pyplot
from attar.paper.options import MERGED_PAIRS, RARE_PAIRS, RecallOptions, mechanism_options, whole_numbers
from attar.progress import Progress, ignore_progress

# Pairs per training step, and documents per measurement.
_STEP_PAIRS = 2_048
_MEASURED = 64
# Into how many parts a document of `MERGED_PAIRS` pairs is divided.
PARTS = (4, 16, 64)


class DeltaRule(nn.Module):
    """S ← α S (I − β k kᵀ) + β v kᵀ with α = 1, or with `gated` a learnt α; a reference, no case of the family.

    What is written at token t is u_t = β_t (v_t − α_t S k_t), so all u solve one triangular system.
    """

    def __init__(self, size: int, *, gated: bool) -> None:
        super().__init__()
        self.gated = gated
        self.key = nn.Linear(size, size, bias=False)
        self.gates = nn.Linear(size, 2)  # β and α, which start at 0.88 and 0.998
        with torch.no_grad():
            self.gates.bias.copy_(torch.tensor([2.0, 6.0]))

    def encode(
        self, hidden: Float[Tensor, "B n k"], values: Float[Tensor, "B n d"]
    ) -> Float[Tensor, "B k d"]:
        keys = nn.functional.normalize(self.key(hidden), dim=-1)
        beta, alpha = torch.sigmoid(self.gates(hidden)).unbind(-1)
        decay = torch.log(alpha).cumsum(1) if self.gated else torch.zeros_like(alpha)
        since = torch.exp((decay[:, :, None] - decay[:, None, :]).tril())
        overlaps = beta[:, :, None] * (keys @ keys.mT * since).tril(-1)
        written: Tensor = torch.linalg.solve_triangular(
            overlaps, beta[:, :, None] * values, upper=False, unitriangular=True
        )
        return (keys * torch.exp(decay[:, -1:] - decay)[:, :, None]).mT @ written

    def lookup(
        self, memories: Float[Tensor, "B k d"], queries: Float[Tensor, "B m k"]
    ) -> Float[Tensor, "B m d"]:
        return queries @ memories


class Associator(nn.Module):
    """Embeddings of keys and values, a mechanism, and a linear head over all values.

    Keyed mechanisms and delta rules write values under keys; the others write one state per pair.
    """

    def __init__(self, mechanism: str, size: int, vocabulary: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(vocabulary, size), nn.Embedding(vocabulary, size)
        self.query = nn.Linear(size, size, bias=False)
        self.head = nn.Linear(size, vocabulary)
        paired = mechanism.startswith("keyed") or mechanism.endswith("delta")
        self.state = None if paired else nn.Linear(2 * size, size)
        self.mechanism: Any
        if mechanism.endswith("delta"):
            self.mechanism = DeltaRule(size, gated=mechanism == "gated-delta")
        else:
            kind, options = mechanism_options(mechanism)
            self.mechanism = attention(kind, size, **options)

    def read(self, keys: Int[Tensor, "B n"], values: Int[Tensor, "B n"]) -> Any:
        """The memories of documents, which can be added and subtracted where the mechanism allows it."""
        embedded = self.keys(keys), self.values(values)
        if self.state is None:
            return self.mechanism.encode(embedded[0], values=embedded[1])
        return self.mechanism.encode(self.state(torch.cat(embedded, -1)))

    def recall(self, memories: Any, keys: Int[Tensor, "B m"]) -> Float[Tensor, "B m v"]:
        scores: Tensor = self.head(self.mechanism.lookup(memories, self.query(self.keys(keys))))
        return scores


def stored_bytes(mechanism: str, k: int, pairs: int) -> int:
    """What a memory takes in float32; symmetric matrices are stored as a triangle.

    >>> [stored_bytes(name, 32, 64) for name in ("softmax", "linear", "keyed", "keyed-ridge")]
    [8192, 2112, 4096, 6208]
    """
    triangle = k * (k + 1) // 2
    numbers = {"none": k, "softmax": pairs * k, "keyed-ridge": k * k + triangle}
    square = k * k if mechanism in ("keyed", "delta", "gated-delta") else triangle
    return 4 * numbers.get(mechanism, square)


class Sample(NamedTuple):
    """Documents: their different pairs, and which of them is read at each place."""

    keys: Int[Tensor, "B p"]
    values: Int[Tensor, "B p"]
    order: Int[Tensor, "B n"]

    def read(self, network: Associator) -> Any:
        return network.read(self.keys.gather(1, self.order), self.values.gather(1, self.order))


def draw(options: RecallOptions, count: int, length: int, rng: torch.Generator) -> Sample:
    """Documents of `length` pairs; of the task "rare", `RARE_PAIRS` are read once and as many share the rest."""
    device, rare = rng.device, RARE_PAIRS
    different = length if options.task == "pairs" else 2 * rare

    def shuffled(width: int) -> Int[Tensor, "B w"]:
        return torch.rand(count, width, generator=rng, device=device).argsort(1)

    keys = shuffled(options.vocabulary)[:, :different]
    values = torch.randint(options.vocabulary, keys.shape, generator=rng, device=device)
    places = torch.arange(length, device=device)
    if options.task == "rare":
        places = torch.where(places < rare, places, rare + places % rare)
    return Sample(keys, values, places[shuffled(length)])


class PartsRecall(msgspec.Struct):
    """Recall of a document read in parts, or None where the mechanism cannot do it.

    `merged`: of the sum of all parts. `rest`: of the other pairs, after the last part is subtracted from the document
    read at once. `leak`: of the subtracted pairs, beyond a document that never had them.
    """

    merged: float | None = None
    rest: float | None = None
    leak: float | None = None


class RecallRun(msgspec.Struct):
    """One trained network: recall by length (of rare pairs for that task), and by the number of parts."""

    mechanism: str
    size: int
    seed: int
    recall: dict[int, float]
    merging: dict[int, PartsRecall]
    seconds: float


def train_network(
    network: Associator,
    options: RecallOptions,
    rng: torch.Generator,
    loss_of: Callable[[Sample, Any], Tensor],
) -> None:
    """Train on documents of all lengths in turns; `loss_of` takes a sample and its memories."""
    lengths = whole_numbers("lengths", options.lengths)
    optimizer = torch.optim.Adam(network.parameters(), options.lr, fused=rng.device.type == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.steps + 1)
    for step in range(options.steps):
        length = lengths[step % len(lengths)]
        sample = draw(options, max(4, _STEP_PAIRS // length), length, rng)
        loss = loss_of(sample, sample.read(network))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def recall_loss(scores: Float[Tensor, "B m v"], values: Int[Tensor, "B m"]) -> Float[Tensor, ""]:
    return nn.functional.cross_entropy(scores.flatten(0, 1), values.flatten())


def run_recall(options: RecallOptions, device: str, mechanism: str, size: int, seed: int) -> RecallRun:
    began = time.perf_counter()
    torch.manual_seed(seed)
    network = Associator(mechanism, size, options.vocabulary).to(device)
    rng = torch.Generator(device).manual_seed(seed + 1)
    lengths = whole_numbers("lengths", options.lengths)

    def loss_of(sample: Sample, memories: Any) -> Tensor:
        return recall_loss(network.recall(memories, sample.keys), sample.values)

    train_network(network, options, rng, loss_of)
    asked = RARE_PAIRS if options.task == "rare" else None
    with torch.inference_mode():
        samples = {length: draw(options, _MEASURED, length, rng) for length in lengths}
        recall = {n: _right(network, s.read(network), s, slice(asked)) for n, s in samples.items()}
        merging = dict(measure_merging(network, options, rng)) if options.task == "pairs" else {}
    return RecallRun(mechanism, size, seed, recall, merging, round(time.perf_counter() - began, 1))


def _right(network: Associator, memories: Any, sample: Sample, asked: slice) -> float:
    """The share of some pairs whose value has the highest score."""
    scores = network.recall(memories, sample.keys[:, asked])
    return (scores.argmax(-1) == sample.values[:, asked]).float().mean().item()


def measure_merging(
    network: Associator, options: RecallOptions, rng: torch.Generator
) -> Iterator[tuple[int, PartsRecall]]:
    """Read a document in parts and merge them; subtract the last part from the document read at once."""
    sample = draw(options, _MEASURED, MERGED_PAIRS, rng)
    whole = network.read(sample.keys, sample.values)
    for parts in PARTS:
        each = zip(sample.keys.chunk(parts, 1), sample.values.chunk(parts, 1), strict=True)
        read = [network.read(keys, values) for keys, values in each]
        kept, taken = slice(-(MERGED_PAIRS // parts)), slice(-(MERGED_PAIRS // parts), None)
        found = PartsRecall()
        with suppress(OptionError):  # the mechanism cannot merge, or not subtract
            found.merged = _right(network, reduce(operator.add, read), sample, slice(None))
            without = whole - read[-1]
            never = network.read(sample.keys[:, kept], sample.values[:, kept])
            found.rest = _right(network, without, sample, kept)
            found.leak = _right(network, without, sample, taken) - _right(network, never, sample, taken)
        yield parts, found


class RecallReport(msgspec.Struct):
    options: RecallOptions
    device: str
    runs: list[RecallRun]


def recall(
    options: RecallOptions,
    out: Path,
    *,
    device: str = "cpu",
    jobs: int = 1,
    say: Callable[[str], None] = print,
    progress: Progress = ignore_progress,
) -> RecallReport:
    """Train and measure all networks, `jobs` at a time, and write `report.json` and the figure."""
    load_pyplot()
    with writing_to(out, "choose another --out"):
        out.mkdir(parents=True, exist_ok=True)
    cases = [
        (mechanism, size, seed)
        for seed in range(options.seeds)
        for mechanism in options.mechanisms.split(",")
        for size in whole_numbers("sizes", options.sizes)
    ]
    spawn = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    results: dict[tuple[str, int, int], RecallRun] = {}
    with ProcessPoolExecutor(jobs, spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = [pool.submit(run_recall, options, device, *case) for case in cases]
        try:
            for done, future in enumerate(as_completed(futures)):
                progress("training", done, len(futures))
                run = future.result()
                results[run.mechanism, run.size, run.seed] = run
                recalled = ", ".join(f"{share:.3f} of {length}" for length, share in run.recall.items())
                say(f"{run.mechanism}, k {run.size}, seed {run.seed}: {recalled} ({run.seconds:.0f} s)")
        finally:
            pool.shutdown(cancel_futures=True)
    report = RecallReport(options, device, [results[case] for case in cases])
    with writing_to(out, "choose another --out"):
        (out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        draw_recall(report, out / "recall.png")
    return report


class Estimate(NamedTuple):
    """The mean over seeds, and the half-width of its 95 % interval by Student; None for one seed."""

    mean: float
    margin: float | None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.margin is None else f"{self.mean:.3f} ± {self.margin:.3f}"


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate from one value per seed.

    >>> str(estimate([0.5])), str(estimate([0.4, 0.5, 0.6]))
    ('0.500', '0.500 ± 0.248')
    """
    if len(values) < 2:
        return Estimate(fmean(values), None)
    quantile = float(stdtrit(len(values) - 1, 0.975))
    return Estimate(fmean(values), quantile * stdev(values) / len(values) ** 0.5)


def _by_network(report: RecallReport) -> dict[tuple[str, int], list[RecallRun]]:
    groups: dict[tuple[str, int], list[RecallRun]] = {}
    for run in report.runs:
        groups.setdefault((run.mechanism, run.size), []).append(run)
    return groups


def recall_tables(report: RecallReport) -> str:
    """Recall by length; then, for distinct pairs, of merged memories, the rest and the leak, by number of parts."""
    lengths = whole_numbers("lengths", report.options.lengths)
    rows = []
    for (mechanism, size), runs in _by_network(report).items():
        sizes = [stored_bytes(mechanism, size, length) for length in (lengths[0], lengths[-1])]
        stored = f"{sizes[0]:,}" if sizes[0] == sizes[1] else f"{sizes[0]:,} to {sizes[1]:,}"
        shares = [str(estimate([run.recall[length] for run in runs])) for length in lengths]
        rows.append([mechanism, str(size), stored, *shares])
    tables = [aligned_table(["mechanism", "k", "bytes", *(f"{n:,} pairs" for n in lengths)], rows)]
    if report.options.task == "pairs":
        figures = [(what, parts) for what in ("merged", "rest", "leak") for parts in PARTS]
        titles = {"merged": "merged from", "rest": "rest of", "leak": "leak of"}
        rows = [
            [mechanism, str(size)]
            + [_share([getattr(run.merging[parts], what) for run in runs]) for what, parts in figures]
            for (mechanism, size), runs in _by_network(report).items()
        ]
        columns = ["mechanism", "k", *(f"{titles[what]} {parts}" for what, parts in figures)]
        tables.append(aligned_table(columns, rows))
    return "\n\n".join(tables)


def _share(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{round(fmean(known), 3) + 0:.3f}" if known else "–"  # + 0: no -0.000


def draw_recall(report: RecallReport, file: Path) -> None:
    """Recall against stored bytes, one panel per length, one line per mechanism over its sizes."""
    pyplot = load_pyplot()
    lengths = whole_numbers("lengths", report.options.lengths)
    groups = _by_network(report)
    names = list(dict.fromkeys(mechanism for mechanism, _ in groups))
    figure, grid = pyplot.subplots(
        1, len(lengths), figsize=(1 + 3.6 * len(lengths), 4), layout="constrained", sharey=True, squeeze=False
    )
    for axes, length in zip(grid[0], lengths, strict=True):
        for number, name in enumerate(names):
            colour, line, marker = STYLES.get(name, (f"C{number}", "-", "."))
            points = {
                stored_bytes(name, size, length): estimate([run.recall[length] for run in runs])
                for (mechanism, size), runs in groups.items()
                if mechanism == name
            }
            margins = [point.margin or 0.0 for point in points.values()]
            means = [point.mean for point in points.values()]
            style = partial(axes.errorbar, capsize=2, linestyle=line, marker=marker, markersize=4)
            style(list(points), means, margins, color=colour, label=name)
        axes.set_xscale("log", base=2)
        axes.set_title(f"{length:,} pairs", fontsize=10)
        axes.set_xlabel("bytes of a memory")
        axes.grid(alpha=0.3)
    grid[0][0].set_ylabel("recall" if report.options.task == "pairs" else "recall of rare pairs")
    grid[0][-1].legend(fontsize=7)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
