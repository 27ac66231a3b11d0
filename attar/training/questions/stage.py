"""One stage of a run: a Lightning module that fits a network, is checkpointed, and continues where it stopped."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import safetensors.torch
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from attar.errors import FormatError
from attar.files import atomic_file
from attar.progress import Progress, ignore_progress
from attar.training.processes import ALONE, Processes
from attar.training.questions.batches import Batch
from attar.training.questions.losses import Loss
from attar.training.run_folder import load_checkpoint, relocate_checkpoint

# Steps between checkpoints, and between lines of the log.
CHECKPOINT_STEPS = 400
Row = dict[str, float | str]
# What Lightning and torch warn about that does not matter here.
_KNOWN_WARNINGS = (
    r"Checkpoint directory .* exists and is not empty",
    r"The number of training batches .* is smaller than the logging interval",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)


class Stage(pl.LightningModule):
    """A network with its loss; AdamW, the encoder at `lr` and the other parameters at `heads` times that.

    An epoch of Lightning is the steps up to the next checkpoint. A step has `accumulate` batches, which the processes
    share. Batches and dropout are functions of the step, so that a run that was stopped continues as if it had not
    been, and that any number of processes takes the same steps.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        loss: Callable[[Batch], Loss],
        batches: Dataset[Batch],
        *,
        lr: float,
        heads: float = 5.0,
        seed: int = 0,
        workers: int = 0,
        accumulate: int = 1,
        processes: Processes = ALONE,
        evaluate: Callable[[], Row] | None = None,
        progress: Progress = ignore_progress,
    ) -> None:
        super().__init__()
        self.name, self.module, self.loss, self.batches = name, module, loss, batches
        self.lr, self.heads, self.seed, self.workers = lr, heads, seed, workers
        self.evaluate, self.progress = evaluate, progress
        self.accumulate, self.processes = accumulate, processes
        self.share = accumulate // processes.count  # of this process, in each step
        self.count = len(batches)  # type: ignore[arg-type]  # those here have a length
        self.steps = math.ceil(self.count / accumulate)
        self.history: list[Row] = []
        self._sums: dict[str, Tensor] = {}

    def train_dataloader(self) -> DataLoader[Batch]:
        """Its batches up to the next checkpoint; the last step is filled up with the first batches."""
        first = self.current_epoch * CHECKPOINT_STEPS
        steps = range(first, min(first + CHECKPOINT_STEPS, self.steps))
        places = [self._place(step, part) % self.count for step in steps for part in range(self.share)]
        return make_loader(Subset(self.batches, places), self.workers)

    def _place(self, step: int, part: int) -> int:
        """The place of a batch among those of all steps and processes."""
        return step * self.accumulate + self.processes.rank * self.share + part

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The loss of one step."""
        # Not at the start of an epoch: Lightning leaves that hook out when it resumes at one.
        torch.manual_seed(self.seed * 1_000_003 + self._place(self.global_step, index % self.share))
        loss, parts = self.loss(batch)
        for part, value in ({"loss": loss.detach()} | parts).items():
            self._sums[part] = self._sums.get(part, torch.zeros_like(value)) + value
        self.progress(self.name, self.global_step, self.steps)
        return loss

    def on_train_epoch_end(self) -> None:
        """Append to the history: mean losses, and what is measured on held-out questions."""
        count = min(CHECKPOINT_STEPS, self.steps - self.current_epoch * CHECKPOINT_STEPS)
        row: Row = {"stage": self.name, "step": self.global_step, "steps": self.steps}
        means = {name: value / (count * self.share) for name, value in self._sums.items()}
        reduced = {name: self.trainer.strategy.reduce(value) for name, value in means.items()}
        row |= {name: round(float(value), 4) for name, value in reduced.items()}
        if self.evaluate is not None and self.processes.is_main:
            row |= self.evaluate()
            self.module.train()
        self.history.append(row)
        self._sums = {}

    def configure_optimizers(self) -> Any:
        """AdamW with a linear warm-up and a linear decay to 0."""
        encoder = getattr(self.module, "encoder", None)
        of_encoder = set() if encoder is None else {id(weight) for weight in encoder.parameters()}
        slow = [weight for weight in self.module.parameters() if id(weight) in of_encoder]
        fast = [weight for weight in self.module.parameters() if id(weight) not in of_encoder]
        groups = [{"params": slow, "lr": self.lr}, {"params": fast, "lr": self.lr * self.heads}]
        groups = [group for group in groups if group["params"]]
        # Not fused: Lightning does not clip the gradients of a fused optimizer.
        optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
        steps, warm = self.steps, max(1, self.steps // 20)

        def factor(step: int) -> float:
            return min((step + 1) / warm, max(0.0, (steps - step) / max(1, steps - warm)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the history with the weights."""
        checkpoint["history"] = self.history

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Continue the history, wherever the folder is now."""
        relocate_checkpoint(checkpoint, Path(self.trainer.default_root_dir))
        self.history = list(checkpoint["history"])


def fit_stage(stage: Stage, run: Path) -> list[Row]:
    """Fit a stage and return its history; a checkpoint of it in the run's folder is continued."""
    on_gpu = torch.cuda.is_available()
    last = run / f"{stage.name}.ckpt"
    if last.is_file():
        load_checkpoint(last)  # a damaged one is refused in one line
    trainer = pl.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=stage.processes.local_count,
        num_nodes=stage.processes.nodes,
        # Some stages train only a part of their network.
        strategy="ddp_find_unused_parameters_true" if stage.processes.count > 1 else "auto",
        accumulate_grad_batches=stage.share,
        max_epochs=math.ceil(stage.steps / CHECKPOINT_STEPS),
        precision="bf16-mixed" if on_gpu else "32-true",
        gradient_clip_val=1.0,
        callbacks=[
            ModelCheckpoint(run, stage.name, every_n_epochs=1, save_top_k=1, enable_version_counter=False)
        ],
        default_root_dir=run,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        reload_dataloaders_every_n_epochs=1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=not on_gpu,
    )
    trainer.fit(stage, ckpt_path=str(last) if last.is_file() else None, weights_only=True)
    return stage.history


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


def make_loader(batches: Dataset[Batch], workers: int) -> DataLoader[Batch]:
    """Batches in order, prepared by worker processes if there are any."""
    return DataLoader(
        batches,
        batch_size=None,
        shuffle=False,
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
        prefetch_factor=8 if workers else None,
    )


def save_weights(file: Path, module: nn.Module) -> None:
    """Write a network's weights in float16."""
    weights = {name: value.half().cpu().contiguous() for name, value in module.state_dict().items()}
    with atomic_file(file) as partial:
        safetensors.torch.save_file(weights, partial)


def load_weights(file: Path, module: nn.Module) -> None:
    """Read a network's weights."""
    try:
        weights = safetensors.torch.load_file(file)
        module.load_state_dict({name: value.float() for name, value in weights.items()})
    except (OSError, SafetensorError, RuntimeError) as fault:
        reason = str(fault).splitlines()[0]
        raise FormatError(f"{file} does not have the weights of this network: {reason}") from fault
