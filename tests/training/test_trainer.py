"""Lightning is heard only where it has something to say, and runs in as many processes as there are."""

import logging
import sys
import warnings
from pathlib import Path

import pytest
from pytorch_lightning.callbacks import ProgressBar

from attar.errors import OptionError
from attar.training.options import TrainingOptions
from attar.training.trainer import check_processes, leads, trainer_for, without_remarks


class TestRemarks:
    @pytest.mark.parametrize(
        "remark",
        [
            "Checkpoint directory /a/run exists and is not empty.",
            "Your `IterableDataset` has `__len__` defined. In combination with",
            "You have overridden `transfer_batch_to_device` in `LightningModule` but",
            "It is recommended to use `self.log('loss', ..., sync_dist=True)` when logging",
        ],
    )
    def test_that_are_known_are_not_heard(self, remark: str) -> None:
        with without_remarks():
            warnings.warn(remark, UserWarning, stacklevel=1)

    def test_that_are_new_are_heard(self) -> None:
        with without_remarks(), pytest.warns(UserWarning, match="the disk is nearly full"):
            warnings.warn("the disk is nearly full", UserWarning, stacklevel=1)

    def test_are_heard_again_afterwards(self) -> None:
        logger = logging.getLogger("pytorch_lightning")
        before = logger.level
        with without_remarks():
            assert logger.level == logging.WARNING
        assert logger.level == before
        with pytest.warns(UserWarning, match="Checkpoint directory"):
            warnings.warn("Checkpoint directory a exists and is not empty.", UserWarning, stacklevel=1)


class TestBar:
    @pytest.fixture
    def options(self) -> TrainingOptions:
        return TrainingOptions(("set",), "reader")

    @pytest.mark.parametrize(
        ("terminal", "quiet", "shown"),
        [(True, False, True), (True, True, False), (False, False, False)],
        ids=["in a terminal", "when quiet", "in a pipe"],
    )
    def test_is_shown_to_a_person_only(
        self,
        options: TrainingOptions,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        terminal: bool,
        quiet: bool,
        shown: bool,
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
        with without_remarks():
            trainer = trainer_for(options, tmp_path, [], quiet=quiet)
        assert isinstance(trainer.progress_bar_callback, ProgressBar) == shown


class TestProcesses:
    def test_are_no_more_than_there_are_gpus(self) -> None:
        check_processes(4, gpus=4)
        with pytest.raises(OptionError, match="expected 4 at most, one a GPU, got 5"):
            check_processes(5, gpus=4)

    def test_are_as_many_as_torchrun_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
        monkeypatch.setenv("WORLD_SIZE", "2")
        check_processes(2, gpus=None)
        with pytest.raises(OptionError, match="expected 2, as torchrun started, got 1; add --processes 2"):
            check_processes(1, gpus=None)

    def test_one_alone_speaks_for_itself(self) -> None:
        assert leads()
