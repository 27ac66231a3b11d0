"""One stage of a run: a network that is fitted step by step, checkpointed, and continued where it stopped."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from attar.errors import FormatError
from attar.files import atomic_file
from attar.progress import Progress, ignore_progress
from attar.training.batches import Batch
from attar.training.teacher import Loss

# Steps between checkpoints, and between lines of the log.
CHECKPOINT_STEPS = 400
# No two runs have the same seeds of steps.
_SEEDS_PER_RUN = 1_000_003
# A row of a run's history.
Row = dict[str, float | str]


class Stage:
    """A network with its loss; AdamW, the encoder at `lr` and the other parameters at `heads` times that.

    A step has one batch. Batches and dropout are functions of the step, so that a run that was stopped continues as if
    it had not been.
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
        device: torch.device | None = None,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        progress: Progress = ignore_progress,
    ) -> None:
        self.name, self.module, self.loss, self.batches = name, module, loss, batches
        self.seed, self.workers, self.device = seed, workers, device or torch.device("cpu")
        self.evaluate, self.progress = evaluate, progress
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
        """Take the steps up to the next checkpoint; returns mean losses, and what is measured on held-out questions."""
        first, sums = self.step, dict[str, Tensor]()
        self.module.train()
        for batch in make_loader(Subset(self.batches, range(first, end)), self.workers):
            self.progress(self.name, self.step, self.steps)
            self.optimizer.zero_grad()
            loss, parts = self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            for name, value in ({"loss": loss.detach()} | parts).items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value
            self._update()
            self.step += 1
        row: Row = {"stage": self.name, "step": self.step, "steps": self.steps}
        row |= {name: round(float(value / (end - first)), 4) for name, value in sums.items()}
        if self.evaluate is not None:
            row |= self.evaluate()
        return row

    def _loss(self, batch: Batch) -> Loss:
        torch.manual_seed(self.seed * _SEEDS_PER_RUN + self.step)
        batch = {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.loss(batch)

    def _update(self) -> None:
        """Change the weights by their gradients, which are clipped."""
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
