"""A comparison makes each run once, in a process that ends with it, says what happens, and reports the results."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from attar.errors import AttarError, FormatError, OptionError
from attar.files import lock_run
from attar.paper import compare as module
from attar.paper.compare import Comparison, Report, compare, markdown_table, read_result
from attar.paper.options import TrainingOptions

from .conftest import MakeSet

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def comparison(data: Path, out: Path, *mechanisms: str, **changed: Any) -> Comparison:
    sizes = {"hidden_size": 8, "embedding_size": 8, "epochs": 2, "batch_size": 8, "questions": 2}
    base = TrainingOptions(data=str(data), out=str(out), **sizes | changed)
    return Comparison(base, mechanisms or ("none", "keyed"), seeds=1, jobs=2)


@pytest.fixture(scope="module")
def compared(
    stories_set: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Comparison, list[str], Report]:
    """Two mechanisms, one seed, two epochs."""
    lines: list[str] = []
    given = comparison(stories_set, tmp_path_factory.mktemp("report"))
    return given, lines, compare(given, say=lines.append)


@pytest.mark.slow
class TestComparison:
    def test_has_a_row_per_mechanism(self, compared: tuple[Comparison, list[str], Report]) -> None:
        given, _, report = compared
        assert list(report.mechanisms) == ["none", "keyed"]
        for row in report.mechanisms.values():
            assert row.test["all"].mean == row.test["all"].test[0]
            assert row.test["all"].deviation is None
            assert len(row.validation[0]) == 2
        assert "±" not in markdown_table(report)
        assert (report.options["data"], report.options["lr"]) == (Path(given.base.data).name, 4e-3)
        assert not {"mechanism", "seed"} & set(report.options)

    def test_is_written_with_its_figure_and_made_again_without_training(
        self, compared: tuple[Comparison, list[str], Report], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given, _, report = compared
        out = Path(given.base.out)
        assert json.loads((out / "report.json").read_text()) == msgspec.to_builtins(report)
        assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / "figure.svg").read_text()
        monkeypatch.setattr(module, "_run_all", None)
        assert compare(given) == report
        with pytest.raises(OptionError, match=r"has the result of other options: lr 0\.004; choose another"):
            compare(replace(given, base=replace(given.base, lr=1.0)))


class TestMistakes:
    def test_of_data_are_found_before_any_run_starts(self, make_set: MakeSet, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="has no test split"):
            compare(comparison(make_set(training=2, validation=2), tmp_path))

    @pytest.mark.parametrize("damaged", ["{", "[]", '{"options": {}}', "7"])
    def test_a_damaged_result_is_an_error_with_its_path(self, tmp_path: Path, damaged: str) -> None:
        (tmp_path / "result.json").write_text(damaged)
        with pytest.raises(FormatError, match=r"result\.json is not the result of a run .*; delete it"):
            read_result(tmp_path)
        assert read_result(tmp_path / "none") is None

    @pytest.mark.slow
    def test_a_failed_run_is_one_line_and_stops_the_others(self, stories_set: Path, tmp_path: Path) -> None:
        (tmp_path / "runs" / "keyed-0").mkdir(parents=True)
        (tmp_path / "runs" / "keyed-0" / "run").write_text("a file where the folder would be")
        lines: list[str] = []
        with pytest.raises(
            AttarError, match=r"^the run keyed, seed 0 ended with exit code 1; the same command"
        ):
            compare(comparison(stories_set, tmp_path, epochs=100_000), say=lines.append)
        assert any(line.startswith("keyed, seed 0: cannot write to ") for line in lines)
        with lock_run(tmp_path / "runs" / "none-0" / "run"):
            pass  # the other run has ended


@pytest.mark.slow
def test_a_comparison_that_is_killed_ends_its_runs(stories_set: Path, tmp_path: Path) -> None:
    small = ["--hidden-size", "4", "--embedding-size", "4", "--epochs", "100000", "--jobs", "1"]
    command = [sys.executable, "-m", "attar", "paper", "compare", "-d", stories_set, "-o", tmp_path, *small]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert started.stderr is not None
    assert "epoch 1 of 100000" in started.stderr.readline()
    started.kill()
    started.communicate(timeout=60)
    # A run locks its folder as long as it trains.
    with lock_run(tmp_path / "runs" / "none-0" / "run"):
        pass
