"""Training: a Lightning module around the network, and the run that fits it, stops early, and resumes."""

import json
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch import Tensor

from attar.errors import OptionError
from attar.nn.network import Network
from attar.reader.folder import save_reader
from attar.training.batches import Batch
from attar.training.options import TrainingOptions
from attar.training.sets import Sets
from attar.training.start import first_network
from attar.training.trainer import trainer_for, without_remarks

RUN, HISTORY = "run", "history.json"


class Training(pl.LightningModule):
    """A network, its loss, its optimiser: Adam, a short warm-up, then a cosine down to nothing."""

    def __init__(self, network: Network, options: TrainingOptions) -> None:
        super().__init__()
        self.network, self.options = network, options
        self.history: list[dict[str, float]] = []
        self._sums: dict[str, tuple[Tensor, int]] = {}

    def on_train_epoch_start(self) -> None:
        """Seed the dropout by epoch, so that a run taken up again goes on as it would have."""
        torch.manual_seed(self.options.seed * 1_000_003 + self.current_epoch)
        self._sums = {}

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, index: int) -> Batch:
        """Move what a GPU needs, and leave on the CPU what is read there."""
        return batch.to(device)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The mean loss over the questions of the whole batch, this process's part of it."""
        losses = self.losses(batch)[0]
        self._add("loss", losses.detach().sum(), len(batch.answers))
        # Gradients are averaged over processes; each one's part counts by its share of the questions.
        return losses.mean() * (batch.share * self.trainer.world_size)

    def validation_step(self, batch: Batch, index: int) -> None:
        """Count right answers."""
        losses, right = self.losses(batch)
        self._add("validation_loss", losses.sum(), len(batch.answers))
        self._add("validation_accuracy", right.sum(), len(batch.answers))

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Each question's loss, and whether the best candidate is its answer."""
        scores = self.network(batch.documents, batch.questions).float()
        losses = torch.nn.functional.cross_entropy(scores, batch.answers, reduction="none")
        return losses, scores.argmax(1) == batch.answers

    def _add(self, name: str, total: Tensor, count: int) -> None:
        before, counted = self._sums.get(name, (0.0, 0))
        self._sums[name] = (before + total.double(), counted + count)

    def on_validation_epoch_end(self) -> None:
        """Average over all processes, and note the epoch."""
        row: dict[str, float] = {"epoch": self.current_epoch + 1}
        for name, (sums, counted) in self._sums.items():
            both = torch.stack([sums, sums.new_tensor(counted)])
            total, count = self.trainer.strategy.reduce(both, reduce_op="sum").tolist()
            row[name] = total / max(count, 1)
        self._sums = {}
        if not self.trainer.sanity_checking:
            self.history.append(row)
            for name in ("loss", "validation_loss", "validation_accuracy"):
                if name in row:
                    self.log(name, row[name], prog_bar=True, sync_dist=False)

    def configure_optimizers(self) -> Any:
        """Adam, warmed up and then cooled by a cosine over the whole run."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        optimiser = torch.optim.Adam(trained, self.options.rate, fused=self.device.type == "cuda")
        steps = int(self.trainer.estimated_stepping_batches)
        warm = max(1, round(self.options.warmup * steps))
        schedule = torch.optim.lr_scheduler.SequentialLR(
            optimiser,
            [
                torch.optim.lr_scheduler.LinearLR(optimiser, 0.05, 1.0, warm),
                torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, steps - warm)),
            ],
            [warm],
        )
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the history and the options beside the weights."""
        checkpoint["history"] = self.history
        checkpoint["options"] = json.dumps(self.options.to_json())

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the history up again; a run of other options cannot go on."""
        if "options" in checkpoint:
            check_resumed(self.options, json.loads(checkpoint["options"]))
        self.history = list(checkpoint["history"])


class Stopwatch(Callback):
    """Documents a second of every epoch, data loading included, validation not."""

    def __init__(self, documents: int) -> None:
        self.documents, self.began, self.seconds = documents, 0.0, 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start."""
        self.began = time.perf_counter()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop, before validation takes its time."""
        if not trainer.sanity_checking and self.began:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.seconds = time.perf_counter() - self.began

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note it in the history."""
        if not trainer.sanity_checking and isinstance(pl_module, Training) and self.seconds:
            pl_module.history[-1]["documents_a_second"] = self.documents / self.seconds


def train(
    options: TrainingOptions, *, sets: Sets | None = None, resume: bool = False, quiet: bool = False
) -> Path:
    """Train a reader and write its folder; the run's checkpoints, log and history lie under `run` in it.

    `sets` are opened here unless they are given. Of processes that share a run the first one writes, and the
    others wait for it.
    """
    if torch.cuda.is_available():
        torch.set_num_threads(1)  # the CPU only launches kernels, and runs side by side share its cores
    run = options.folder / RUN
    sets = sets or Sets(options)
    with without_remarks():
        pl.seed_everything(options.seed, workers=True, verbose=False)
        network = first_network(options, sets.vocabulary)
        module = Training(network, options)
        best = ModelCheckpoint(
            run,
            "best",
            "validation_accuracy",
            mode="max",
            save_weights_only=True,
            enable_version_counter=False,
        )
        # After every epoch, or eight times in a long run: what is lost by a kill is trained again, exactly.
        every = max(1, options.epochs // 8)
        last = ModelCheckpoint(run, "last", every_n_epochs=every, save_top_k=1, enable_version_counter=False)
        callbacks: list[Callback] = [Stopwatch(len(sets.training)), best, last]
        if options.patience:
            callbacks.append(EarlyStopping("validation_accuracy", patience=options.patience, mode="max"))
        trainer = trainer_for(options, run, callbacks, quiet=quiet)
        kept = run / "last.ckpt"
        from_here = str(kept) if resume and kept.is_file() else None
        trainer.fit(module, sets, ckpt_path=from_here, weights_only=True)
        if trainer.is_global_zero:
            chosen = torch.load(best.best_model_path or kept, map_location="cpu", weights_only=True)
            module.load_state_dict(chosen["state_dict"])
            about = {"training": options.described(), "history": module.history}
            save_reader(options.folder, network, sets.vocabulary, about)
            (run / HISTORY).write_text(json.dumps(module.history, indent=1) + "\n", encoding="utf-8")
        trainer.strategy.barrier("written")
    return options.folder


def check_resumed(options: TrainingOptions, earlier: dict[str, Any]) -> None:
    """Refuse to go on with other options than a run was begun with."""
    changed = options.changes(earlier)
    if changed:
        raise OptionError(
            f"{options.folder}: options to resume with",
            ", ".join(f"{name} {then!r}" for name, (then, _) in changed.items()),
            ", ".join(repr(now) for _, now in changed.values()),
            "give the same, or train anew without --resume",
        )
