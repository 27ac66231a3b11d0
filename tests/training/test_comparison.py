"""A comparison makes each run once, in a process that ends with its parent, and reports the results."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attar.errors import AttarError, FormatError, OptionError
from attar.reader.files import load_reader
from attar.training import comparison as module
from attar.training import run_folder
from attar.training.comparison import (
    _OPTIONS,
    _RESULT,
    Comparison,
    compare,
    exit_on_sigterm,
    is_done,
    main,
    run,
    shared_gpu,
    stdin_for_children,
)
from attar.training.options import TrainingOptions
from attar.training.run_folder import RUN, lock_folder

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def comparison(data: Path, out: Path, *mechanisms: str, **changed: Any) -> Comparison:
    base = TrainingOptions(
        (str(data),), str(out), hidden_size=8, embedding_size=8, epochs=1, batch_size=8, questions=2
    )
    return Comparison(replace(base, **changed), mechanisms or ("none", "linear"), seeds=1, jobs=2)


@pytest.fixture(scope="module")
def compared(tested_set: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, dict[str, Any]]:
    """Two mechanisms, one seed, one epoch."""
    given = comparison(tested_set, tmp_path_factory.mktemp("report"))
    return given, compare(given)


@pytest.fixture
def no_run_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(options: TrainingOptions, stdin: int) -> None:
        raise AssertionError(f"{options.mechanism} is trained")

    monkeypatch.setattr(module, "_start", start)


def fake_result(options: TrainingOptions, accuracy: float) -> None:
    """Write the result of a run that was not made."""
    part = {"accuracy": accuracy, "interval": [accuracy - 0.1, accuracy + 0.1]}
    test = part | {"sources": {"news": part}, "baselines": {"most frequent name": {"accuracy": 0.25}}}
    result = {"options": options.to_json(), "history": [{"validation_accuracy": accuracy}], "test": test}
    options.folder.mkdir(parents=True)
    (options.folder / _RESULT).write_text(json.dumps(result))


@pytest.mark.slow
class TestReport:
    def test_has_a_row_per_mechanism(self, compared: tuple[Comparison, dict[str, Any]]) -> None:
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

    def test_is_made_again_without_training(
        self, compared: tuple[Comparison, dict[str, Any]], no_run_is_started: None
    ) -> None:
        given, report = compared
        assert compare(given) == report


class TestRuns:
    def test_there_is_one_per_mechanism_and_seed(self, tmp_path: Path) -> None:
        given = replace(comparison(tmp_path, tmp_path, "none", "gated"), seeds=2)
        assert [(each.mechanism, each.seed) for each in given.runs] == [
            ("none", 0), ("gated", 0), ("none", 1), ("gated", 1),
        ]  # fmt: skip
        assert len({each.folder for each in given.runs}) == 4

    def test_a_result_of_other_options_is_refused(self, tested_set: Path, tmp_path: Path) -> None:
        given = comparison(tested_set, tmp_path, "gated")
        fake_result(given.runs[0], 0.5)
        assert is_done(given.runs[0])
        with pytest.raises(OptionError, match="expected results of epochs 9, got 1; choose another --out"):
            is_done(replace(given.runs[0], epochs=9))

    @pytest.mark.parametrize("wrong", [{"seeds": 0}, {"jobs": 0}], ids=["seeds", "jobs"])
    def test_seeds_and_jobs_must_be_positive(self, tmp_path: Path, wrong: dict[str, int]) -> None:
        with pytest.raises(OptionError, match="expected 1 or more, got"):
            replace(comparison(tmp_path, tmp_path), **wrong)

    @pytest.mark.parametrize(
        ("mechanisms", "message"),
        [
            ((), "mechanisms: expected at least one, got none"),
            (
                ("linear", "none", "linear"),
                "mechanisms: expected each of them once, got linear more than once",
            ),
        ],
        ids=["none", "twice"],
    )
    def test_mechanisms_must_be_distinct(
        self, tmp_path: Path, mechanisms: tuple[str, ...], message: str
    ) -> None:
        with pytest.raises(OptionError, match=message):
            replace(comparison(tmp_path, tmp_path), mechanisms=mechanisms)

    @pytest.mark.parametrize("damaged", ["{", "[]", '{"options": {}}', "7"])
    def test_a_damaged_result_is_an_error_with_its_path(
        self, tested_set: Path, tmp_path: Path, damaged: str
    ) -> None:
        given = comparison(tested_set, tmp_path, "gated")
        fake_result(given.runs[0], 0.5)
        (given.runs[0].folder / _RESULT).write_text(damaged)
        with pytest.raises(
            FormatError, match=r"result\.json: expected a run's result, .*; delete it: the same"
        ):
            compare(given)

    def test_need_a_writable_folder(self, tested_set: Path, tmp_path: Path, no_run_is_started: None) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(AttarError, match="expected a folder to write to, got the file"):
            compare(comparison(tested_set, tmp_path / "file"))

    def test_need_a_writable_folder_for_each_run(self, tested_set: Path, tmp_path: Path) -> None:
        (tmp_path / "runs").write_text("")
        with pytest.raises(AttarError, match=r"none-0: expected a folder to write to, got Not a directory"):
            compare(comparison(tested_set, tmp_path))

    def test_an_unknown_mechanism_is_refused_before_any_run_starts(
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
        """Start these programs instead of training."""
        started: list[Any] = []
        popen = module.subprocess.Popen

        def start(command: list[str], **rest: Any) -> Any:
            mechanism = json.loads(Path(command[-1]).read_text())["mechanism"]
            started.append(popen([command[0], "-c", programs[mechanism]], **rest))
            return started[-1]

        monkeypatch.setattr(module.subprocess, "Popen", start)
        return started

    def test_is_one_line_with_the_log_and_stops_the_other_runs(
        self, tested_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = "import sys; print('first'); sys.exit('out of memory')"
        started = self.programs(monkeypatch, {"none": "import time; time.sleep(600)", "linear": failing})
        with pytest.raises(AttarError) as raised:
            compare(comparison(tested_set, tmp_path))
        line = str(raised.value)
        assert "run linear, seed 0: expected exit code 0, got 1 (out of memory); see " in line
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

    def test_mps_is_stopped_after_the_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        control, log = tmp_path / "control", tmp_path / "log"
        control.write_text(f'#!/bin/sh\n[ "$1" = -d ] && echo started >> {log} || cat >> {log}\n')
        control.chmod(0o700)
        monkeypatch.setattr(shutil, "which", lambda name: str(control))
        with shared_gpu(2):
            assert Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]).is_dir()
        assert log.read_text() == "started\nquit\n"
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ

    def test_runs_go_without_mps_if_it_cannot_be_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
        with shared_gpu(2):
            assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def small_options(data: Path, out: Path) -> TrainingOptions:
    return TrainingOptions(
        (str(data),), str(out), hidden_size=4, embedding_size=4, epochs=1, batch_size=8, questions=2
    )


def test_the_result_holds_options_history_and_scores(tested_set: Path, tmp_path: Path) -> None:
    result = run(small_options(tested_set, tmp_path))
    assert json.loads((tmp_path / _RESULT).read_text()) == json.loads(json.dumps(result))
    assert TrainingOptions.from_json(result["options"] | {"out": str(tmp_path)}) == small_options(
        tested_set, tmp_path
    )
    assert result["history"] == load_reader(tmp_path).about["history"]
    for split in ("validation", "test"):
        assert 0 <= result[split]["accuracy"] <= 1
    assert result["validation"]["accuracy"] == pytest.approx(result["history"][0]["validation_accuracy"])
    assert not list(tmp_path.glob(".*.partial"))


def test_a_run_that_fails_has_no_result(make_set, tmp_path: Path) -> None:
    data = make_set(training=4, validation=2)
    with pytest.raises(FormatError, match="test"):
        run(small_options(data, tmp_path))
    assert not (tmp_path / _RESULT).exists()


def test_a_second_run_in_a_folder_is_refused_in_one_line(
    tested_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "_LOCK_TIMEOUT", 0.0)
    given = small_options(tested_set, tmp_path)
    (tmp_path / _OPTIONS).write_text(json.dumps(given.to_json() | {"out": given.out}))
    with lock_folder(tmp_path / RUN), pytest.raises(SystemExit) as ended:
        main(str(tmp_path / _OPTIONS))
    line = str(ended.value)
    assert line.startswith("attar: ")
    assert "a folder that no other run uses, got one in use; wait for it" in line
    assert "\n" not in line


# Starts a long run, and waits for it; the run prints when it has begun. It is a fork with the input that a process
# would get: to import Lightning once more takes seconds.
STARTER = """
import os, time
from attar.training.comparison import exit_on_sigterm, exit_with_parent, stdin_for_children

def run():
    exit_with_parent()
    print("begun", flush=True)
    time.sleep(600)

with exit_on_sigterm(), stdin_for_children() as stdin:
    child = os.fork()
    if child == 0:
        os.dup2(stdin, 0)
        os.closerange(3, 1024)
        run()
    try:
        os.waitpid(child, 0)
    finally:
        print("cleaned up", flush=True)
"""


def start_parent() -> "subprocess.Popen[str]":
    """A parent whose run has begun; both write to one pipe, which closes when both have ended."""
    parent = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", STARTER],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "begun\n"
    return parent


@pytest.mark.slow
def test_a_run_ends_when_its_parent_is_killed() -> None:
    parent = start_parent()
    parent.kill()
    output, _ = parent.communicate(timeout=60)
    assert output == "attar: stopped, because the process that started this run has ended\n"


@pytest.mark.slow
def test_a_parent_that_is_terminated_cleans_up_first() -> None:
    parent = start_parent()
    parent.terminate()
    output, _ = parent.communicate(timeout=60)
    assert "cleaned up" in output
    assert parent.returncode == 128 + signal.SIGTERM


def test_the_signal_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), exit_on_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_pipe_closes_with_its_context() -> None:
    with stdin_for_children() as stdin:
        kept = os.dup(stdin)
    assert os.read(kept, 1) == b""
    os.close(kept)
