"""Rows of `python -m benchmarks.ops_gpu` for the memory bank: bandwidth, and lookups per second."""

import functools
from dataclasses import replace
from statistics import median

import torch
from torch import Tensor

from attar import ops
from attar.ops.bank import MemoryBank
from attar.paper.timing import Contender, Timer, relative_error
from benchmarks.comparison import Case, Comparison, Goal, compare, compare_with_limit

BANK_TOLERANCES = {torch.bfloat16: 1e-2, torch.int8: 5e-2}
# Different memories in the bank; documents repeat them, since bandwidth does not depend on values.
DIFFERENT = 4096
LOOKUPS_PER_SECOND = 200e6


def bank_cases(
    timer: Timer,
    documents: int,
    size: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cuda",
    copied: int = 2**31,
) -> list[Case]:
    """The bank's share of the copy bandwidth, and lookups per second; the bank is filled once for both."""
    name = str(dtype).removeprefix("torch.")
    title = f"GPU memory bank, {documents:,} documents, k = {size}, packed {name}"
    bank = functools.cache(lambda: FilledBank(documents, size, dtype, device))
    rate = f"{LOOKUPS_PER_SECOND / 1e6:.0f} M lookups/s"
    return [
        Case(
            f"{title}, bytes per second",
            "copy bandwidth",
            Goal(0.85),
            lambda: bank_vs_copy(timer, bank(), copied),
        ),
        Case(f"{title}, lookups per second", rate, Goal(1.0), lambda: bank_rate(timer, bank())),
    ]


class FilledBank:
    """A bank of real memories, and one query for each document, in random order."""

    def __init__(self, documents: int, size: int, dtype: torch.dtype, device: str) -> None:
        self.bank = MemoryBank(documents, size, dtype=dtype, device=device)
        self.memories = ops.encode(torch.randn(min(DIFFERENT, documents), 64, size, device=device) / 8)
        for first in range(0, documents, len(self.memories)):
            places = torch.arange(first, min(first + len(self.memories), documents), device=device)
            self.bank.write(places, self.memories[: len(places)])
        self.order = torch.randperm(documents, device=device)
        self.queries = torch.randn(documents, size, device=device).bfloat16()
        self.tolerance = BANK_TOLERANCES[dtype]
        # Bytes that a lookup reads and writes: packed memory, query, readout, index.
        self.lookup_bytes = self.bank.nbytes / documents + size * self.queries.element_size() + 4 * size + 8

    def contender(self, amount: float) -> Contender:
        """One run answers every query."""
        return Contender("attar.ops.MemoryBank", self.lookup, self.error, self.tolerance, amount)

    def lookup(self) -> Tensor:
        """All readouts."""
        return self.bank.lookup(self.order, self.queries)

    def error(self) -> float:
        """The relative error of a few hundred readouts against float64 products."""
        few = slice(None, None, max(1, len(self.order) // 256))
        written = self.memories[self.order[few] % len(self.memories)].double()
        return relative_error(
            self.lookup()[few], torch.einsum("qij,qj->qi", written, self.queries[few].double())
        )


def bank_vs_copy(timer: Timer, filled: FilledBank, copied: int) -> Comparison:
    """Bytes per second, compared with a plain copy of a large tensor in the same run."""
    source = torch.zeros(copied, dtype=torch.int8, device=filled.order.device)
    target = torch.empty_like(source)
    copy = Contender("copy bandwidth", lambda: target.copy_(source), amount=2.0 * copied)
    result = compare(filled.contender(filled.lookup_bytes * len(filled.order)), [copy], timer)
    costs = (result.ours, result.theirs or [])
    ours, theirs = (n / median(cost) / 1e12 for n, cost in zip(result.amounts, costs, strict=True))
    return replace(result, note=f"{ours:.2f} TB/s compared with {theirs:.2f} TB/s")


def bank_rate(timer: Timer, filled: FilledBank) -> Comparison:
    """Lookups per second, compared with a fixed rate."""
    result = compare_with_limit(filled.contender(float(len(filled.order))), 1 / LOOKUPS_PER_SECOND, timer)
    return replace(result, note=f"{1 / median(result.ours) / 1e6:.0f} M lookups/s")
