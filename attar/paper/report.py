"""The report of a comparison: accuracies per mechanism and source over seeds, as data, a table and a figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
import numpy as np

from attar.errors import MissingError, install_command
from attar.paper.evaluate import Evaluation, Score
from attar.paper.train import Row

# Colour, line and marker: distinguishable in grey too.
_STYLES = {
    "none": ("#7f7f7f", ":", "x"),
    "linear": ("#1f77b4", "--", "s"),
    "gated": ("#d62728", "-", "o"),
    "softmax": ("#2ca02c", "-.", "^"),
}


class Result(msgspec.Struct):
    """What a run leaves in its folder."""

    options: dict[str, Any]
    history: list[Row]
    validation: Evaluation
    test: Evaluation


class Accuracy(msgspec.Struct):
    """The test accuracy of each seed, their mean and standard deviation, and the mean 95 % interval over documents.

    >>> low, high = Score(0.25, 0.0, 0.5, 8, 2), Score(0.75, 0.5, 1.0, 8, 2)
    >>> Accuracy.of([low, high])
    Accuracy(test=[0.25, 0.75], mean=0.5, deviation=0.3535533905932738, low=0.25, high=0.75)
    >>> Accuracy.of([low]).deviation is None
    True
    """

    test: list[float]
    mean: float
    deviation: float | None  # of one seed there is none
    low: float
    high: float

    @classmethod
    def of(cls, scores: Sequence[Score]) -> "Accuracy":
        """Over the seeds of one mechanism."""
        accuracies = [score.accuracy for score in scores]
        low, high = fmean(score.low for score in scores), fmean(score.high for score in scores)
        deviation = stdev(accuracies) if len(accuracies) > 1 else None
        return cls(accuracies, fmean(accuracies), deviation, low, high)


class MechanismReport(msgspec.Struct):
    """A mechanism's test accuracy, over all questions and per source, and its validation accuracy by seed and epoch."""

    whole: Accuracy
    sources: dict[str, Accuracy]
    validation: list[list[float]]


class Report(msgspec.Struct):
    """What the runs share, and what they differ in; baselines' accuracies are by name, then by source ("" for all)."""

    options: dict[str, Any]
    mechanisms: dict[str, MechanismReport]
    baselines: dict[str, dict[str, float]]


def make_report(options: dict[str, Any], results: Mapping[str, Sequence[Result]]) -> Report:
    """Summarize the results of all runs, one per seed and mechanism; `options` are what the runs share."""
    mechanisms = {}
    for name, runs in results.items():
        tests = [run.test for run in runs]
        mechanisms[name] = MechanismReport(
            Accuracy.of([test.network for test in tests]),
            {source: Accuracy.of([test.sources[source] for test in tests]) for source in tests[0].sources},
            [[row["validation_accuracy"] for row in run.history] for run in runs],
        )
    test = next(iter(results.values()))[0].test  # the baselines are those of every run
    baselines = {
        name: {"": whole.accuracy}
        | {source: part.accuracy for source, part in test.source_baselines[name].items()}
        for name, whole in test.baselines.items()
    }
    return Report(options, mechanisms, baselines)


def difference(lower: Accuracy, higher: Accuracy) -> tuple[float, float | None]:
    """The difference between two mechanisms' means, and its standard error over seeds if there are several.

    >>> one, two = Accuracy([0.5], 0.5, None, 0.4, 0.6), Accuracy([1.0, 0.5], 0.75, 0.2, 0.7, 0.8)
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
    lines = ["| test | mechanism | accuracy | seeds ± | step | 95 % interval | each seed |", "|---" * 7 + "|"]
    sources = next(iter(report.mechanisms.values())).sources
    for source in ["", *sources] if len(sources) > 1 else [""]:
        above = None
        for name, mechanism in report.mechanisms.items():
            row = mechanism.sources[source] if source else mechanism.whole
            deviation = "" if row.deviation is None else f"{row.deviation:.3f}"
            step = "" if above is None else _step(*difference(above, row))
            seeds = " ".join(f"{accuracy:.3f}" for accuracy in row.test)
            cells = (
                source or "all",
                name,
                f"{row.mean:.3f}",
                deviation,
                step,
                f"{row.low:.3f} … {row.high:.3f}",
                seeds,
            )
            lines.append(f"| {' | '.join(cells)} |")
            above = row
        for name, accuracies in report.baselines.items():
            if source in accuracies:
                lines.append(f"| {source or 'all'} | {name} | {accuracies[source]:.3f} | | | | |")
    return "\n".join(lines)


def _step(change: float, error: float | None) -> str:
    return f"{change:+.3f}" if error is None else f"{change:+.3f} ± {error:.3f}"


def load_pyplot() -> Any:
    """matplotlib's pyplot, drawing into files."""
    try:
        import matplotlib
    except ImportError as fault:
        raise MissingError("figures need matplotlib", install_command("plots")) from fault
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_figure(report: Report, path: Path) -> None:
    """Write `path.png` and `path.svg`: validation accuracy per epoch, the mean and range over seeds."""
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, row in report.mechanisms.items():
        colour, line, marker = _STYLES.get(name, (None, "-", "."))
        shortest = min(map(len, row.validation))
        curves = np.array([curve[:shortest] for curve in row.validation])
        epochs = np.arange(1, shortest + 1)
        markers: dict[str, Any] = {"marker": marker, "markersize": 4, "markevery": max(1, shortest // 12)}
        label = f"{name} (test {row.whole.mean:.3f})"
        axes.plot(epochs, curves.mean(0), line, color=colour, label=label, **markers)
        axes.fill_between(epochs, curves.min(0), curves.max(0), color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("epochs")
    axes.set_ylabel("validation accuracy")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), dpi=150, metadata={"Date": None})
    pyplot.close(figure)
