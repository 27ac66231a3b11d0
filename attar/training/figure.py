"""The paper's figure: validation accuracy against epochs, the mean over seeds with a band from worst to best."""

from pathlib import Path
from typing import Any

import numpy as np

# Told apart by their marks where colours are not: printed in grey, or by readers who see fewer.
_LOOKS = {
    "none": ("#7f7f7f", ":", "x"),
    "linear": ("#1f77b4", "--", "s"),
    "gated": ("#d62728", "-", "o"),
    "softmax": ("#2ca02c", "-.", "^"),
}


def draw(report: dict[str, Any], path: Path) -> None:
    """Write `path.png` and `path.svg`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, row in report["mechanisms"].items():
        colour, line, mark = _LOOKS.get(name, (None, "-", "."))
        shortest = min(map(len, row["validation"]))
        curves = np.array([curve[:shortest] for curve in row["validation"]])
        epochs = np.arange(1, shortest + 1)
        axes.plot(
            epochs,
            curves.mean(0),
            line,
            color=colour,
            marker=mark,
            markersize=4,
            markevery=max(1, shortest // 12),
            label=f"{name} (test {row['mean']:.3f})",
        )
        axes.fill_between(epochs, curves.min(0), curves.max(0), color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("epochs")
    axes.set_ylabel("validation accuracy")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    for ending in ("png", "svg"):
        figure.savefig(
            path.with_suffix(f".{ending}"), dpi=150, metadata={"Date": None} if ending == "svg" else None
        )
    pyplot.close(figure)
