"""What a comparison found: accuracies by mechanism and source, over seeds, and how far apart they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attar.errors import FormatError
from attar.training.options import TrainingOptions
from attar.training.run import RESULT, read_result


def report_of(base: TrainingOptions, runs: Mapping[str, Sequence[TrainingOptions]]) -> dict[str, Any]:
    """The results of all runs by mechanism: on the whole test, on each of its sources, and validation by epoch."""
    rows: dict[str, Any] = {}
    baselines: dict[str, Any] = {}
    for mechanism, found in runs.items():
        results = [result_of(options) for options in found]
        tests = [result["test"] for result in results]
        rows[mechanism] = over_seeds(tests) | {
            "sources": {
                name: over_seeds([test["sources"][name] for test in tests]) for name in tests[0]["sources"]
            },
            "validation": [
                [epoch["validation_accuracy"] for epoch in result["history"]] for result in results
            ],
        }
        for name, whole in tests[0]["baselines"].items():
            parts = tests[0].get("source_baselines", {}).get(name, {})
            by_source = {source: part["accuracy"] for source, part in parts.items()}
            baselines[name] = {"accuracy": whole["accuracy"], "sources": by_source}
    described = base.described()
    shared = {name: described[name] for name in described if name not in ("mechanism", "seed")}
    return {"options": shared, "mechanisms": rows, "baselines": baselines}


def result_of(options: TrainingOptions) -> dict[str, Any]:
    """What a run found, which must be there."""
    result = read_result(options.folder)
    if result is None:
        raise FormatError(
            str(options.folder / RESULT), "a run's result", "none", "give the same command again"
        )
    return result


def over_seeds(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One score a seed, their mean and spread, and each one's interval: other test documents would differ too.

    >>> over_seeds([{"accuracy": 0.25, "low": 0.2, "high": 0.3}, {"accuracy": 0.75, "interval": [0.7, 0.8]}])
    {'test': [0.25, 0.75], 'mean': 0.5, 'seeds': 0.3535533905932738, 'intervals': [[0.2, 0.3], [0.7, 0.8]]}
    """
    accuracies = [score["accuracy"] for score in scores]
    return {
        "test": accuracies,
        "mean": float(np.mean(accuracies)),
        "seeds": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
        "intervals": [score.get("interval") or [score["low"], score["high"]] for score in scores],
    }


def step_between(lower: Mapping[str, Any], higher: Mapping[str, Any]) -> tuple[float, float]:
    """How far one mechanism's mean lies above another's, and that step's standard error over seeds.

    >>> step_between({"test": [0.5], "mean": 0.5, "seeds": 0.0}, {"test": [1.0, 0.5], "mean": 0.75, "seeds": 0.0})
    (0.25, 0.0)
    """
    errors = [row["seeds"] ** 2 / len(row["test"]) for row in (lower, higher)]
    return higher["mean"] - lower["mean"], sum(errors) ** 0.5
