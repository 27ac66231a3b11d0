"""The report of a comparison: accuracies per mechanism and source over seeds, as data, a table and a figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Colour, line and marker: distinguishable in grey too.
_STYLES = {
    "none": ("#7f7f7f", ":", "x"),
    "linear": ("#1f77b4", "--", "s"),
    "gated": ("#d62728", "-", "o"),
    "softmax": ("#2ca02c", "-.", "^"),
}


def make_report(options: dict[str, Any], results: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Summarize the results of all runs, one per seed and mechanism; `options` are what the runs share."""
    rows: dict[str, Any] = {}
    baselines: dict[str, Any] = {}
    for mechanism, own in results.items():
        tests = [result["test"] for result in own]
        rows[mechanism] = _over_seeds(tests) | {
            "sources": {
                name: _over_seeds([test["sources"][name] for test in tests]) for name in tests[0]["sources"]
            },
            "validation": [[epoch["validation_accuracy"] for epoch in result["history"]] for result in own],
        }
        for name, whole in tests[0]["baselines"].items():
            parts = tests[0].get("source_baselines", {}).get(name, {})
            by_source = {source: part["accuracy"] for source, part in parts.items()}
            baselines[name] = {"accuracy": whole["accuracy"], "sources": by_source}
    shared = {name: options[name] for name in options if name not in ("mechanism", "seed")}
    return {"options": shared, "mechanisms": rows, "baselines": baselines}


def _over_seeds(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The accuracy of each seed, their mean and standard deviation, and each one's interval over documents.

    >>> _over_seeds([{"accuracy": 0.25, "low": 0.2, "high": 0.3}, {"accuracy": 0.75, "interval": [0.7, 0.8]}])
    {'test': [0.25, 0.75], 'mean': 0.5, 'seeds': 0.3535533905932738, 'intervals': [[0.2, 0.3], [0.7, 0.8]]}
    """
    accuracies = [score["accuracy"] for score in scores]
    return {
        "test": accuracies,
        "mean": float(np.mean(accuracies)),
        "seeds": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
        "intervals": [score.get("interval") or [score["low"], score["high"]] for score in scores],
    }


def difference(lower: Mapping[str, Any], higher: Mapping[str, Any]) -> tuple[float, float]:
    """The difference between two mechanisms' means, and its standard error over seeds.

    >>> difference({"test": [0.5], "mean": 0.5, "seeds": 0.0}, {"test": [1.0, 0.5], "mean": 0.75, "seeds": 0.0})
    (0.25, 0.0)
    """
    variances = [row["seeds"] ** 2 / len(row["test"]) for row in (lower, higher)]
    return higher["mean"] - lower["mean"], sum(variances) ** 0.5


def markdown_table(report: Mapping[str, Any]) -> str:
    """The report as a Markdown table: the whole test set, then each source if there are several.

    A step is the difference to the mechanism above, ± its standard error over seeds.
    """
    rows, sources = report["mechanisms"], next(iter(report["mechanisms"].values()))["sources"]
    lines = ["| test | mechanism | accuracy | seeds ± | step | 95 % interval | each seed |", "|---" * 7 + "|"]
    for source in ["", *sources] if len(sources) > 1 else [""]:
        above = None
        for name, whole in rows.items():
            row = whole["sources"][source] if source else whole
            low, high = (sum(ends) / len(ends) for ends in zip(*row["intervals"], strict=True))
            step = "" if above is None else "{:+.3f} ± {:.3f}".format(*difference(above, row))
            each = " ".join(f"{accuracy:.3f}" for accuracy in row["test"])
            spread = f"{row['seeds']:.3f} | {step} | {low:.3f} … {high:.3f}"
            lines.append(f"| {source or 'all'} | {name} | {row['mean']:.3f} | {spread} | {each} |")
            above = row
        for name, baseline in report["baselines"].items():
            accuracy = baseline["sources"].get(source) if source else baseline["accuracy"]
            if accuracy is not None:
                lines.append(f"| {source or 'all'} | {name} | {accuracy:.3f} | | | | |")
    return "\n".join(lines)


def draw_figure(report: Mapping[str, Any], path: Path) -> None:
    """Write `path.png` and `path.svg`: validation accuracy per epoch, the mean and range over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, row in report["mechanisms"].items():
        colour, line, marker = _STYLES.get(name, (None, "-", "."))
        shortest = min(map(len, row["validation"]))
        curves = np.array([curve[:shortest] for curve in row["validation"]])
        epochs = np.arange(1, shortest + 1)
        markers: dict[str, Any] = {"marker": marker, "markersize": 4, "markevery": max(1, shortest // 12)}
        label = f"{name} (test {row['mean']:.3f})"
        axes.plot(epochs, curves.mean(0), line, color=colour, label=label, **markers)
        axes.fill_between(epochs, curves.min(0), curves.max(0), color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("epochs")
    axes.set_ylabel("validation accuracy")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), dpi=150, metadata={"Date": None})
    pyplot.close(figure)
