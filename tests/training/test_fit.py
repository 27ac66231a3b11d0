"""A run writes a reader, stops early, and is shared by processes."""

import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import ProgressBar

from attar.cloze import ClozeDocument, DocumentWriter, Question
from attar.errors import FormatError, OptionError
from attar.reader import load_reader
from attar.text import Vocabulary
from attar.training.fit import (
    Training,
    _check_devices,
    is_main_process,
    make_trainer,
    train,
    without_known_warnings,
)
from attar.training.options import TrainingOptions, network_options
from attar.training.run_folder import HISTORY, RUN

from .conftest import MakeOptions, assert_same_tensors, history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]


def test_a_run_writes_a_reader_checkpoints_and_history(options: MakeOptions) -> None:
    folder = train(options(), quiet=True)
    saved = load_reader(folder)
    assert saved.network.options == network_options(options(), saved.vocabulary)
    assert saved.about["training"] == json.loads(json.dumps(options().described()))
    assert [row["epoch"] for row in saved.about["history"]] == [1, 2]
    assert [row["epoch"] for row in history(folder)] == [1, 2]
    for row in history(folder):
        assert 0 <= row["validation_accuracy"] <= 1
        assert np.isfinite([row["loss"], row["validation_loss"]]).all()
    written = {file.name for file in (folder / RUN).iterdir()}
    assert written == {"best.ckpt", "last.ckpt", "log", "lock", HISTORY}


def test_the_reader_has_the_weights_of_the_best_epoch(options: MakeOptions) -> None:
    folder = train(options(epochs=4, lr=0.05), quiet=True)
    rows = history(folder)
    best = torch.load(folder / RUN / "best.ckpt", weights_only=True)
    assert rows[best["epoch"]]["validation_accuracy"] == max(row["validation_accuracy"] for row in rows)
    weights = {f"network.{name}": value for name, value in load_reader(folder).network.state_dict().items()}
    assert_same_tensors(weights, dict(best["state_dict"]))


def test_the_loss_falls(options: MakeOptions) -> None:
    folder = train(
        options(
            mechanism="named",
            encoder="lookahead",
            hidden_size=16,
            embedding_size=16,
            batch_size=8,
            epochs=10,
            lr=0.02,
        ),
        quiet=True,
    )
    losses = [row["loss"] for row in history(folder)]
    assert losses[-1] < 0.93 * losses[0]


def test_a_batch_without_questions_keeps_weights_finite(
    make_set: Callable[..., Path], options: MakeOptions
) -> None:
    data = make_set(training=8, validation=4, plain=8)
    folder = train(options(data=(str(data),), batch_size=8, epochs=1), quiet=True)
    assert np.isfinite(history(folder)[0]["validation_loss"])
    assert all(value.isfinite().all() for value in load_reader(folder).network.state_dict().values())


class TestAnswersThatAreNotCandidates:
    """The answer is not in the document, or the document has no name."""

    @pytest.fixture
    def spoilt(self, stories_set: Path, tmp_path: Path) -> Callable[[int], Path]:
        """A set with a number of answerable documents and two that are not."""

        def make(good: int) -> Path:
            folder = tmp_path / f"set {good}"
            folder.mkdir()
            (folder / "tokenizer.json").write_bytes((stories_set / "tokenizer.json").read_bytes())
            met, asked = [["@entity1", "met", "@entity3", "."]], ("@placeholder", "met", "@entity3", ".")
            for split in ("training", "validation"):
                with DocumentWriter(folder / f"{split}.parquet") as writer:
                    for number in range(good):
                        writer.write(ClozeDocument(f"good {number}", "", met, {}, [Question(asked, 1)]))
                    writer.write(ClozeDocument("elsewhere", "", met, {}, [Question(asked, 2)]))
                    writer.write(ClozeDocument("none", "", [["it", "rained", "."]], {}, [Question(asked, 0)]))
            return folder

        return make

    def test_are_wrong_and_have_no_loss(self, options: MakeOptions, spoilt: Callable[[int], Path]) -> None:
        folder = train(options(data=(str(spoilt(2)),), mechanism="named", lr=0.05, epochs=8), quiet=True)
        rows = history(folder)
        assert np.isfinite([[row["loss"], row["validation_loss"]] for row in rows]).all()
        assert rows[-1]["validation_accuracy"] == 0.5
        assert rows[-1]["validation_loss"] < 0.1

    def test_alone_change_no_weights_to_nan(
        self, options: MakeOptions, spoilt: Callable[[int], Path]
    ) -> None:
        folder = train(options(data=(str(spoilt(0)),)), quiet=True)
        assert history(folder)[-1] == {"epoch": 2, "loss": 0, "validation_loss": 0, "validation_accuracy": 0}
        assert all(value.isfinite().all() for value in load_reader(folder).network.state_dict().values())


def test_the_same_options_train_the_same_reader(options: MakeOptions) -> None:
    one, other = (train(options(out, dropout=0.2), quiet=True) for out in ("one", "other"))
    assert load_reader(one).fingerprint == load_reader(other).fingerprint
    assert history(one) == history(other)


def test_another_seed_trains_another_reader(options: MakeOptions) -> None:
    one, other = (train(options(str(seed), seed=seed, epochs=1), quiet=True) for seed in (0, 1))
    assert load_reader(one).fingerprint != load_reader(other).fingerprint


def test_a_set_without_validation_is_refused(make_set: Callable[..., Path], options: MakeOptions) -> None:
    data = make_set(training=4, validation=0)
    with pytest.raises(FormatError, match="expected a validation split, got training only; build"):
        train(options(data=(str(data),)), quiet=True)


def test_a_set_in_the_cnn_format_is_trained_on_its_own_questions(options: MakeOptions, cnn_set: Path) -> None:
    folder = train(options(data=(str(cnn_set),), epochs=1), quiet=True)
    assert load_reader(folder).vocabulary == Vocabulary.load(cnn_set / "encoded" / "tokenizer.json")


def test_stops_early_when_validation_no_longer_improves(options: MakeOptions) -> None:
    folder = train(options(lr=1e-12, epochs=9, patience=2), quiet=True)
    assert [row["epoch"] for row in history(folder)] == [1, 2, 3]


def test_without_patience_all_epochs_are_trained(options: MakeOptions) -> None:
    folder = train(options(lr=1e-12, epochs=4), quiet=True)
    assert len(history(folder)) == 4


def test_the_learning_rate_rises_and_then_falls_towards_0(
    options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []

    def note(module: Training, *_: Any) -> None:
        rates.append(module.optimizers().param_groups[0]["lr"])  # type: ignore[union-attr]

    monkeypatch.setattr(Training, "on_train_batch_end", note)
    train(options(epochs=4, warmup=0.25, lr=0.01), quiet=True)
    assert len(rates) == 12
    assert max(rates) == pytest.approx(0.01)
    assert rates.index(max(rates)) <= 3
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] < 0.001


@pytest.fixture(scope="module")
def trained_twice(
    stories_set: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, tuple[Path, Path]]:
    """For two sizes of a batch, the folders of a run in one process and of one that two processes share."""
    place = tmp_path_factory.mktemp("shared")
    small = {"hidden_size": 8, "embedding_size": 8, "epochs": 2, "questions": 3, "data": (str(stories_set),)}
    runs: dict[int, tuple[Path, Path]] = {}
    shared = []
    for batch in (16, 47):
        alone = TrainingOptions(**small, batch_size=batch, out=str(place / f"alone-{batch}"))
        shared.append(replace(alone, out=str(place / f"shared-{batch}"), devices=2))
        runs[batch] = train(alone, quiet=True), shared[-1].folder
    program = f"""
from attar.training.fit import train
from attar.training.options import TrainingOptions
for options, out in {[(each.to_json(), each.out) for each in shared]!r}:
    train(TrainingOptions.from_json(options | dict(out=out, processes=2)), quiet=True)
"""
    (place / "shared.py").write_text(program)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [*launch, str(place / "shared.py")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert "find_unused_parameters" not in ended.stderr
    return runs


@pytest.mark.parametrize("batch", [16, 47], ids=["even parts", "one process left without documents"])
def test_two_processes_make_the_steps_of_one(trained_twice: dict[int, tuple[Path, Path]], batch: int) -> None:
    alone, shared = trained_twice[batch]
    for one, other in zip(history(alone), history(shared), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    weights = [load_reader(folder).network.state_dict() for folder in (alone, shared)]
    assert_same_tensors(dict(weights[0]), dict(weights[1]), rtol=1e-4, atol=1e-4)


class TestWarnings:
    @pytest.mark.parametrize(
        "message",
        [
            "Checkpoint directory /a/run exists and is not empty.",
            "Your `IterableDataset` has `__len__` defined. In combination with",
            "You have overridden `transfer_batch_to_device` in `LightningModule` but",
            "It is recommended to use `self.log('loss', ..., sync_dist=True)` when logging",
        ],
    )
    def test_known_ones_are_hidden(self, message: str) -> None:
        with without_known_warnings():
            warnings.warn(message, UserWarning, stacklevel=1)

    def test_other_ones_are_shown(self) -> None:
        with without_known_warnings(), pytest.warns(UserWarning, match="the disk is nearly full"):
            warnings.warn("the disk is nearly full", UserWarning, stacklevel=1)

    def test_filters_are_removed_afterwards(self) -> None:
        logger = logging.getLogger("pytorch_lightning")
        before = logger.level
        with without_known_warnings():
            assert logger.level == logging.WARNING
        assert logger.level == before
        with pytest.warns(UserWarning, match="Checkpoint directory"):
            warnings.warn("Checkpoint directory a exists and is not empty.", UserWarning, stacklevel=1)


class TestProgressBar:
    @pytest.fixture
    def options(self) -> TrainingOptions:
        return TrainingOptions(("set",), "reader")

    @pytest.mark.parametrize(
        ("terminal", "quiet", "shown"),
        [(True, False, True), (True, True, False), (False, False, False)],
        ids=["in a terminal", "when quiet", "in a pipe"],
    )
    def test_is_shown_in_a_terminal_only(
        self,
        options: TrainingOptions,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        terminal: bool,
        quiet: bool,
        shown: bool,
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
        with without_known_warnings():
            trainer = make_trainer(options, tmp_path, [], quiet=quiet)
        assert isinstance(trainer.progress_bar_callback, ProgressBar) == shown


class TestDevices:
    def test_are_at_most_the_number_of_gpus(self) -> None:
        _check_devices(4, gpus=4)
        with pytest.raises(OptionError, match="expected at most 4, one per GPU, got 5"):
            _check_devices(5, gpus=4)

    def test_are_the_processes_that_torchrun_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
        monkeypatch.setenv("WORLD_SIZE", "2")
        _check_devices(2, gpus=None)
        with pytest.raises(OptionError, match="expected 2, as started by torchrun, got 1; add --devices 2"):
            _check_devices(1, gpus=None)

    def test_a_single_process_is_the_main_process(self) -> None:
        assert is_main_process()
