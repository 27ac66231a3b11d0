"""Training: a Lightning module around the network, the trainer, and the run that fits it, stops early, and resumes."""

import json
import logging
import sys
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor, distributed

from attar.errors import OptionError
from attar.nn.network import Network
from attar.reader.files import save_reader
from attar.text.vocabulary import Vocabulary
from attar.training.batches import Batch
from attar.training.data import TrainingData, load_initial
from attar.training.options import TrainingOptions, check_fixed, fixed_options, network_options
from attar.training.processes import Processes
from attar.training.run_folder import (
    BEST,
    HISTORY,
    LAST,
    RUN,
    check_resumable,
    load_checkpoint,
    lock_folder,
    refuse_overwriting,
    relocate_checkpoint,
)

# Warnings about what is intended here, or about a torch that is newer than Lightning.
_KNOWN_WARNINGS = (
    r"Checkpoint directory .* exists and is not empty",
    r"Your `IterableDataset` has `__len__` defined",
    r"You have overridden `transfer_batch_to_device`",
    r"The number of training batches .* is smaller than the logging interval",
    r"It is recommended to use `self.log\(.*, sync_dist=True\)`",  # logged values are reduced already
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)


class Training(pl.LightningModule):
    """A network with its loss and optimizer: Adam with a short linear warm-up, then a cosine schedule down to 0.

    `fingerprints` identify the data; a run is not resumed with other data. `documents` is the number per epoch.
    """

    def __init__(
        self,
        network: Network,
        options: TrainingOptions,
        fingerprints: Mapping[str, str] | None = None,
        documents: int = 0,
    ) -> None:
        super().__init__()
        self.network, self.options, self.fingerprints = network, options, dict(fingerprints or {})
        self.history: list[dict[str, float]] = []
        self._sums: dict[str, Tensor] = {}
        self._documents, self._began, self._seconds = documents, 0.0, 0.0

    def on_train_epoch_start(self) -> None:
        """Seed dropout per epoch, so that a resumed run continues as if it had not stopped."""
        torch.manual_seed(self.options.seed * 1_000_003 + self.current_epoch)
        self._sums = {}
        self._began = time.perf_counter()

    def on_validation_start(self) -> None:
        """Measure the time of the epoch: with data loading, without validation."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._seconds = time.perf_counter() - self._began

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, index: int) -> Batch:
        """Move what the GPU needs, and leave on the CPU what is read there."""
        return batch.to(device)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The mean loss over the questions of the whole batch: this process's part of it."""
        losses, answerable, _ = self.losses(batch)
        self._add("loss", losses.detach(), answerable)
        loss = losses.sum() / answerable.sum().clamp(min=1)
        if self.trainer.world_size == 1:
            return loss
        # Gradients are averaged over processes, so each loss is weighted by its share of the questions. A process
        # without documents or questions uses no encoder, and the others would wait for its gradients.
        unused = sum(each.flatten()[0] for each in self.parameters() if each.requires_grad)
        return loss * (batch.share * self.trainer.world_size) + 0.0 * unused

    def validation_step(self, batch: Batch, index: int) -> None:
        """Count correct answers."""
        losses, answerable, right = self.losses(batch)
        self._add("validation_loss", losses, answerable)
        self._add("validation_accuracy", right, torch.ones_like(right))

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Per question [Q]: its loss, whether its answer is a candidate, and whether it is the best candidate.

        A question whose answer is not a candidate has no loss.
        """
        scores = self.network(batch.documents, batch.questions).float()
        own = scores.gather(1, batch.answers[:, None])[:, 0]
        right = (scores.argmax(1) == batch.answers) & own.isfinite()
        answerable = ~own.isneginf()
        scores = scores.masked_fill(~answerable[:, None], 0.0)
        losses = torch.nn.functional.cross_entropy(scores, batch.answers, reduction="none")
        return losses * answerable, answerable, right

    def _add(self, name: str, values: Tensor, counted: Tensor) -> None:
        """Add to a running sum and count on the device, without waiting for the GPU."""
        both = torch.stack([values.sum().double(), counted.sum().double()])
        self._sums[name] = self._sums[name] + both if name in self._sums else both

    def on_validation_epoch_end(self) -> None:
        """Average over all processes, and append the epoch to the history."""
        row: dict[str, float] = {"epoch": self.current_epoch + 1}
        for name, both in self._sums.items():
            total, count = self.trainer.strategy.reduce(both, reduce_op="sum").tolist()
            row[name] = total / max(count, 1)
            self.log(name, row[name], prog_bar=True, sync_dist=False)
        self._sums = {}
        if self._began:
            row["documents_a_second"] = self._documents / self._seconds
        self.history.append(row)

    def configure_optimizers(self) -> Any:
        """Adam with linear warm-up and a cosine schedule over the whole run."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adam(trained, self.options.lr, fused=self.device.type == "cuda")
        steps = int(self.trainer.estimated_stepping_batches)
        warmup = max(1, round(self.options.warmup * steps))
        schedule = torch.optim.lr_scheduler.SequentialLR(
            optimizer,
            [
                torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, 1.0, warmup),
                torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps - warmup)),
            ],
            [warmup],
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the history, the options and the data's fingerprints with the weights."""
        checkpoint["history"] = self.history
        checkpoint["options"] = json.dumps(self.options.to_json())
        checkpoint["texts"] = self.fingerprints

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Continue the history, wherever the run's folder is now."""
        relocate_checkpoint(checkpoint, self.options.folder / RUN)
        self.history = list(checkpoint["history"])


def train(
    options: TrainingOptions,
    *,
    data: TrainingData | None = None,
    resume: bool = False,
    replace: bool = False,
    quiet: bool = False,
) -> Path:
    """Train a reader and write its folder; checkpoints, logs and history are in its subfolder `run`.

    A folder with a reader or a run is refused unless `resume` continues it or `replace` starts again. `data` is
    opened here unless it is given. Of several processes the main one writes, and the others wait.
    """
    if torch.cuda.is_available():
        torch.set_num_threads(1)  # the CPU only launches kernels, and parallel runs share its cores
    run = options.folder / RUN
    data = data or TrainingData(options)
    # Of several processes the main one locks the folder.
    with without_known_warnings(), lock_folder(run) if is_main_process() else nullcontext():
        if is_main_process():
            refuse_overwriting(options.folder, resume=resume, replace=replace)
        pl.seed_everything(options.seed, workers=True, verbose=False)
        network = initial_network(options, data.vocabulary)
        module = Training(network, options, data.fingerprints, len(data.training))
        trainer = make_trainer(options, run, _callbacks(options), quiet=quiet)
        last = run / LAST
        resumed = resume and last.is_file()
        stopped = check_resumable(last, options, data.fingerprints, module.state_dict()) if resumed else None
        if stopped is not None:
            module.history = stopped
        else:
            trainer.fit(module, data, ckpt_path=str(last) if resumed else None, weights_only=True)
        if trainer.is_global_zero:
            best = run / BEST
            module.load_state_dict(load_checkpoint(best if best.is_file() else last)["state_dict"])
            about: dict[str, Any] = {"training": options.described(), "history": module.history}
            if options.init_from:
                about["before"] = load_initial(options.init_from).about
            save_reader(options.folder, network, data.vocabulary, about)
            (run / HISTORY).write_text(json.dumps(module.history, indent=1) + "\n", encoding="utf-8")
        trainer.strategy.barrier("written")
    return options.folder


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
    on_gpu = torch.cuda.is_available()
    processes = _processes(options.devices, torch.cuda.device_count() if on_gpu else None)
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    # In a pipe or a log a progress bar would be noise.
    shown = not quiet and sys.stderr.isatty()
    bar: list[Callback] = [RichProgressBar(console_kwargs={"stderr": True})] if shown else []
    return pl.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=processes.local_count,
        num_nodes=processes.nodes,
        strategy="ddp" if processes.count > 1 else "auto",
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


def _processes(devices: int, gpus: int | None) -> Processes:
    """The processes of a run: those that torchrun has started, on any number of machines, or `devices` of this one.

    More of them than a machine has GPUs are refused, as is a number other than torchrun's.

    >>> _processes(2, gpus=1)
    Traceback (most recent call last):
    attar.errors.OptionError: devices: expected at most 1, one per GPU, got 2
    """
    started = Processes.started()
    if not distributed.is_torchelastic_launched():
        if gpus is not None and devices > gpus:
            raise OptionError.expected("devices", f"at most {gpus}, one per GPU", str(devices))
        return Processes(count=devices, local_count=devices)
    if gpus is not None and started.local_count > gpus:
        raise OptionError.expected(
            "--nproc-per-node", f"at most {gpus}, one per GPU", str(started.local_count)
        )
    if devices not in (1, started.count):
        expected = f"{started.count}, as started by torchrun"
        raise OptionError.expected("devices", expected, str(devices), "omit --devices")
    return started


def is_main_process() -> bool:
    """Whether this process writes and prints for all processes of a run."""
    return int(rank_zero_only.rank) == 0  # type: ignore[attr-defined]  # set on the function itself


def _callbacks(options: TrainingOptions) -> list[Callback]:
    run = options.folder / RUN
    best = ModelCheckpoint(
        run, "best", "validation_accuracy", mode="max", save_weights_only=True, enable_version_counter=False
    )
    # After every epoch, or eight times in a long run: a killed run repeats the rest exactly.
    every = max(1, options.epochs // 8)
    last = ModelCheckpoint(run, "last", every_n_epochs=every, save_top_k=1, enable_version_counter=False)
    callbacks: list[Callback] = [best, last]
    if options.patience:
        callbacks.append(EarlyStopping("validation_accuracy", patience=options.patience, mode="max"))
    return callbacks


def initial_network(options: TrainingOptions, vocabulary: Vocabulary) -> Network:
    """The network at the start of a run: new, or with the weights of the reader that is fine-tuned."""
    wanted = network_options(options, vocabulary)
    if not options.init_from:
        network = Network(wanted)
        if options.shared_init:
            network.question_encoder.load_state_dict(network.document_encoder.state_dict())
        return network
    saved = load_initial(options.init_from)
    check_fixed(fixed_options(wanted), fixed_options(saved.network.options), options.init_from)
    network, weights = Network(wanted), saved.network.state_dict()
    network.load_state_dict(weights, strict=set(weights) == set(network.state_dict()))
    known = {name for name, _ in saved.network.named_parameters()}
    for name, parameter in network.named_parameters():
        # Frozen parameters have no gradient, so that nothing is propagated back through the GRUs.
        parameter.requires_grad_(not (options.freeze and name in known))
    return network


def fine_tuning_options(given: Mapping[str, Any], explicit: Collection[str]) -> TrainingOptions:
    """Options of a fine-tuning run: those that the reader fixes are its own, and explicit ones must agree."""
    reader = str(given["init_from"])
    fixed = fixed_options(load_initial(reader).network.options)
    # Checked before options are checked against each other: the reader's and these may fit no network.
    check_fixed({name: given[name] for name in explicit if given[name] != ""}, fixed, reader)
    own = {name: value for name, value in fixed.items() if name not in explicit}
    return TrainingOptions(**{**given, **own})
