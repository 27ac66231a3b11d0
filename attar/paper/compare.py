"""The paper's experiment: mechanisms trained under the same conditions with several seeds, each run in its own process.

The results become a table and a figure.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
import numpy as np
import torch

from attar.errors import AttarError, FormatError, MissingError, OptionError, install_command, writing_to
from attar.files import atomic_file
from attar.paper.network import load_network
from attar.paper.options import SPLITS, TrainingOptions
from attar.paper.sets import ClozeSet
from attar.paper.train import BASELINES, NETWORK, WHOLE, Evaluation, Row, evaluate, train
from attar.progress import Progress, ignore_progress

MECHANISMS = ("none", "linear", "gated", "softmax")
_RESULT = "result.json"  # in the folder of a run


@dataclass(frozen=True)
class Comparison:
    """Each mechanism is trained with each seed; all other options are the same. At most `jobs` runs at a time."""

    base: TrainingOptions
    mechanisms: Sequence[str] = MECHANISMS
    seeds: int = 3
    jobs: int = 1

    def __post_init__(self) -> None:
        if not self.mechanisms:
            raise OptionError.expected("mechanisms", "at least one", "none")
        # Two runs of one mechanism would write the same folder.
        repeated = sorted({name for name in self.mechanisms if self.mechanisms.count(name) > 1})
        if repeated:
            raise OptionError(f"{', '.join(repeated)} is given more than once", "name each mechanism once")

    @property
    def runs(self) -> list[TrainingOptions]:
        """One run per mechanism and seed, each with its own folder."""
        folder = Path(self.base.out) / "runs"
        return [
            replace(self.base, mechanism=mechanism, seed=seed, out=str(folder / f"{mechanism}-{seed}"))
            for seed in range(self.seeds)
            for mechanism in self.mechanisms
        ]


class Result(msgspec.Struct):
    options: dict[str, Any]
    history: list[Row]
    validation: Evaluation
    test: Evaluation


def compare(
    comparison: Comparison, *, say: Callable[[str], None] = print, progress: Progress = ignore_progress
) -> "Report":
    """Make the missing runs, and write `report.json` and the figure; `say` is called with one line per epoch."""
    load_pyplot()  # missing, it is better refused now than after hours
    out = Path(comparison.base.out)
    runs = comparison.runs
    missing = [options for options in runs if not _is_done(options)]
    if missing:
        _prepare(comparison.base, progress)
        _run_all(missing, comparison.jobs, say, progress)
    results: dict[str, list[Result]] = {name: [] for name in comparison.mechanisms}
    for options in runs:
        result = read_result(options.folder)
        if result is None:
            raise FormatError(f"{options.folder} has no {_RESULT}", "give the same command again")
        results[options.mechanism].append(result)
    shared = comparison.base.described()
    report = make_report(
        {name: shared[name] for name in shared if name not in ("mechanism", "seed")}, results
    )
    with writing_to(out, "choose another --out"):
        (out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        draw_figure(report, out / "figure")
    return report


def _is_done(options: TrainingOptions) -> bool:
    """Whether a run has its result; a result of other options is refused."""
    result = read_result(options.folder)
    if result is None:
        return False
    changed = options.changes(result.options)
    if changed:
        then = ", ".join(f"{name} {value!r}" for name, (value, _) in changed.items())
        raise OptionError(f"{options.folder} has the result of other options: {then}", "choose another --out")
    return True


def _prepare(base: TrainingOptions, progress: Progress) -> None:
    """Count words and encode documents once, here, and not in every run at the same time."""
    cloze_set = ClozeSet.open(base.data, progress=progress)
    cloze_set.check_splits(*SPLITS)
    vocabulary = cloze_set.vocabulary()
    for split in SPLITS:
        cloze_set.encoded(split, vocabulary)


@dataclass(frozen=True)
class _Running:
    options: TrainingOptions
    process: Any  # a multiprocessing process that was spawned
    lines: Connection  # what it says

    @property
    def name(self) -> str:
        return f"{self.options.mechanism}, seed {self.options.seed}"


def _run_all(
    missing: Sequence[TrainingOptions], jobs: int, say: Callable[[str], None], progress: Progress
) -> None:
    """Make all runs, at most `jobs` at a time, and say what each says; the first that fails stops the others."""
    spawn = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    queue, running = list(missing), list[_Running]()
    try:
        while queue or running:
            while queue and len(running) < jobs:
                receiving, sending = spawn.Pipe(duplex=False)
                options = queue.pop(0)
                process = spawn.Process(target=_run_in_process, args=(options, sending))
                process.start()
                sending.close()  # in this process, so that its end is seen
                running.append(_Running(options, process, receiving))
            progress("training", len(missing) - len(queue) - len(running), len(missing))
            ready = wait([run.lines for run in running])
            for run in [run for run in running if run.lines in ready]:
                try:
                    say(f"{run.name}: {run.lines.recv()}")
                except EOFError:
                    run.process.join()
                    running.remove(run)
                    if run.process.exitcode:
                        message = f"the run {run.name} ended with exit code {run.process.exitcode}"
                        raise AttarError(message, "the same command continues from here") from None
    finally:
        for run in running:
            run.process.terminate()
            run.process.join()


def _run_in_process(options: TrainingOptions, lines: Connection) -> None:
    """Make one run in a process that ends with the comparison, even if that is killed."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        run_once(options, say=lines.send)
    except AttarError as mistake:
        with suppress(OSError):
            lines.send(str(mistake))
        raise SystemExit(1) from None


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_once(options: TrainingOptions, say: Callable[[str], None]) -> Result:
    """Train, evaluate on validation and test, and write `result.json` last: a folder that has one is done."""
    history = train(options, resume=True, say=say)
    saved = load_network(options.folder)
    cloze_set = ClozeSet.open(options.data)
    validation, test = (
        evaluate(saved.network, cloze_set.encoded(split, saved.vocabulary))
        for split in ("validation", "test")
    )
    result = Result(options.described(), history, validation, test)
    with atomic_file(options.folder / _RESULT) as partial:
        partial.write_bytes(msgspec.json.encode(result))
    return result


def read_result(folder: Path) -> Result | None:
    """A run's result, or None if there is none yet; a damaged one raises an error with its path."""
    file = folder / _RESULT
    try:
        return msgspec.json.decode(file.read_bytes(), type=Result)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as fault:
        remedy = "delete it: the same command then writes it again"
        raise FormatError(f"{file} is not the result of a run ({fault})", remedy) from fault


class Accuracy(msgspec.Struct):
    """The test accuracy of each seed, their mean and standard deviation.

    >>> Accuracy.of([0.25, 0.75]), Accuracy.of([0.25]).deviation
    (Accuracy(test=[0.25, 0.75], mean=0.5, deviation=0.3535533905932738), None)
    """

    test: list[float]
    mean: float
    deviation: float | None  # of one seed there is none

    @classmethod
    def of(cls, test: list[float]) -> "Accuracy":
        return cls(test, fmean(test), stdev(test) if len(test) > 1 else None)


class MechanismReport(msgspec.Struct):
    """A mechanism's test accuracy by source, "all" first, and its validation accuracy by seed and epoch."""

    test: dict[str, Accuracy]
    validation: list[list[float]]


class Report(msgspec.Struct):
    """What the runs share, and what they differ in; baselines' accuracies are by source, then by name."""

    options: dict[str, Any]
    mechanisms: dict[str, MechanismReport]
    baselines: dict[str, dict[str, float]]


def make_report(options: dict[str, Any], results: Mapping[str, Sequence[Result]]) -> Report:
    """Summarize the results of all runs, one per seed and mechanism; `options` are what the runs share."""
    test = next(iter(results.values()))[0].test  # the baselines are those of every run
    mechanisms = {
        name: MechanismReport(
            {part: Accuracy.of([run.test[part][NETWORK].accuracy for run in runs]) for part in test},
            [[row["validation_accuracy"] for row in run.history] for run in runs],
        )
        for name, runs in results.items()
    }
    baselines = {part: {name: scores[name].accuracy for name in BASELINES} for part, scores in test.items()}
    return Report(options, mechanisms, baselines)


def difference(lower: Accuracy, higher: Accuracy) -> tuple[float, float | None]:
    """The difference between two mechanisms' means, and its standard error over seeds if there are several.

    >>> one, two = Accuracy([0.5], 0.5, None), Accuracy([1.0, 0.5], 0.75, 0.2)
    >>> difference(one, two), difference(two, two)
    ((0.25, None), (0.0, 0.2))
    """
    if lower.deviation is None or higher.deviation is None:
        return higher.mean - lower.mean, None
    variances = (lower.deviation**2 / len(lower.test), higher.deviation**2 / len(higher.test))
    return higher.mean - lower.mean, sum(variances) ** 0.5


def markdown_table(report: Report) -> str:
    """The report as a Markdown table: the whole test set, then each source if there are several.

    A step is the difference to the mechanism above, ± its standard error over seeds.
    """
    rows: list[list[str]] = []
    for part, baselines in report.baselines.items():
        above = None
        for name, mechanism in report.mechanisms.items():
            row = mechanism.test[part]
            accuracy = f"{row.mean:.3f}" if row.deviation is None else f"{row.mean:.3f} ± {row.deviation:.3f}"
            rows.append([part, name, accuracy, "" if above is None else _step(*difference(above, row))])
            above = row
        rows += [[part, name, f"{value:.3f}", ""] for name, value in baselines.items()]
    return aligned_table(["test", "mechanism", "accuracy", "step"], rows)


def _step(change: float, error: float | None) -> str:
    return f"{change:+.3f}" if error is None else f"{change:+.3f} ± {error:.3f}"


def aligned_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, with aligned columns.

    >>> print(aligned_table(["n", "time"], [["10", "1 s"]]))
    | n  | time |
    |----|------|
    | 10 | 1 s  |
    """
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"

    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([line(columns), f"|{rule}|", *map(line, rows)])


def load_pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as fault:
        raise MissingError("figures need matplotlib", install_command("plots")) from fault
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


# Colour, line and marker: distinguishable in grey too.
STYLES = {
    "none": ("#7f7f7f", ":", "x"),
    "linear": ("#1f77b4", "--", "s"),
    "gated": ("#d62728", "-", "o"),
    "softmax": ("#2ca02c", "-.", "^"),
    "decayed": ("#17becf", "--", "v"),
    "adaptive": ("#ff7f0e", ":", "d"),
    "adaptive-energy": ("#8c564b", "-", "d"),
    "keyed": ("#9467bd", "-", "*"),
    "keyed-ridge": ("#e377c2", "--", "*"),
}


def draw_figure(report: Report, path: Path) -> None:
    """Write `path.png` and `path.svg`: validation accuracy per epoch, the mean and range over seeds."""
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, row in report.mechanisms.items():
        colour, line, marker = STYLES.get(name, (None, "-", "."))
        curves = np.array(row.validation)
        epochs = np.arange(1, curves.shape[1] + 1)
        markers: dict[str, Any] = {"marker": marker, "markersize": 4, "markevery": max(1, len(epochs) // 12)}
        label = f"{name} (test {row.test[WHOLE].mean:.3f})"
        axes.plot(epochs, curves.mean(0), line, color=colour, label=label, **markers)
        axes.fill_between(epochs, curves.min(0), curves.max(0), color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("epochs")
    axes.set_ylabel("validation accuracy")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), dpi=150, metadata={"Date": None})
    pyplot.close(figure)
