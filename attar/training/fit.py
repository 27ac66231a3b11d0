"""Training: a Lightning module around the network, and the run that fits it, stops early, and resumes."""

import json
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch import Tensor

from attar.nn import Network
from attar.reader import save_reader
from attar.training.batches import Batch
from attar.training.folders import alone_in, need_writable
from attar.training.options import TrainingOptions
from attar.training.resuming import load_checkpoint, move_here, take_up
from attar.training.sets import Sets
from attar.training.start import first_network, load_start
from attar.training.trainer import leads, trainer_for, without_remarks

RUN, HISTORY = "run", "history.json"
BEST, LAST = "best.ckpt", "last.ckpt"


class Training(pl.LightningModule):
    """A network, its loss, its optimiser: Adam, a short warm-up, then a cosine down to nothing.

    `texts` are the fingerprints of what it learns from, kept so that no other texts are gone on with.
    """

    def __init__(
        self, network: Network, options: TrainingOptions, texts: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.network, self.options, self.texts = network, options, dict(texts or {})
        self.history: list[dict[str, float]] = []
        self._sums: dict[str, Tensor] = {}

    def on_train_epoch_start(self) -> None:
        """Seed the dropout by epoch, so that a run taken up again goes on as it would have."""
        torch.manual_seed(self.options.seed * 1_000_003 + self.current_epoch)
        self._sums = {}

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, index: int) -> Batch:
        """Move what a GPU needs, and leave on the CPU what is read there."""
        return batch.to(device)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The mean loss over the questions of the whole batch, this process's part of it."""
        losses, answerable, _ = self.losses(batch)
        self._add("loss", losses.detach(), answerable)
        loss = losses.sum() / answerable.sum().clamp(min=1)
        if self.trainer.world_size == 1:
            return loss
        # Gradients are averaged over processes; each one's part counts by its share of the questions. A process
        # left without documents or questions uses no encoder, and others would wait for its gradients.
        unused = sum(each.flatten()[0] for each in self.parameters() if each.requires_grad)
        return loss * (batch.share * self.trainer.world_size) + 0.0 * unused

    def validation_step(self, batch: Batch, index: int) -> None:
        """Count right answers."""
        losses, answerable, right = self.losses(batch)
        self._add("validation_loss", losses, answerable)
        self._add("validation_accuracy", right, torch.ones_like(right))

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Each question's loss, whether its answer is a candidate at all, and whether it is the best one.

        A question whose answer is no candidate has no loss, and nothing is learnt from it.
        """
        scores = self.network(batch.documents, batch.questions).float()
        own = scores.gather(1, batch.answers[:, None])[:, 0]
        right = (scores.argmax(1) == batch.answers) & own.isfinite()
        answerable = ~own.isneginf()
        scores = scores.masked_fill(~answerable[:, None], 0.0)
        losses = torch.nn.functional.cross_entropy(scores, batch.answers, reduction="none")
        return losses * answerable, answerable, right

    def _add(self, name: str, values: Tensor, counted: Tensor) -> None:
        """Keep a sum and over how many, both where they were computed: a GPU is not waited for."""
        both = torch.stack([values.sum().double(), counted.sum().double()])
        self._sums[name] = self._sums[name] + both if name in self._sums else both

    def on_validation_epoch_end(self) -> None:
        """Average over all processes, and note the epoch."""
        row: dict[str, float] = {"epoch": self.current_epoch + 1}
        for name, both in self._sums.items():
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
        """Keep the history, the options and what was learnt from beside the weights."""
        checkpoint["history"] = self.history
        checkpoint["options"] = json.dumps(self.options.to_json())
        checkpoint["texts"] = self.texts

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the history up again, wherever the run's folder is now."""
        move_here(checkpoint, self.options.folder / RUN)
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
    need_writable(options.folder)
    sets = sets or Sets(options)
    # Of processes that share a run one locks its folder for all.
    with without_remarks(), alone_in(run) if leads() else nullcontext():
        pl.seed_everything(options.seed, workers=True, verbose=False)
        network = first_network(options, sets.vocabulary)
        module = Training(network, options, sets.fingerprints)
        trainer = trainer_for(options, run, callbacks_for(options, len(sets.training)), quiet=quiet)
        kept = run / LAST
        resumed = resume and kept.is_file()
        earlier = take_up(kept, options, sets.fingerprints, module.state_dict()) if resumed else None
        if earlier is not None and earlier.stopped:
            module.history = earlier.history
        else:
            trainer.fit(module, sets, ckpt_path=str(kept) if resumed else None, weights_only=True)
        if trainer.is_global_zero:
            best = run / BEST
            module.load_state_dict(load_checkpoint(best if best.is_file() else kept)["state_dict"])
            about: dict[str, Any] = {"training": options.described(), "history": module.history}
            if options.start:
                about["before"] = load_start(options.start).about
            save_reader(options.folder, network, sets.vocabulary, about)
            (run / HISTORY).write_text(json.dumps(module.history, indent=1) + "\n", encoding="utf-8")
        trainer.strategy.barrier("written")
    return options.folder


def callbacks_for(options: TrainingOptions, documents: int) -> list[Callback]:
    """What watches a run: its speed, its best epoch, where to go on from, and when to stop."""
    run = options.folder / RUN
    best = ModelCheckpoint(
        run, "best", "validation_accuracy", mode="max", save_weights_only=True, enable_version_counter=False
    )
    # After every epoch, or eight times in a long run: what is lost by a kill is trained again, exactly.
    every = max(1, options.epochs // 8)
    last = ModelCheckpoint(run, "last", every_n_epochs=every, save_top_k=1, enable_version_counter=False)
    watching: list[Callback] = [Stopwatch(documents), best, last]
    if options.patience:
        watching.append(EarlyStopping("validation_accuracy", patience=options.patience, mode="max"))
    return watching
