"""One stage of a run: a network that is fitted step by step, checkpointed, and continued where it stopped.

One process takes the steps, or several that torchrun started; the main one writes for all.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, distributed, nn
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
# The others wait while the main process labels or evaluates, which takes hours on large data.
_LONGEST_WAIT = timedelta(days=7)
# A row of a run's history.
Row = dict[str, float | str]


@dataclass(frozen=True)
class Processes:
    """A process among all: its rank, their number, and its rank on its machine."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @classmethod
    def started(cls) -> "Processes":
        """As the variables of torchrun say."""
        if not distributed.is_torchelastic_launched():
            return cls()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        return cls(*(int(os.environ[name]) for name in names))

    @property
    def is_main(self) -> bool:
        """Whether this process writes and prints for all."""
        return self.rank == 0

    def wait(self) -> None:
        if self.count > 1:
            distributed.barrier()

    def mean(self, value: Tensor) -> Tensor:
        """The mean of a value over all processes."""
        if self.count > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value / self.count

    def average_gradients(self, weights: Sequence[Tensor]) -> None:
        """Average gradients over all processes; a weight that none of them used has none."""
        if self.count == 1:
            return
        used = torch.tensor([float(weight.grad is not None) for weight in weights], device=weights[0].device)
        distributed.all_reduce(used)
        for weight, count in zip(weights, used.tolist(), strict=True):
            if count:
                weight.grad = self.mean(torch.zeros_like(weight) if weight.grad is None else weight.grad)

    @contextmanager
    def joined(self) -> Iterator[None]:
        if self.count == 1:
            yield
            return
        if torch.cuda.is_available():
            torch.cuda.set_device(self.local_rank)
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=_LONGEST_WAIT)
        try:
            yield
        finally:
            distributed.destroy_process_group()


ALONE = Processes()


class Stage:
    """A network with its loss; AdamW, the encoder at `lr` and the other parameters at `heads` times that.

    A step has `accumulate` batches, which the processes share; their gradients are averaged. Batches and dropout are
    functions of the step, so that a run that was stopped continues as if it had not been, and that any number of
    processes takes the same steps.
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
        device: torch.device | None = None,
        processes: Processes = ALONE,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        progress: Progress = ignore_progress,
    ) -> None:
        self.name, self.module, self.loss, self.batches = name, module, loss, batches
        self.seed, self.workers, self.device = seed, workers, device or torch.device("cpu")
        self.evaluate, self.progress = evaluate, progress
        self.accumulate, self.processes = accumulate, processes
        self.share = accumulate // processes.count  # of this process, in each step
        self.count = len(batches)  # type: ignore[arg-type]  # those here have a length
        self.steps = math.ceil(self.count / accumulate)
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
                if self.processes.is_main:
                    self._save(last)
        return self.history

    def _fit_until(self, end: int) -> Row:
        """Take the steps up to the next checkpoint; returns mean losses, and what is measured on held-out questions."""
        first, sums = self.step, dict[str, Tensor]()
        # The last step is filled up with the first batches.
        places = [
            self._place(step, part) % self.count for step in range(first, end) for part in range(self.share)
        ]
        batches = iter(make_loader(Subset(self.batches, places), self.workers))
        self.module.train()
        while self.step < end:
            self.progress(self.name, self.step, self.steps)
            self.optimizer.zero_grad()
            for part in range(self.share):
                loss, parts = self._loss(next(batches), part)
                (loss / self.share).backward()  # type: ignore[no-untyped-call]
                for name, value in ({"loss": loss.detach()} | parts).items():
                    sums[name] = sums.get(name, torch.zeros_like(value)) + value
            self.update()
            self.step += 1
        means = {
            name: self.processes.mean(value / (self.share * (end - first))) for name, value in sums.items()
        }
        row: Row = {"stage": self.name, "step": self.step, "steps": self.steps}
        row |= {name: round(float(value), 4) for name, value in means.items()}
        if self.evaluate is not None and self.processes.is_main:
            row |= self.evaluate()
        return row

    def _place(self, step: int, part: int) -> int:
        """The place of a batch among the batches of all steps and processes."""
        return step * self.accumulate + self.processes.rank * self.share + part

    def _loss(self, batch: Batch, part: int) -> Loss:
        torch.manual_seed(self.seed * _SEEDS_PER_RUN + self._place(self.step, part))
        batch = {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.loss(batch)

    def update(self) -> None:
        """Change the weights by their gradients, which are averaged over all processes and clipped."""
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        self.processes.average_gradients(weights)
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
