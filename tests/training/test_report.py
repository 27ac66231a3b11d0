"""What a comparison reports: over seeds, by source, beside counting names."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attar.training.options import TrainingOptions
from attar.training.report import report_of, step_between
from attar.training.run import RESULT


def fake_result(options: TrainingOptions, accuracy: float) -> None:
    """What a run would have left behind: news is easier than letters."""

    def score(of: float) -> dict[str, float]:
        return {"accuracy": of, "low": of - 0.1, "high": of + 0.1}

    test: dict[str, Any] = {
        "accuracy": accuracy,
        "interval": [accuracy - 0.05, accuracy + 0.05],
        "sources": {"news": score(accuracy + 0.2), "letters": score(accuracy - 0.2)},
        "baselines": {"most frequent name": score(0.25)},
        "source_baselines": {"most frequent name": {"news": score(0.3), "letters": score(0.1)}},
    }
    result = {"options": options.to_json(), "history": [{"validation_accuracy": accuracy}], "test": test}
    options.folder.mkdir(parents=True)
    (options.folder / RESULT).write_text(json.dumps(result))


@pytest.fixture
def report(tmp_path: Path) -> dict[str, Any]:
    base = TrainingOptions((str(tmp_path / "set"),), str(tmp_path))
    runs = {}
    for mechanism, accuracies in (("linear", (0.4, 0.5, 0.6)), ("gated", (0.6, 0.7, 0.8))):
        runs[mechanism] = [
            replace(base, mechanism=mechanism, seed=seed, out=str(tmp_path / f"{mechanism}{seed}"))
            for seed in range(3)
        ]
        for options, accuracy in zip(runs[mechanism], accuracies, strict=True):
            fake_result(options, accuracy)
    return report_of(base, runs)


def test_is_the_mean_over_seeds_and_their_spread(report):
    row = report["mechanisms"]["linear"]
    assert row["test"] == [0.4, 0.5, 0.6]
    assert row["mean"] == pytest.approx(0.5)
    assert row["seeds"] == pytest.approx(0.1)
    assert row["intervals"][0] == pytest.approx([0.35, 0.45])


def test_tells_of_every_source(report):
    news, letters = (report["mechanisms"]["gated"]["sources"][name] for name in ("news", "letters"))
    assert (news["mean"], letters["mean"]) == pytest.approx((0.9, 0.5))
    assert news["intervals"][0] == pytest.approx([0.7, 0.9])


def test_counting_names_stands_beside_it(report):
    assert report["baselines"] == {
        "most frequent name": {"accuracy": 0.25, "sources": {"news": 0.3, "letters": 0.1}}
    }


def test_a_step_is_as_sure_as_the_seeds_are_many(report):
    step, error = step_between(*report["mechanisms"].values())
    assert step == pytest.approx(0.2)
    assert error == pytest.approx(0.1 * (2 / 3) ** 0.5)


def test_the_table_shows_sources_and_steps(report):
    from attar.cli.compare import table

    lines = table(report).splitlines()
    assert lines[3] == "| all | gated | 0.700 | 0.100 | +0.200 ± 0.082 | 0.650 … 0.750 | 0.600 0.700 0.800 |"
    assert lines[4] == "| all | most frequent name | 0.250 | | | | |"
    assert [line.split(" | ")[0] for line in lines[2:]] == 3 * ["| all"] + 3 * ["| news"] + 3 * ["| letters"]
