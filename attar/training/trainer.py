"""Lightning's trainer: the device, the number of processes, and which of its warnings are hidden."""

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

# Warnings about what is intended here, or about a torch that is newer than Lightning.
_KNOWN_WARNINGS = (
    r"Checkpoint directory .* exists and is not empty",
    r"Your `IterableDataset` has `__len__` defined",
    r"You have overridden `transfer_batch_to_device`",
    r"The number of training batches .* is smaller than the logging interval",
    r"It is recommended to use `self.log\(.*, sync_dist=True\)`",  # logged values are reduced already
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)


@contextmanager
def without_known_warnings() -> Iterator[None]:
    """Hide Lightning's tips and known warnings; other warnings are shown."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for message in _KNOWN_WARNINGS:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def make_trainer(
    options: TrainingOptions, run: Path, callbacks: list[Callback], *, quiet: bool
) -> pl.Trainer:
    """A trainer on the GPU if there is one, in one process, in several, or in those that torchrun started."""
    from pytorch_lightning.loggers import TensorBoardLogger

    on_gpu = torch.cuda.is_available()
    _check_devices(options.devices, torch.cuda.device_count() if on_gpu else None)
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    # In a pipe or a log a progress bar would be noise.
    shown = not quiet and sys.stderr.isatty()
    bar: list[Callback] = [RichProgressBar(console_kwargs={"stderr": True})] if shown else []
    return pl.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=options.devices,
        strategy="ddp" if options.devices > 1 else "auto",
        max_epochs=options.epochs,
        precision=options.precision,  # type: ignore[arg-type]  # Lightning names its own choices
        gradient_clip_val=options.grad_clip or None,
        callbacks=[*callbacks, *bar],
        logger=TensorBoardLogger(run, name="", version="log"),
        enable_progress_bar=shown,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=50,
        use_distributed_sampler=False,
        deterministic=not on_gpu,
    )


def _check_devices(devices: int, gpus: int | None) -> None:
    """Refuse more processes than there are GPUs, or another number than torchrun has started.

    >>> _check_devices(2, gpus=1)
    Traceback (most recent call last):
    attar.errors.OptionError: devices: expected at most 1, one per GPU, got 2
    """
    if gpus is not None and devices > gpus:
        raise OptionError("devices", f"at most {gpus}, one per GPU", str(devices))
    started = os.environ.get("WORLD_SIZE", "")
    if torch.distributed.is_torchelastic_launched() and started != str(devices):
        raise OptionError(
            "devices", f"{started}, as started by torchrun", str(devices), f"add --devices {started}"
        )


def is_main_process() -> bool:
    """Whether this process writes and prints for all processes of a run."""
    from pytorch_lightning.utilities import rank_zero_only

    return int(rank_zero_only.rank) == 0  # type: ignore[attr-defined]  # set on the function itself
