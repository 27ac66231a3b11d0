"""Accuracy with a confidence interval, compared with counting names; those of several runs as a table and a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from attar.errors import FormatError, MissingError, install_command
from attar.paper.batches import Batch, ClozeBatches
from attar.paper.network import Network
from attar.paper.sets import EncodedSplit
from attar.paper.train import Row
from attar.progress import Progress, ignore_progress

_RESAMPLES = 1000
# The answer without any candidate: always wrong.
NO_GUESS = -1
BASELINES = ("most frequent name", "most frequent name not in the question")


@dataclass(frozen=True)
class Score:
    """The share of correct answers, its 95 % interval, and the number of questions and documents."""

    accuracy: float
    low: float
    high: float
    questions: int
    documents: int


@dataclass(frozen=True)
class Evaluation:
    """The network's score and the baselines', over all questions and per source."""

    network: Score
    baselines: dict[str, Score]
    sources: dict[str, Score]
    source_baselines: dict[str, dict[str, Score]]  # by baseline, then by source

    def to_json(self) -> dict[str, Any]:
        parts = asdict(self)
        network: dict[str, Any] = parts.pop("network")
        return network | parts


@torch.inference_mode()
def evaluate(
    network: Network,
    split: EncodedSplit,
    *,
    batch_size: int = 128,
    progress: Progress = ignore_progress,
) -> Evaluation:
    """Score a network on all fixed questions of a split; on a GPU if there is one."""
    if len(split.answers) == 0:
        raise FormatError("the split has no questions to ask", "evaluate on validation or test")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.to(device).eval()
    parts = []  # per question: its document, and who is right
    batches = ClozeBatches(split, size=batch_size)
    for done, batch in enumerate(batches):
        progress("evaluating", done, len(batches))
        moved = batch.to(device)
        scores = network(moved.documents, moved.questions).float().cpu()
        best = torch.where(scores.amax(1).isfinite(), scores.argmax(1), NO_GUESS).numpy()
        guesses = np.stack([best, *most_frequent_candidates(batch)], 1)
        document = batch.indices.numpy()[batch.questions.documents.numpy()]
        parts.append(np.column_stack([document, guesses == batch.answers.numpy()[:, None]]))
    table = np.concatenate(parts)
    source = split.source_of[table[:, 0]]
    by_source = {name: table[source == at] for at, name in enumerate(split.sources) if (source == at).any()}
    return Evaluation(
        score(table, 1),
        {baseline: score(table, column) for column, baseline in enumerate(BASELINES, 2)},
        {name: score(rows, 1) for name, rows in by_source.items()},
        {
            baseline: {name: score(rows, column) for name, rows in by_source.items()}
            for column, baseline in enumerate(BASELINES, 2)
        },
    )


def most_frequent_candidates(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most frequent candidate per question [Q], and the most frequent that the question does not mention [Q].

    Of equally frequent ones the first in the document; `NO_GUESS` if there is none.
    """
    counts, names = batch.counts.numpy(), batch.documents.names.numpy()
    width = names.shape[1]
    first = np.full(counts.shape, width)
    row, column = np.nonzero(names >= 0)
    np.minimum.at(first, (row, names[row, column]), column)
    rank = np.where(counts > 0, counts - first / (width + 1), -np.inf)[batch.questions.documents.numpy()]
    unasked = np.where(batch.questions.asked.numpy(), -np.inf, rank)
    return _best(rank), _best(unasked)


def _best(ranks: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.where(ranks.max(1) > 0, ranks.argmax(1), NO_GUESS)


def score(table: NDArray[np.int64], column: int) -> Score:
    """The accuracy of one column, with an interval by resampling documents, whose questions are correlated.

    >>> score(np.array([[0, 1], [0, 1], [1, 0], [1, 0]]), 1)
    Score(accuracy=0.5, low=0.0, high=1.0, questions=4, documents=2)
    """
    documents, place = np.unique(table[:, 0], return_inverse=True)
    right = np.bincount(place, table[:, column])
    asked = np.bincount(place)
    drawn = np.random.default_rng(0).integers(len(documents), size=(_RESAMPLES, len(documents)))
    shares = right[drawn].sum(1) / asked[drawn].sum(1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return Score(float(right.sum() / asked.sum()), float(low), float(high), int(asked.sum()), len(documents))


# Colour, line and marker: distinguishable in grey too.
_STYLES = {
    "none": ("#7f7f7f", ":", "x"),
    "linear": ("#1f77b4", "--", "s"),
    "gated": ("#d62728", "-", "o"),
    "softmax": ("#2ca02c", "-.", "^"),
}


class Result(msgspec.Struct):
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
