"""The processes of a run: one, or those that torchrun started, of which the main one writes for all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

from attar.errors import OptionError

# The others wait while the main process labels, generates or evaluates, which takes hours on large data.
_LONGEST_WAIT = timedelta(days=7)


@dataclass(frozen=True)
class Processes:
    """A process among all: its rank, their number, and both on its machine."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    local_count: int = 1

    @classmethod
    def started(cls) -> "Processes":
        """As the variables of torchrun say."""
        if not distributed.is_torchelastic_launched():
            return cls()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls(*(int(os.environ[name]) for name in names))

    @property
    def nodes(self) -> int:
        """The number of machines, each with as many processes.

        >>> Processes(rank=3, count=4, local_rank=1, local_count=2).nodes
        2
        """
        if self.count % self.local_count:
            came = f"{self.local_count} of {self.count}"
            remedy = "start torchrun with the same --nproc-per-node on all"
            raise OptionError.expected("processes", "as many on each machine", came, remedy)
        return self.count // self.local_count

    @property
    def is_main(self) -> bool:
        """Whether this process writes and prints for all."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            distributed.barrier()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Connect the processes; Lightning uses the connection that it finds."""
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
