"""The processes of a run: one, or those that torchrun started, of which the main one writes for all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed

# The others wait while the main process labels or evaluates, which takes hours on large data.
_LONGEST_WAIT = timedelta(days=7)


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
