"""A run writes the best network, stops early, and continues as if it had not stopped."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from attar.errors import AttarError, FormatError, OptionError
from attar.files import lock_run
from attar.paper.network import load_network
from attar.paper.options import TrainingOptions
from attar.paper.sets import ClozeSet
from attar.paper.train import BEST, HISTORY, LAST, RUN, TrainingData, TrainingRun, train
from attar.paper.words import VOCABULARY_FILE

from .conftest import MakeOptions, MakeSet, story_words

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def history(options: TrainingOptions, **how: Any) -> list[dict[str, float]]:
    """Train, and return the history without its speed."""
    rows = train(options, **how)
    assert json.loads((options.folder / RUN / HISTORY).read_text()) == rows
    return [{name: row[name] for name in row if name != "documents_per_second"} for row in rows]


def weights(options: TrainingOptions) -> dict[str, torch.Tensor]:
    return load_network(options.folder).network.state_dict()


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    torch.testing.assert_close(one, other, rtol=0.0, atol=0.0)


def test_a_run_writes_a_network_with_its_history_and_a_line_per_epoch(options: MakeOptions) -> None:
    lines: list[str] = []
    rows = history(options(), say=lines.append)
    saved = load_network(options().folder)
    assert saved.network.options == options().network()
    assert saved.about["training"] == options().described()
    assert {"lr", "batch_size", "hidden_size"} < set(saved.about["training"])
    assert [row["epoch"] for row in rows] == [1, 2]
    assert lines[1].startswith("epoch 2 of 2: loss ")
    assert {file.name for file in (options().folder / RUN).iterdir()} == {"best.ckpt", LAST, "lock", HISTORY}


def test_the_network_has_the_weights_of_the_best_epoch(options: MakeOptions) -> None:
    whole = options(epochs=4, lr=0.3)
    rows = history(whole)
    best = max(rows, key=lambda row: row["validation_accuracy"])
    validated = TrainingRun(whole, TrainingData.of(ClozeSet.open(whole.data)))
    validated.network.load_state_dict(torch.load(whole.folder / RUN / BEST))
    assert validated.validate()["validation_loss"] == best["validation_loss"]
    assert_same(dict(validated.network.state_dict()), dict(weights(whole)))


def test_the_same_options_train_the_same_network_and_another_seed_another(options: MakeOptions) -> None:
    one, same, other = options("one", dropout=0.2), options("same", dropout=0.2), options("other", seed=1)
    assert history(one) == history(same) != history(other)
    assert_same(weights(one), weights(same))


class PowerCutError(Exception):
    """Interrupts a run."""


def cut_off(options: TrainingOptions, *, epoch: int) -> None:
    """Train until before a step in the middle of an epoch, counted from 1."""

    def progress(what: str, done: int, total: int) -> None:
        if (what, done) == (f"epoch {epoch} of {options.epochs}", 1):
            raise PowerCutError

    with pytest.raises(PowerCutError):
        train(options, progress=progress)


class TestResuming:
    # With a rate so high that the best epoch is an early one.
    @pytest.mark.parametrize("changed", [{"dropout": 0.2}, {"lr": 0.5}], ids=str)
    def test_equals_an_uninterrupted_run(self, options: MakeOptions, changed: dict[str, Any]) -> None:
        whole, first = options("whole", epochs=4, **changed), options("first", epochs=4, **changed)
        expected = history(whole)
        cut_off(first, epoch=3)
        first.folder.rename(first.folder.with_name("moved"))
        moved = options("moved", epochs=4, **changed)
        assert history(moved, resume=True) == expected
        assert_same(weights(moved), weights(whole))
        last = [torch.load(run.folder / RUN / LAST, weights_only=True) for run in (moved, whole)]
        assert_same(last[0]["optimizer"]["state"], last[1]["optimizer"]["state"])

    def test_needs_the_same_options_but_not_the_same_path_of_a_set(
        self, options: MakeOptions, stories_set: Path
    ) -> None:
        cut_off(options(), epoch=2)
        with pytest.raises(OptionError, match=r"resume with: expected lr 0\.004, got 0\.1; give the same"):
            train(options(lr=0.1), resume=True)
        assert len(history(options(data=f"{stories_set}/."), resume=True)) == 2

    @pytest.mark.parametrize("changed", ["training", "validation", "vocabulary"])
    def test_needs_the_same_data(self, options: MakeOptions, make_set: MakeSet, changed: str) -> None:
        data, other = make_set(training=12, validation=4), make_set(seed=5, training=12, validation=4)
        begun = options(data=str(data))
        cut_off(begun, epoch=2)
        if changed == "vocabulary":
            (data / VOCABULARY_FILE).write_bytes(story_words(size=50).to_bytes())
        else:
            shutil.copy(other / f"{changed}.parquet", data)
        with pytest.raises(FormatError, match=f"the {changed}.* changed since the run began; restore"):
            train(begun, resume=True)

    def test_is_refused_for_a_damaged_or_another_checkpoint(self, options: MakeOptions) -> None:
        history(options(epochs=1))
        last = options().folder / RUN / LAST
        whole = last.read_bytes()
        for cut in (0, 1000):
            last.write_bytes(whole[:cut])
            with pytest.raises(
                FormatError, match=r"last\.ckpt is not a whole checkpoint .*; start a new run"
            ):
                train(options(epochs=1), resume=True)
        shutil.copy(options().folder / RUN / "best.ckpt", last)
        with pytest.raises(FormatError, match=r"last\.ckpt is not the last checkpoint of this run"):
            train(options(epochs=1), resume=True)

    def test_a_network_or_run_is_overwritten_only_on_request(self, options: MakeOptions) -> None:
        cut_off(options("cut"), epoch=2)
        with pytest.raises(OptionError, match=r"last\.ckpt.*; add --resume or --replace"):
            train(options("cut"))
        history(options(epochs=1))
        with pytest.raises(OptionError, match=r"config\.json.*; add --resume or --replace"):
            train(options(epochs=1))
        assert len(history(options(seed=1), replace=True)) == 2

    def test_a_folder_takes_one_run_at_a_time(self, options: MakeOptions, monkeypatch) -> None:
        monkeypatch.setattr("attar.files._RUN_TIMEOUT", 0.0)
        with lock_run(options().folder / RUN), pytest.raises(AttarError, match="another run uses"):
            train(options())


class TestSavedNetwork:
    @pytest.fixture
    def folder(self, options: MakeOptions) -> Path:
        train(options(epochs=1))
        return options().folder

    @pytest.mark.parametrize(
        ("name", "old", "new"),
        [
            ("config.json", b'"gated"', b'"lstm"'),
            ("config.json", b'"hidden_size": 8', b'"hidden_size": 16'),
            ("config.json", b"{", b"["),
            ("vocabulary.json", b'"words":[', b'"words":["more",'),
            ("weights.safetensors", b"embedding", b"embodding"),
        ],
        ids=["mechanism", "size", "no object", "vocabulary", "weights"],
    )
    def test_a_changed_file_is_refused_in_one_line(
        self, folder: Path, name: str, old: bytes, new: bytes
    ) -> None:
        changed = (folder / name).read_bytes().replace(old, new, 1)
        (folder / name).write_bytes(changed)
        with pytest.raises(AttarError) as refused:
            load_network(folder)
        assert str(folder) in str(refused.value)
        assert "\n" not in str(refused.value)
