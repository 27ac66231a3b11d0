"""The report of a comparison: over seeds, per source, compared with counting names."""

from pathlib import Path
from typing import Any

import pytest

from attar.training.report import difference, draw_figure, make_report, markdown_table


def result(accuracy: float) -> dict[str, Any]:
    """The result of a run: news is easier than letters."""

    def score(of: float) -> dict[str, float]:
        return {"accuracy": of, "low": of - 0.1, "high": of + 0.1}

    test = {
        "accuracy": accuracy,
        "interval": [accuracy - 0.05, accuracy + 0.05],
        "sources": {"news": score(accuracy + 0.2), "letters": score(accuracy - 0.2)},
        "baselines": {"most frequent name": score(0.25)},
        "source_baselines": {"most frequent name": {"news": score(0.3), "letters": score(0.1)}},
    }
    return {"history": [{"validation_accuracy": accuracy}], "test": test}


@pytest.fixture
def report() -> dict[str, Any]:
    results = {"linear": (0.4, 0.5, 0.6), "gated": (0.6, 0.7, 0.8)}
    return make_report(
        {"epochs": 1, "seed": 0, "mechanism": "gated"},
        {mechanism: [result(each) for each in accuracies] for mechanism, accuracies in results.items()},
    )


def test_has_the_options_that_all_runs_share(report: dict[str, Any]) -> None:
    assert report["options"] == {"epochs": 1}


def test_has_the_mean_and_standard_deviation_over_seeds(report: dict[str, Any]) -> None:
    row = report["mechanisms"]["linear"]
    assert row["test"] == [0.4, 0.5, 0.6]
    assert row["mean"] == pytest.approx(0.5)
    assert row["seeds"] == pytest.approx(0.1)
    assert row["intervals"][0] == pytest.approx([0.35, 0.45])


def test_the_report_has_the_accuracy_on_each_source(report: dict[str, Any]) -> None:
    news, letters = (report["mechanisms"]["gated"]["sources"][name] for name in ("news", "letters"))
    assert (news["mean"], letters["mean"]) == pytest.approx((0.9, 0.5))
    assert news["intervals"][0] == pytest.approx([0.7, 0.9])


def test_has_the_baselines(report: dict[str, Any]) -> None:
    assert report["baselines"] == {
        "most frequent name": {"accuracy": 0.25, "sources": {"news": 0.3, "letters": 0.1}}
    }


def test_the_standard_error_of_a_difference_falls_with_the_number_of_seeds(report: dict[str, Any]) -> None:
    step, error = difference(*report["mechanisms"].values())
    assert step == pytest.approx(0.2)
    assert error == pytest.approx(0.1 * (2 / 3) ** 0.5)


def test_the_table_shows_sources_and_steps(report: dict[str, Any]) -> None:
    lines = markdown_table(report).splitlines()
    assert lines[3] == "| all | gated | 0.700 | 0.100 | +0.200 ± 0.082 | 0.650 … 0.750 | 0.600 0.700 0.800 |"
    assert lines[4] == "| all | most frequent name | 0.250 | | | | |"
    assert [line.split(" | ")[0] for line in lines[2:]] == 3 * ["| all"] + 3 * ["| news"] + 3 * ["| letters"]


@pytest.mark.slow
def test_the_figure_is_the_same_for_the_same_report(report: dict[str, Any], tmp_path: Path) -> None:
    for name in ("one", "other"):
        draw_figure(report, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()


@pytest.mark.slow
def test_the_figure_ends_with_the_shortest_run(tmp_path: Path) -> None:
    rows = {"linear": {"validation": [[0.1, 0.3], [0.2, 0.4, 0.5]], "mean": 0.4}}
    draw_figure({"mechanisms": rows}, tmp_path / "figure")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()
