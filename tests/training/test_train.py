"""A run writes a reader; stages are not repeated; a run that was stopped continues as if it had not been."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from attar.errors import AttarError, FormatError, OptionError
from attar.files import lock_run
from attar.progress import Progress, ignore_progress
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.reader import Reader
from attar.training import run
from attar.training.data import QuestionOptions
from attar.training.run import Say, silent
from attar.training.train import train_questions

from .conftest import SIZES, MakeOptions, made_up, write_lines

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# A run that learns something.
LONGER: dict[str, Any] = {"epochs": 6, "batch_tokens": 900, "lr": 3e-3}
STAGES = ("first-teacher", "teacher", "second-look", "student", "imitation", "quick")


class PowerCutError(Exception):
    """Interrupts a run."""


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CHECKPOINT_STEPS", 4)


def cut_off_at(name: str, step: int) -> Progress:
    """Interrupts a run before a step of a stage."""

    def progress(stage: str, done: int, total: int | None) -> None:
        if (stage, done) == (name, step):
            raise PowerCutError

    return progress


def contents(run: Path) -> dict[str, Any]:
    """The arrays and weights of a run's files, by name."""
    arrays = {file.name: dict(np.load(file)) for file in run.glob("*.npz")}
    weights = {file.name: safetensors.torch.load_file(file) for file in run.glob("*.safetensors")}
    assert {Path(name).stem for name in weights} == set(STAGES)
    assert set(arrays) == {"first-labels.npz", "labels.npz"}
    return arrays | weights


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, data: tuple[Path, Path], base: Path) -> Path:
    """The folder of a small reader, of labelled questions alone."""
    folder = tmp_path_factory.mktemp("run") / "reader"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "CHECKPOINT_STEPS", 4)
        train_questions(QuestionOptions((str(data[0]),), str(folder), str(base), values=8, **SIZES | LONGER))
    return folder


def cut_off_when_told(line: str) -> Say:
    """Interrupts a run that says a line."""

    def say(said: str) -> None:
        if said == line:
            raise PowerCutError

    return say


@pytest.fixture(params=["from a published encoder", "from a reader, with MPNet as teacher"])
def recipe(request: pytest.FixtureRequest, reader: Path, mpnet: Path, base: Path) -> dict[str, Any]:
    """The options of `--base`, and of `--init`, `--teacher` and `--look-base`."""
    if request.param == "from a published encoder":
        return {}
    return {"base": "", "init": str(reader), "teacher": str(mpnet), "look_base": str(base)}


@pytest.mark.slow
def test_a_run_that_is_stopped_in_each_stage_ends_as_if_it_had_not_been(
    options: MakeOptions, recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CHECKPOINT_STEPS", 1)
    whole = train_questions(options("whole", **recipe))
    cut = options("cut", **recipe)
    for number, name in enumerate(
        (*STAGES[:1], "first-labels", STAGES[1], "labels", *STAGES[2:], "calibration")
    ):
        fitted = name in STAGES
        with pytest.raises(PowerCutError):
            train_questions(
                cut,
                resume=number > 0,
                progress=cut_off_at(name, 1) if fitted else ignore_progress,
                say=silent if fitted else cut_off_when_told(name),
            )
        assert (tmp_path / "cut" / "run" / f"{name}.ckpt").is_file() == fitted
    said: list[str] = []
    resumed = train_questions(cut, resume=True, say=said.append)
    assert not any("steps" in line for line in said)
    one, other = contents(tmp_path / "whole" / "run"), contents(tmp_path / "cut" / "run")
    assert set(one) == set(other)
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert resumed.history == whole.history
    assert {row["stage"] for row in whole.history} == set(STAGES)
    fingerprints = {Reader.load(tmp_path / name).fingerprint for name in ("whole", "cut")}
    assert len(fingerprints) == 1
    assert not list((tmp_path / "cut" / "run").glob("*.ckpt"))


def test_a_run_writes_a_reader_that_answers(reader: Path) -> None:
    loaded = Reader.load(reader)
    assert loaded.parts.network().options.size == 64
    assert loaded.parts.quick() is not None
    assert loaded.about["training"]["data"] == ["labelled.jsonl"]
    text = made_up(9, 1)[0]["context"]
    (answer, *_) = loaded.answer(loaded.read(text), "What did Ann buy?", top=1)
    assert answer.absent or answer.text in text
    history = json.loads((reader / "run" / "history.json").read_text())
    student = [row for row in history if row["stage"] == "student"]
    assert student[-1]["loss"] < student[0]["loss"]
    assert student[-1]["ridge"] < student[0]["ridge"]
    fixed = FixedSizeReader(loaded.parts)
    (answer, *_) = fixed.answer(fixed.read(text), "What did Ann buy?", top=1)
    assert answer.absent or answer.text in text


def test_a_finished_reader_is_kept_unless_it_is_replaced(
    reader: Path, options: MakeOptions, data: tuple[Path, Path]
) -> None:
    before = (reader / "config.json").read_bytes()
    with pytest.raises(OptionError, match="has a reader already; add --resume or --replace"):
        train_questions(options(data=data[:1], out=str(reader)))
    with pytest.raises(OptionError, match="options to resume with: expected values 8, got 9"):
        train_questions(options(data=data[:1], out=str(reader), values=9, **LONGER), resume=True)
    assert (reader / "config.json").read_bytes() == before


def test_other_data_cannot_be_resumed_with(reader: Path, options: MakeOptions, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "labelled.jsonl", made_up(7, 24))
    with pytest.raises(OptionError, match=r"labelled\.jsonl is another file than in the earlier run"):
        train_questions(options(data=(other,), out=str(reader), values=8, **LONGER), resume=True)


def test_a_folder_in_use_is_refused(options: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attar.files._RUN_TIMEOUT", 0.0)
    given = options()
    with lock_run(given.folder / "run"), pytest.raises(AttarError, match="another run uses"):
        train_questions(given)


class TestFineTuning:
    def test_trains_the_second_look_alone_so_that_libraries_stay_as_they_are(
        self, reader: Path, tmp_path: Path
    ) -> None:
        own = write_lines(tmp_path / "own.jsonl", made_up(3, 8))
        given = QuestionOptions(
            (str(own),), str(tmp_path / "tuned"), init=str(reader), batch_tokens=900, lr=1e-3
        )
        assert given.epochs == 3
        train_questions(given)
        tuned, before = Reader.load(tmp_path / "tuned"), Reader.load(reader)
        assert tuned.fingerprint == before.fingerprint
        assert tuned.about["before"] == before.about
        looks = [each.parts.config.look for each in (tuned, before)]
        assert looks[0].digest != looks[1].digest
        # Too few held-out questions to calibrate anew.
        assert looks[0].calibration == looks[1].calibration
        assert not list((tmp_path / "tuned" / "run").glob("*teacher*"))
        # A quarter of the way back from the weights that were trained, in int8.
        trained = safetensors.torch.load_file(tmp_path / "tuned" / "run" / "second-look.safetensors")
        now, then = (dict(each.parts.look().state_dict()) for each in (tuned, before))
        for name, weight in now.items():
            assert torch.allclose(weight, then[name] / 4 + trained[name].float() * 3 / 4, atol=2e-2), name
        assert any(not torch.allclose(now[name], trained[name].float(), atol=1e-3) for name in now)

    def test_needs_known_answers(self, reader: Path, data: tuple[Path, Path], tmp_path: Path) -> None:
        given = QuestionOptions((str(data[1]),), str(tmp_path / "tuned"), init=str(reader))
        with pytest.raises(FormatError, match="no question has an answer in its passage"):
            train_questions(given)
