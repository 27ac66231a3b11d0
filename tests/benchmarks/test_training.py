"""The profile of a training step, for every mechanism; it writes nothing."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from attar.training.options import TrainingOptions
from benchmarks.training import build_stories, main, profile_step

pytestmark = [pytest.mark.usefixtures("unchecked_shapes"), pytest.mark.slow]


@pytest.fixture(scope="module")
def stories_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_stories(tmp_path_factory.mktemp("set"), 60)


@pytest.mark.parametrize("mechanism", ["gated", "keyed", "named", "softmax"])
def test_a_profile_reports_rates_and_shares(stories_set: Path, tmp_path: Path, mechanism: str) -> None:
    out = tmp_path / "out"
    options = TrainingOptions(
        (str(stories_set),), str(out), mechanism=mechanism, hidden_size=4, embedding_size=4, batch_size=8
    )
    profile = profile_step(options)
    assert profile["documents per step"] == 8
    assert profile["tokens per document"] > 10
    assert profile["documents per second, loading included"] > 0
    waited = 1 - profile["ms per step, batches ready beforehand"] / profile["ms per step"]
    assert profile["share of time waiting for batches"] == pytest.approx(max(0, waited), abs=0.02)
    assert profile["ms of attention, forward and backward"] > 0
    assert not out.exists()


def test_a_set_of_one_batch_is_enough(stories_set: Path, tmp_path: Path) -> None:
    options = TrainingOptions(
        (str(stories_set),), str(tmp_path), hidden_size=4, embedding_size=4, batch_size=64
    )
    assert profile_step(options)["ms per step"] > 0


@pytest.mark.parametrize("as_json", [False, True], ids=["lines", "json"])
def test_the_command_takes_training_options_and_prints_the_profile(stories_set: Path, as_json: bool) -> None:
    app = typer.Typer()
    app.command()(main)
    small = ["--hidden-size", "4", "--embedding-size", "4", "--batch-size", "16", "--mechanism", "named"]
    ran = CliRunner().invoke(
        app, ["--data", str(stories_set), *small, *(["--json"] if as_json else [])], catch_exceptions=False
    )
    printed = json.loads(ran.stdout) if as_json else dict(x.split(": ") for x in ran.stdout.splitlines())
    assert int(printed["documents per step"]) == 16
    assert float(printed["ms per step"]) > 0
