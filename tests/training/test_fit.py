"""A run writes a reader, stops early, and is shared by processes."""

import json
import logging
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import ProgressBar

from attar.cloze.documents import ClozeDocument, DocumentWriter, Question
from attar.errors import FormatError, OptionError
from attar.reader.files import load_reader
from attar.text.vocabulary import Vocabulary
from attar.training.fit import (
    Training,
    _processes,
    is_main_process,
    make_trainer,
    train,
    without_known_warnings,
)
from attar.training.options import TrainingOptions, network_options
from attar.training.processes import Processes
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


# Trains with some options in turn; keeps the gradients of each step.
PROGRAM = """
import torch
from attar.training.fit import Training, is_main_process, train
from attar.training.options import TrainingOptions

steps = []
def keep(self, optimizer):
    steps.append({name: each.grad.clone() for name, each in self.named_parameters() if each.grad is not None})
Training.on_before_optimizer_step = keep
for options, out in RUNS:
    steps.clear()
    train(TrainingOptions.from_json(options | dict(out=out)), quiet=True)
    if is_main_process():
        torch.save(steps, out + ".gradients")
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def trained_twice(
    stories_set: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Path]]:
    """For some runs, the folders of each in one process, and shared by two nodes of one process each."""
    place = tmp_path_factory.mktemp("shared")
    small = {"hidden_size": 8, "embedding_size": 8, "questions": 3, "data": (str(stories_set),)}
    runs: dict[str, tuple[Path, Path]] = {}
    alone, shared = [], []
    for batch in (16, 47):
        # At such a learning rate all steps have the first weights: Adam makes much of rounding.
        for kind, more in (("trained", {"epochs": 2}), ("gradients", {"epochs": 1, "lr": 1e-9})):
            options = TrainingOptions(**small, **more, batch_size=batch, out="").to_json()
            name = f"{kind} {batch}"
            runs[name] = place / f"{name} alone", place / f"{name} shared"
            alone.append((options, str(runs[name][0])))
            shared.append((options, str(runs[name][1])))
    for file, listed in (("alone.py", alone), ("shared.py", shared)):
        (place / file).write_text(PROGRAM.replace("RUNS", repr(listed)))
    nodes = ["-m", "torch.distributed.run", "--nproc-per-node", "1", "--nnodes", "2"]
    nodes += ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--node-rank"]
    launches = [[], [*nodes, "0"], [*nodes, "1"]]
    started = [
        subprocess.Popen(
            [sys.executable, *launch, str(place / ("shared.py" if launch else "alone.py"))],
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        for launch in launches
    ]
    for each in started:
        _, errors = each.communicate(timeout=300)
        assert each.returncode == 0, errors
        assert "find_unused_parameters" not in errors
    return runs


PARTS = pytest.mark.parametrize("batch", [16, 47], ids=["even parts", "one process left without documents"])


@PARTS
def test_two_processes_make_the_steps_of_one(trained_twice: dict[str, tuple[Path, Path]], batch: int) -> None:
    alone, shared = trained_twice[f"trained {batch}"]
    for one, other in zip(history(alone), history(shared), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    weights = [load_reader(folder).network.state_dict() for folder in (alone, shared)]
    assert_same_tensors(dict(weights[0]), dict(weights[1]), rtol=1e-4, atol=1e-4)


@PARTS
def test_two_processes_have_the_gradients_of_one(
    trained_twice: dict[str, tuple[Path, Path]], batch: int
) -> None:
    alone, shared = (torch.load(f"{folder}.gradients") for folder in trained_twice[f"gradients {batch}"])
    assert len(alone) == {16: 3, 47: 2}[batch]
    assert all(any(gradient.abs().max() > 1e-3 for gradient in step.values()) for step in alone)
    torch.testing.assert_close(shared, alone, rtol=0, atol=1e-5)


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


class TestProcesses:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As torchrun starts the second of two processes on the second of two machines."""
        started = {"TORCHELASTIC_RUN_ID": "run", "RANK": 3, "WORLD_SIZE": 4}
        for name, value in (started | {"LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}).items():
            monkeypatch.setenv(name, str(value))

    def test_are_at_most_the_number_of_gpus(self) -> None:
        assert _processes(4, gpus=4) == Processes(count=4, local_count=4)
        with pytest.raises(OptionError, match="expected at most 4, one per GPU, got 5"):
            _processes(5, gpus=4)

    @pytest.mark.usefixtures("started")
    @pytest.mark.parametrize("gpus", [None, 2, 8])
    @pytest.mark.parametrize("devices", [1, 4], ids=["devices not given", "devices of all machines"])
    def test_are_those_that_torchrun_started(self, devices: int, gpus: int | None) -> None:
        processes = _processes(devices, gpus)
        assert (processes.rank, processes.local_count, processes.nodes) == (3, 2, 2)

    @pytest.mark.usefixtures("started")
    def test_other_numbers_than_those_of_torchrun_are_refused(self) -> None:
        with pytest.raises(OptionError, match="expected 4, as started by torchrun, got 3; omit --devices"):
            _processes(3, gpus=None)
        with pytest.raises(OptionError, match="--nproc-per-node: expected at most 1, one per GPU, got 2"):
            _processes(1, gpus=1)

    def test_as_many_run_on_each_machine(self) -> None:
        with pytest.raises(OptionError, match="expected as many on each machine, got 2 of 5"):
            _ = Processes(count=5, local_count=2).nodes

    @pytest.mark.usefixtures("started")
    def test_a_trainer_on_gpus_has_those_of_its_machine(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda precision: None)
        given: dict[str, Any] = {}
        monkeypatch.setattr("pytorch_lightning.Trainer", lambda **arguments: given.update(arguments))
        make_trainer(TrainingOptions(("set",), "reader"), tmp_path, [], quiet=True)
        names = ("accelerator", "devices", "num_nodes", "strategy")
        assert [given[name] for name in names] == ["gpu", 2, 2, "ddp"]

    def test_a_single_process_is_the_main_process(self) -> None:
        assert is_main_process()
