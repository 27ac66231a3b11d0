"""A comparison trains what is missing, and reports all: table, figure, JSON."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attar.errors import AttarError, FormatError, OptionError
from attar.training import compare as room
from attar.training.compare import Comparison, compare, is_done, shared_gpu
from attar.training.figure import draw
from attar.training.options import TrainingOptions
from attar.training.run import RESULT


def comparison(data: Path, out: Path, *mechanisms: str, **changed: Any) -> Comparison:
    base = TrainingOptions((str(data),), str(out), size=8, embedding=8, epochs=1, batch=8, questions=2)
    return Comparison(replace(base, **changed), mechanisms or ("none", "linear"), seeds=1, side_by_side=2)


@pytest.fixture(scope="module")
def compared(tested_set: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, dict[str, Any]]:
    """Two mechanisms, one seed, one epoch."""
    given = comparison(tested_set, tmp_path_factory.mktemp("report"))
    return given, compare(given)


@pytest.fixture
def no_run_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(options: TrainingOptions, line: int) -> None:
        raise AssertionError(f"{options.mechanism} is trained")

    monkeypatch.setattr(room, "_start", start)


def fake_result(options: TrainingOptions, accuracy: float) -> None:
    """What a run would have left behind."""
    part = {"accuracy": accuracy, "interval": [accuracy - 0.1, accuracy + 0.1]}
    test = part | {"sources": {"news": part}, "baselines": {"most frequent name": {"accuracy": 0.25}}}
    result = {"options": options.to_json(), "history": [{"validation_accuracy": accuracy}], "test": test}
    options.folder.mkdir(parents=True)
    (options.folder / RESULT).write_text(json.dumps(result))


@pytest.mark.slow
class TestReport:
    def test_tells_of_every_mechanism(self, compared: tuple[Comparison, dict[str, Any]]) -> None:
        given, report = compared
        assert list(report["mechanisms"]) == ["none", "linear"]
        for row in report["mechanisms"].values():
            assert row["mean"] == row["test"][0]
            low, high = row["intervals"][0]
            assert low <= row["mean"] <= high
            assert len(row["validation"][0]) == 1
        assert len(report["baselines"]) == 2
        assert report["options"]["data"] == [Path(given.base.data[0]).name]
        assert report["options"]["epochs"] == 1
        assert not {"mechanism", "seed"} & set(report["options"])

    def test_is_written_with_its_figure(self, compared: tuple[Comparison, dict[str, Any]]) -> None:
        given, report = compared
        out = Path(given.base.out)
        assert json.loads((out / "report.json").read_text()) == report
        assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / "figure.svg").read_text()

    def test_trains_nothing_again(
        self, compared: tuple[Comparison, dict[str, Any]], no_run_is_started: None
    ) -> None:
        given, report = compared
        assert compare(given) == report


class TestRuns:
    def test_are_each_mechanism_with_each_seed(self, tmp_path: Path) -> None:
        given = replace(comparison(tmp_path, tmp_path, "none", "gated"), seeds=2)
        assert [(each.mechanism, each.seed) for each in given.runs] == [
            ("none", 0), ("gated", 0), ("none", 1), ("gated", 1),
        ]  # fmt: skip
        assert len({each.folder for each in given.runs}) == 4

    def test_of_other_options_are_not_taken_for_these(self, tested_set: Path, tmp_path: Path) -> None:
        given = comparison(tested_set, tmp_path, "gated")
        fake_result(given.runs[0], 0.5)
        assert is_done(given.runs[0])
        with pytest.raises(OptionError, match="expected results of epochs 9, got 1; choose another --out"):
            is_done(replace(given.runs[0], epochs=9))

    @pytest.mark.parametrize("wrong", [{"seeds": 0}, {"side_by_side": 0}], ids=["seeds", "side by side"])
    def test_are_one_at_least(self, tmp_path: Path, wrong: dict[str, int]) -> None:
        with pytest.raises(OptionError, match="expected 1 or more, got"):
            replace(comparison(tmp_path, tmp_path), **wrong)

    @pytest.mark.parametrize(
        ("mechanisms", "message"),
        [
            ((), "mechanisms: expected one at least, got none"),
            (("linear", "none", "linear"), "mechanisms: expected each of them once, got linear more often"),
        ],
        ids=["none", "twice"],
    )
    def test_are_of_each_mechanism_once(
        self, tmp_path: Path, mechanisms: tuple[str, ...], message: str
    ) -> None:
        with pytest.raises(OptionError, match=message):
            replace(comparison(tmp_path, tmp_path), mechanisms=mechanisms)

    @pytest.mark.parametrize("damaged", ["{", "[]", '{"options": {}}', "7"])
    def test_of_a_damaged_result_are_named(self, tested_set: Path, tmp_path: Path, damaged: str) -> None:
        given = comparison(tested_set, tmp_path, "gated")
        fake_result(given.runs[0], 0.5)
        (given.runs[0].folder / RESULT).write_text(damaged)
        with pytest.raises(
            FormatError, match=r"result\.json: expected a run's result, .*; delete it: the same"
        ):
            compare(given)

    def test_need_a_folder_to_write_to(
        self, tested_set: Path, tmp_path: Path, no_run_is_started: None
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(AttarError, match="expected a folder to write to, got the file"):
            compare(comparison(tested_set, tmp_path / "file"))

    def test_need_a_folder_below_it(self, tested_set: Path, tmp_path: Path) -> None:
        (tmp_path / "runs").write_text("")
        with pytest.raises(AttarError, match=r"none-0: expected a folder to write to, got Not a directory"):
            compare(comparison(tested_set, tmp_path))

    def test_of_an_unknown_mechanism_are_refused_before_any_starts(
        self, tested_set: Path, tmp_path: Path, no_run_is_started: None
    ) -> None:
        with pytest.raises(OptionError, match=r"mechanism: expected none or .* got 'magic'"):
            compare(comparison(tested_set, tmp_path, "none", "magic"))

    def test_need_a_test_split(self, stories_set: Path, tmp_path: Path, no_run_is_started: None) -> None:
        with pytest.raises(FormatError, match="expected a test split, got training and validation only"):
            compare(comparison(stories_set, tmp_path))


class TestFailure:
    @staticmethod
    def programs(monkeypatch: pytest.MonkeyPatch, programs: dict[str, str]) -> list[Any]:
        """Let runs be these programs instead of trainings."""
        started: list[Any] = []
        popen = room.subprocess.Popen

        def start(command: list[str], **rest: Any) -> Any:
            mechanism = json.loads(Path(command[-1]).read_text())["mechanism"]
            started.append(popen([command[0], "-c", programs[mechanism]], **rest))
            return started[-1]

        monkeypatch.setattr(room.subprocess, "Popen", start)
        return started

    def test_is_one_line_that_names_the_log_and_ends_the_others(
        self, tested_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = "import sys; print('first'); sys.exit('out of memory')"
        started = self.programs(monkeypatch, {"none": "import time; time.sleep(600)", "linear": failing})
        with pytest.raises(AttarError) as raised:
            compare(comparison(tested_set, tmp_path))
        line = str(raised.value)
        assert "run linear, seed 0: expected an end with exit code 0, got 1 (out of memory); see " in line
        assert str(tmp_path / "runs" / "linear-0" / "log.txt") in line
        assert "\n" not in line
        assert [process.returncode for process in started] == [-15, 1]
        assert not (tmp_path / "report.json").exists()


class TestSharedGpu:
    def test_does_nothing_without_nvidias_tools(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: None)
        before = dict(os.environ)
        with shared_gpu(4):
            assert dict(os.environ) == before

    def test_is_ended_with_the_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        control, said = tmp_path / "control", tmp_path / "said"
        control.write_text(f'#!/bin/sh\n[ "$1" = -d ] && echo started >> {said} || cat >> {said}\n')
        control.chmod(0o700)
        monkeypatch.setattr(shutil, "which", lambda name: str(control))
        with shared_gpu(2):
            assert Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]).is_dir()
        assert said.read_text() == "started\nquit\n"
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ

    def test_that_cannot_be_started_is_done_without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
        with shared_gpu(2):
            assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def test_the_figure_is_the_same_for_the_same_report(tmp_path: Path) -> None:
    rows = {"linear": {"validation": [[0.1, 0.3], [0.2, 0.4, 0.5]], "mean": 0.4}}
    for name in ("one", "other"):
        draw({"mechanisms": rows}, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()
