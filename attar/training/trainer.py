"""Lightning's trainer as Attar runs it: where, in how many processes, and without its own remarks."""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, RichProgressBar

from attar.errors import OptionError
from attar.training.options import TrainingOptions

# What Lightning remarks on though it is meant, and on a torch newer than itself.
REMARKS = (
    r"Checkpoint directory .* exists and is not empty",
    r"Your `IterableDataset` has `__len__` defined",
    r"You have overridden `transfer_batch_to_device`",
    r"The number of training batches .* is smaller than the logging interval",
    r"It is recommended to use `self.log\(.*, sync_dist=True\)`",  # what is logged is summed up already
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)


@contextmanager
def without_remarks() -> Iterator[None]:
    """Keep Lightning's tips and known remarks away; whatever else it warns of is heard."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for remark in REMARKS:
                warnings.filterwarnings("ignore", remark)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def trainer_for(options: TrainingOptions, run: Path, callbacks: list[Callback], *, quiet: bool) -> pl.Trainer:
    """The trainer: one process on a GPU if there is one, or several, or what torchrun has started."""
    from pytorch_lightning.loggers import TensorBoardLogger

    on_gpu = torch.cuda.is_available()
    check_processes(options.processes, torch.cuda.device_count() if on_gpu else None)
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    # A bar is for a person who looks on: in a pipe or a log it would be noise.
    shown = not quiet and sys.stderr.isatty()
    bar: list[Callback] = [RichProgressBar(console_kwargs={"stderr": True})] if shown else []
    return pl.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=options.processes,
        strategy="ddp" if options.processes > 1 else "auto",
        max_epochs=options.epochs,
        precision=options.precision,  # type: ignore[arg-type]  # Lightning names its own choices
        gradient_clip_val=options.clip or None,
        callbacks=[*callbacks, *bar],
        logger=TensorBoardLogger(run, name="", version="log"),
        enable_progress_bar=shown,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=50,
        use_distributed_sampler=False,
        deterministic=not on_gpu,
    )


def check_processes(processes: int, gpus: int | None) -> None:
    """Refuse more processes than there are GPUs, or others than torchrun has started.

    >>> check_processes(2, gpus=1)
    Traceback (most recent call last):
    attar.errors.OptionError: processes: expected 1 at most, one a GPU, got 2
    """
    if gpus is not None and processes > gpus:
        raise OptionError("processes", f"{gpus} at most, one a GPU", str(processes))
    started = os.environ.get("WORLD_SIZE", "")
    if torch.distributed.is_torchelastic_launched() and started != str(processes):
        raise OptionError(
            "processes", f"{started}, as torchrun started", str(processes), f"add --processes {started}"
        )


def leads() -> bool:
    """Whether this process speaks for all that share a run."""
    from pytorch_lightning.utilities import rank_zero_only

    return int(rank_zero_only.rank) == 0  # type: ignore[attr-defined]  # set on the function itself
