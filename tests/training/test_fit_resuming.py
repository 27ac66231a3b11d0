"""A run is resumed, and not overwritten unless asked to."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from attar.errors import AttarError, OptionError
from attar.reader.files import load_reader
from attar.training import run_folder
from attar.training.fit import train
from attar.training.run_folder import RUN, lock_folder

from .conftest import MakeOptions, PowerCutError, assert_same_tensors, cut_off, history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]


def last_checkpoint(folder: Path) -> dict[str, Any]:
    return torch.load(folder / RUN / "last.ckpt", weights_only=True)


@pytest.mark.parametrize(("epoch", "step"), [(1, 0), (2, 1)], ids=["between epochs", "within an epoch"])
def test_a_resumed_run_ends_as_if_it_had_not_stopped(
    options: MakeOptions, monkeypatch: pytest.MonkeyPatch, epoch: int, step: int
) -> None:
    whole = train(options("whole", epochs=3, dropout=0.2), quiet=True)
    parts = options("parts", epochs=3, dropout=0.2)
    with monkeypatch.context() as patch:
        cut_off(patch, epoch=epoch, step=step)
        with pytest.raises(PowerCutError):
            train(parts, quiet=True)
    torch.manual_seed(99)
    resumed = train(parts, resume=True, quiet=True)
    assert history(resumed) == history(whole)
    one, other = last_checkpoint(resumed), last_checkpoint(whole)
    assert one["global_step"] == other["global_step"] == 9
    assert_same_tensors(one["state_dict"], other["state_dict"])
    assert_same_tensors(one["optimizer_states"][0]["state"], other["optimizer_states"][0]["state"])
    assert load_reader(resumed).fingerprint == load_reader(whole).fingerprint


def test_resuming_in_a_new_folder_starts_a_run(options: MakeOptions) -> None:
    resumed, fresh = (train(options(str(r), epochs=1), resume=r, quiet=True) for r in (True, False))
    assert load_reader(resumed).fingerprint == load_reader(fresh).fingerprint


def test_a_run_is_not_resumed_with_other_options(options: MakeOptions) -> None:
    train(options(epochs=1), quiet=True)
    with pytest.raises(OptionError, match="options to resume with: expected epochs 1, got 3; give the same"):
        train(options(epochs=3), resume=True, quiet=True)


def test_a_run_is_resumed_after_its_set_has_moved(options: MakeOptions, stories_set: Path) -> None:
    first = train(options(), quiet=True)
    moved = options(data=(str(stories_set / "."),))
    assert history(train(moved, resume=True, quiet=True)) == history(first)


def test_a_finished_reader_is_not_overwritten(options: MakeOptions) -> None:
    folder = train(options(epochs=1), quiet=True)
    before = load_reader(folder).fingerprint
    for changed in ({}, {"seed": 1}):
        with pytest.raises(OptionError) as refused:
            train(options(epochs=1, **changed), quiet=True)
        assert str(refused.value) == (
            f"{folder}/config.json: expected nothing there yet, got a file; "
            "add --resume or --replace, or choose another --out"
        )
    shutil.rmtree(folder / RUN)  # a copied reader: there is nothing to resume
    with pytest.raises(OptionError, match="expected nothing there yet"):
        train(options(epochs=1), resume=True, quiet=True)
    assert load_reader(folder).fingerprint == before


def test_an_unfinished_run_is_not_overwritten(options: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        cut_off(patch, epoch=1, step=0)
        with pytest.raises(PowerCutError):
            train(options(), quiet=True)
    with pytest.raises(OptionError, match=r"last\.ckpt: expected nothing there yet.*--resume or --replace"):
        train(options(), quiet=True)
    train(options(), resume=True, quiet=True)


def test_to_replace_a_run_starts_from_the_beginning(options: MakeOptions) -> None:
    train(options(epochs=1), quiet=True)
    again = load_reader(train(options(seed=1), replace=True, quiet=True))
    assert again.fingerprint == load_reader(train(options("new", seed=1), quiet=True)).fingerprint
    assert [row["epoch"] for row in history(options().folder)] == [1, 2]


def test_a_folder_takes_one_run_at_a_time(options: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_LOCK_TIMEOUT", 0.0)
    with (
        lock_folder(options().folder / RUN),
        pytest.raises(AttarError, match="expected a folder that no other run uses, got one in use"),
    ):
        train(options(), quiet=True)


def test_a_file_as_folder_is_refused_before_anything_is_read(options: MakeOptions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        AttarError, match=r"expected a folder to write to, got the file .*file; choose another"
    ):
        train(options("file/reader", data=("no set",)), quiet=True)
