"""Fine-tuning, and runs: what is finished is kept, what is stopped goes on, and mistakes are named."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch

from attar.errors import AttarError, FormatError, OptionError
from attar.files import lock_run
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.training import run
from attar.training.data import QuestionOptions
from attar.training.run import Say, silent
from attar.training.train import train_questions

from .conftest import made_up, write_lines

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


class PowerCutError(Exception):
    """Interrupts a run."""


def cut_off_at(name: str, step: int) -> Progress:
    """Interrupts a run before a step of a stage."""

    def progress(stage: str, done: int, total: int | None) -> None:
        if (stage, done) == (name, step):
            raise PowerCutError

    return progress


def cut_off_when_told(line: str) -> Say:
    """Interrupts a run that says a line."""

    def say(said: str) -> None:
        if said == line:
            raise PowerCutError

    return say


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("data") / "own.jsonl", made_up(3, 12))


@pytest.fixture(scope="module")
def options(own: Path, reader: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Options of a run in a folder of its own."""
    folder = tmp_path_factory.mktemp("runs")

    def make(out: str = "tuned", **changed: Any) -> QuestionOptions:
        given: dict[str, Any] = {"data": (str(own),), "init": str(reader), "batch_tokens": 300, "lr": 1e-3}
        return QuestionOptions(out=str(folder / out), **given | changed)

    return make


@pytest.fixture(scope="module")
def tuned(options: Any) -> Path:
    train_questions(options())
    folder: Path = options().folder
    return folder


def test_the_second_look_alone_is_trained_so_that_libraries_stay_as_they_are(
    tuned: Path, reader: Path
) -> None:
    after, before = Reader.load(tuned), Reader.load(reader)
    assert after.fingerprint == before.fingerprint
    assert after.about["before"] == before.about
    assert after.about["training"]["data"] == ["own.jsonl"]
    looks = [each.parts.config.look for each in (after, before)]
    assert looks[0].digest != looks[1].digest
    # Too few held-out questions to calibrate anew.
    assert looks[0].calibration == looks[1].calibration
    # A quarter of the way back from the weights that were trained, in int8.
    trained = safetensors.torch.load_file(tuned / "run" / "second-look.safetensors")
    now, then = (dict(each.parts.look().state_dict()) for each in (after, before))
    for name, weight in now.items():
        assert weight.allclose(then[name] / 4 + trained[name].float() * 3 / 4, atol=2e-2), name
    assert any(not now[name].allclose(trained[name].float(), atol=1e-3) for name in now)


def test_a_run_that_is_stopped_ends_as_if_it_had_not_been(
    tuned: Path, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CHECKPOINT_STEPS", 1)
    given = options("cut")
    for number, (progress, say) in enumerate(
        (
            (ignore_progress, cut_off_when_told("found")),
            (cut_off_at("second-look", 2), silent),
            (ignore_progress, cut_off_when_told("calibration")),
        )
    ):
        with pytest.raises(PowerCutError):
            train_questions(given, resume=number > 0, progress=progress, say=say)
    resumed = train_questions(given, resume=True)
    assert resumed.held_out.keys() == {f"reader, look {look}" for look in (0, 1, 3)}
    assert [row["step"] for row in resumed.history] == list(range(1, int(resumed.history[0]["steps"]) + 1))
    for file in ("second_look.safetensors", "run/second-look.safetensors"):
        assert (given.folder / file).read_bytes() == (tuned / file).read_bytes()


def test_a_finished_reader_is_kept_unless_it_is_replaced(tuned: Path, options: Any) -> None:
    before = (tuned / "config.json").read_bytes()
    with pytest.raises(OptionError, match="has a reader already; add --resume or --replace"):
        train_questions(options())
    with pytest.raises(OptionError, match="options to resume with: expected epochs 3, got 9"):
        train_questions(options(epochs=9), resume=True)
    assert (tuned / "config.json").read_bytes() == before


def test_other_data_cannot_be_resumed_with(tuned: Path, options: Any, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "own.jsonl", made_up(7, 12))
    with pytest.raises(OptionError, match=r"own\.jsonl is another file than in the earlier run"):
        train_questions(options(data=(str(other),)), resume=True)


def test_a_folder_in_use_is_refused(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attar.files._RUN_TIMEOUT", 0.0)
    given = options("used")
    with lock_run(given.folder / "run"), pytest.raises(AttarError, match="another run uses"):
        train_questions(given)


def test_known_answers_are_needed(options: Any, tmp_path: Path) -> None:
    rows = [row | {"questions": [{"question": "Who?", "answers": []}]} for row in made_up(3, 4)]
    given = options("unknown", data=(str(write_lines(tmp_path / "absent.jsonl", rows)),))
    with pytest.raises(FormatError, match="no question has an answer in its passage"):
        train_questions(given)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"data": ()}, "no files of questions"),
        ({"epochs": 0}, "epochs: expected 1 or more"),
        ({"lr": float("nan")}, "a finite number"),
    ],
)
def test_options_are_checked(options: Any, changed: dict[str, Any], part: str) -> None:
    with pytest.raises(OptionError, match=part):
        options(**changed)
