"""A run on questions: its folder, with what it was begun with, its finished stages and their history; and a stage.

A stage is a network that is fitted step by step, checkpointed, and continued where it stopped.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from attar.errors import FormatError, OptionError
from attar.files import atomic_file
from attar.progress import Progress
from attar.training.batches import Array, Batch, Loss, half_precision
from attar.training.data import RunOptions

# The folder of a run, in its reader's folder, and its files.
RUN = "run"
BEGUN = "run.json"
HISTORY = "history.json"
# The config is the last file of a reader that is written.
_READER = "config.json"
_LOCK = "lock"
# Processes that prepare batches for a GPU.
_WORKERS = 8
Say = Callable[[str], None]
# The options of a run, and a hash of each of its files.
Begun = dict[str, dict[str, Any]]
# Steps between checkpoints, and between lines of the log.
CHECKPOINT_STEPS = 400
# No two runs have the same seeds of steps.
_SEEDS_PER_RUN = 1_000_003
# A row of a run's history.
Row = dict[str, float | str]


def silent(line: str) -> None:
    """Ignore the lines that a run says of its stages."""


class QuestionRun:
    """A run's options and folder. Each stage's result is a file in it; a stage whose file is there is skipped."""

    def __init__(self, options: RunOptions, progress: Progress, say: Say) -> None:
        self.options, self.progress, self.say = options, progress, say
        self.folder = options.folder / RUN
        on_gpu = torch.cuda.is_available()
        if on_gpu:
            # Lengths change from step to step, which cuDNN's attention is slow at.
            torch.backends.cuda.enable_cudnn_sdp(False)
            torch.set_float32_matmul_precision("high")
        self.device = torch.device("cuda" if on_gpu else "cpu")
        self.workers = _WORKERS if on_gpu else 0
        self.history: list[Row] = []

    def begin(self, *, resume: bool, replace: bool) -> None:
        """Refuse a folder in use unless it is resumed or replaced, and a run that was begun with anything else."""
        file, reader = self.folder / BEGUN, self.options.folder / _READER
        begun: Begun = {"options": self.options.described(), "files": self._fingerprints()}
        begun = json.loads(json.dumps(begun))
        used = file.is_file() or reader.exists()
        if used and not resume and not replace:
            what = "a reader" if reader.exists() else "an unfinished run"
            remedy = "add --resume or --replace, or choose another --out"
            raise OptionError(f"{self.options.folder} has {what} already", remedy)
        if resume and file.is_file():
            self._check_same(json.loads(file.read_text(encoding="utf-8")), begun)
            history = self.folder / HISTORY
            self.history = json.loads(history.read_text(encoding="utf-8")) if history.is_file() else []
            return
        reader.unlink(missing_ok=True)
        for entry in self.folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != _LOCK:
                entry.unlink()
        self._write(file, json.dumps(begun, indent=1) + "\n")

    def _fingerprints(self) -> dict[str, str]:
        digests = {}
        for path in self.options.files:
            try:
                with open(path, "rb") as file:
                    digests[Path(path).name] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as fault:
                reason = fault.strerror or str(fault)
                raise FormatError(f"{path} cannot be read: {reason}", "check the path") from fault
        return digests

    def _check_same(self, then: Begun, now: Begun) -> None:
        """Refuse to continue a run with other options or other files."""
        folder, remedy = self.options.folder, "give the same, or start again with --replace"
        for name, value in now["options"].items():
            before = then["options"].get(name)
            if value != before:
                raise OptionError.expected(
                    f"{folder}: options to resume with", f"{name} {before!r}", repr(value), remedy
                )
        for name, digest in now["files"].items():
            if digest != then["files"].get(name):
                raise OptionError(f"{folder}: {name} is another file than in the earlier run", remedy)

    def fit(
        self,
        name: str,
        module: nn.Module,
        loss: Callable[[Batch], Loss],
        batches: Callable[[], Dataset[Batch]],
        *,
        lr: float,
        heads: float = 5.0,
    ) -> None:
        """Train a network, unless its file is there; afterwards it has the weights of the file, and is on the GPU."""
        file, last = self.folder / f"{name}.safetensors", self.folder / f"{name}.ckpt"
        if not file.is_file():
            network = module.to(self.device)
            stage = Stage(self, name, network, loss, batches(), lr=lr, heads=heads)
            self.say(f"{name}: {stage.steps:,} steps" + (", continued" if last.is_file() else ""))
            rows = stage.fit(last)
            for row in rows:
                self.say(" ".join(f"{key} {value}" for key, value in row.items()))
            self.history = [row for row in self.history if row["stage"] != name] + rows
            self._write(self.folder / HISTORY, json.dumps(self.history, indent=1) + "\n")
            save_weights(file, module)
        last.unlink(missing_ok=True)
        # Read back also when it was just trained: files have fewer digits, and a resumed run starts from them.
        load_weights(file, module)
        module.to(self.device)

    def arrays(self, name: str, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """Arrays that a stage makes, from its file if that is there."""
        file = self.folder / f"{name}.npz"
        if not file.is_file():
            self.say(name)
            made = make()
            with atomic_file(file) as partial, partial.open("wb") as opened:
                np.savez(opened, **made)  # type: ignore[arg-type]  # names of arrays are no options
        try:
            with np.load(file, allow_pickle=False) as loaded:
                return dict(loaded)
        except (OSError, ValueError, EOFError) as fault:
            raise FormatError(f"{file} is damaged: {fault}", "remove it and resume again") from fault

    def _write(self, file: Path, text: str) -> None:
        with atomic_file(file) as partial:
            partial.write_text(text, encoding="utf-8")


class Stage:
    """A network with its loss; AdamW, the encoder at `lr` and the other parameters at `heads` times that.

    A step has one batch. Batches and dropout are functions of the step, so that a run that was stopped continues as if
    it had not been.
    """

    def __init__(
        self,
        run: QuestionRun,
        name: str,
        module: nn.Module,
        loss: Callable[[Batch], Loss],
        batches: Dataset[Batch],
        *,
        lr: float,
        heads: float,
    ) -> None:
        self.run, self.name, self.module, self.loss, self.batches = run, name, module, loss, batches
        self.device = run.device
        self.steps = len(batches)  # type: ignore[arg-type]  # those here have a length
        self.optimizer = self._optimizer(lr, heads)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._lr_factor)
        self.step = 0
        self.history: list[Row] = []

    def _optimizer(self, lr: float, heads: float) -> torch.optim.Optimizer:
        encoder = getattr(self.module, "encoder", None)
        of_encoder = set() if encoder is None else {id(weight) for weight in encoder.parameters()}
        slow = [weight for weight in self.module.parameters() if id(weight) in of_encoder]
        fast = [weight for weight in self.module.parameters() if id(weight) not in of_encoder]
        groups = [{"params": slow, "lr": lr}, {"params": fast, "lr": lr * heads}]
        return torch.optim.AdamW([group for group in groups if group["params"]], weight_decay=0.01)

    def _lr_factor(self, step: int) -> float:
        """A linear warm-up, and a linear decay to 0."""
        warm = max(1, self.steps // 20)
        return min((step + 1) / warm, max(0.0, (self.steps - step) / max(1, self.steps - warm)))

    def fit(self, last: Path) -> list[Row]:
        """Take the steps that are left and return the history; `last` is the checkpoint."""
        if last.is_file():
            self._load(last)
        with _deterministic(self.device):
            while self.step < self.steps:
                self.history.append(self._fit_until(min(self.step + CHECKPOINT_STEPS, self.steps)))
                self._save(last)
        return self.history

    def _fit_until(self, end: int) -> Row:
        """Take the steps up to the next checkpoint; returns mean losses."""
        first, sums = self.step, dict[str, Tensor]()
        self.module.train()
        for batch in make_loader(Subset(self.batches, range(first, end)), self.run.workers):
            self.run.progress(self.name, self.step, self.steps)
            self.optimizer.zero_grad()
            loss, parts = self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            for name, value in ({"loss": loss.detach()} | parts).items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value
            self._update()
            self.step += 1
        row: Row = {"stage": self.name, "step": self.step, "steps": self.steps}
        row |= {name: round(float(value / (end - first)), 4) for name, value in sums.items()}
        return row

    def _loss(self, batch: Batch) -> Loss:
        torch.manual_seed(self.run.options.seed * _SEEDS_PER_RUN + self.step)
        batch = {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
        with half_precision(self.device):
            return self.loss(batch)

    def _update(self) -> None:
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        self.optimizer.step()
        self.schedule.step()

    def _save(self, file: Path) -> None:
        state = {
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "step": self.step,
            "history": self.history,
        }
        with atomic_file(file) as partial:
            torch.save(state, partial)

    def _load(self, file: Path) -> None:
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
            self.module.load_state_dict(state["module"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
            self.step, self.history = state["step"], state["history"]
        except Exception as fault:  # whatever zip, pickle and torch raise for a damaged file
            reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
            remedy = "remove it and resume again, or start again with --replace"
            raise FormatError(f"{file} is damaged: {reason}", remedy) from fault


@contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """On a CPU the same sums in the same order, whatever its threads do; on a GPU that would be slow."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before or device.type == "cpu")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


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
    """In float16: half the bytes, and a resumed run starts from the same numbers."""
    weights = {name: value.half().cpu().contiguous() for name, value in module.state_dict().items()}
    with atomic_file(file) as partial:
        safetensors.torch.save_file(weights, partial)


def load_weights(file: Path, module: nn.Module) -> None:
    try:
        weights = safetensors.torch.load_file(file)
        module.load_state_dict({name: value.float() for name, value in weights.items()})
    except (OSError, SafetensorError, RuntimeError) as fault:
        reason = str(fault).splitlines()[0]
        raise FormatError(f"{file} does not have the weights of this network: {reason}") from fault
