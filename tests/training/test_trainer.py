"""Lightning's known warnings are hidden, its bar is for terminals, and processes match the devices."""

import logging
import sys
import warnings
from pathlib import Path

import pytest
from pytorch_lightning.callbacks import ProgressBar

from attar.errors import OptionError
from attar.training.options import TrainingOptions
from attar.training.trainer import _check_devices, is_main_process, make_trainer, without_known_warnings


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
