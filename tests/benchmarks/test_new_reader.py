"""The pipeline of a new reader: all stages on tiny networks, and the states of MPNet, its teacher."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from attar.options import TransformerShape
from attar.progress import ignore_progress
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.reader import Reader
from attar.training import run
from attar.training.run import silent
from benchmarks.new_reader.__main__ import NewReaderOptions, train_reader
from benchmarks.new_reader.published import RelativeTransformer, from_published_mpnet
from tests.training.conftest import made_up
from tests.training.test_train import PowerCutError, cut_off_at, cut_off_when_told

pytestmark = pytest.mark.nightly

# Random weights of a tiny MPNet, and its states by transformers 5.17.
MPNET = Path(__file__).parent / "data" / "mpnet.safetensors"
STAGES = ("first-teacher", "teacher", "second-look", "student", "imitation", "quick")
SIZES: dict[str, Any] = {"look_epochs": 1, "epochs": 2, "batch_tokens": 600, "lr": 1e-3}


def contents(folder: Path) -> dict[str, Any]:
    """The arrays and weights of a run's files, by name."""
    arrays = {file.name: dict(np.load(file)) for file in folder.glob("*.npz")}
    weights = {file.name: safetensors.torch.load_file(file) for file in folder.glob("*.safetensors")}
    assert {Path(name).stem for name in weights} == set(STAGES)
    assert set(arrays) == {"first-labels.npz", "labels.npz"}
    return arrays | weights


@pytest.mark.usefixtures("unchecked_shapes")
def test_runs_that_are_stopped_in_each_stage_end_as_if_they_had_not_been(
    data: tuple[Path, Path], base: Path, mpnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CHECKPOINT_STEPS", 1)
    # From a published encoder; then that reader, with MPNet as teacher.
    recipes: dict[str, dict[str, Any]] = {
        "new": {"base": str(base), "values": 8},
        "again": {"init": str(tmp_path / "new"), "teacher": str(mpnet), "look_base": str(base)},
    }
    for name, recipe in recipes.items():
        given = {"data": data} | SIZES | recipe
        whole = train_reader(NewReaderOptions(out=str(tmp_path / name), **given))
        cut = NewReaderOptions(out=str(tmp_path / f"{name}-cut"), **given)
        stops = (STAGES[0], "first-labels", STAGES[1], "labels", *STAGES[2:], "calibration")
        for number, stop in enumerate(stops):
            fitted = stop in STAGES
            with pytest.raises(PowerCutError):
                train_reader(
                    cut,
                    resume=number > 0,
                    progress=cut_off_at(stop, 1) if fitted else ignore_progress,
                    say=silent if fitted else cut_off_when_told(stop),
                )
            assert (cut.folder / "run" / f"{stop}.ckpt").is_file() == fitted
        said: list[str] = []
        resumed = train_reader(cut, resume=True, say=said.append)
        assert not any("steps" in line for line in said)
        one, other = contents(tmp_path / name / "run"), contents(cut.folder / "run")
        torch.testing.assert_close(one, other, rtol=0, atol=0)
        assert resumed.history == whole.history
        assert {row["stage"] for row in whole.history} == set(STAGES)
        assert resumed.held_out.keys() == {f"reader, look {look}" for look in (0, 1, 3)}
        loaded = Reader.load(cut.folder)
        assert loaded.fingerprint == Reader.load(tmp_path / name).fingerprint
        text = made_up(9, 1)[0]["context"]
        for reader in (loaded, FixedSizeReader(loaded.parts)):
            (answer, *_) = reader.answer(reader.read(text), "What did Ann buy?", top=1)
            assert answer.absent or answer.text in text


def test_the_states_are_those_of_mpnet() -> None:
    published = safetensors.torch.load_file(MPNET)
    shape = TransformerShape(vocabulary=20, size=8, layers=2, heads=2, feedforward=12, positions=38)
    network = RelativeTransformer(shape)
    network.load_state_dict(from_published_mpnet(published, layers=2))
    mask = published["test.mask"]
    states = network.eval()(published["test.ids"], mask)
    torch.testing.assert_close(states[mask], published["test.states"][mask], rtol=0, atol=2e-6)
