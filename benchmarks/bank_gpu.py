"""Rows of `python -m benchmarks.ops_gpu` for the memory bank: bandwidth, and lookups per second."""

import functools
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from attar import ops
from attar.ops.bank import MemoryBank
from benchmarks.comparison import Case, Comparison, Goal, compare, compare_with_limit
from benchmarks.timing import Contender, Timer, relative_error

# How far readouts may be off, as a share of their norm.
TOLERANCES = {torch.bfloat16: 1e-2, torch.int8: 5e-2}
# Different memories in the bank; documents repeat them, since bandwidth does not depend on values.
DIFFERENT = 4096


class BankKind(NamedTuple):
    """A bank to measure: its memories, and the rate to reach, in lookups per second."""

    what: str
    size: int
    values: int | None
    dtype: torch.dtype
    rate: float


BANKS = (
    BankKind("k = 128, symmetric, bfloat16", 128, None, torch.bfloat16, 200e6),
    BankKind("k = 128, symmetric, int8", 128, None, torch.int8, 330e6),
    BankKind("k = d = 64, prepared ridge, bfloat16", 64, 64, torch.bfloat16, 100e6),
    BankKind("k = d = 64, prepared ridge, int8", 64, 64, torch.int8, 100e6),
)


def bank_cases(timer: Timer, documents: int, *, copied: int = 2**31) -> list[Case]:
    """Each bank's share of the copy bandwidth, and lookups per second; a bank is filled once for both."""
    cases = []
    for kind in BANKS:
        title = f"GPU memory bank, {documents:,} documents, {kind.what}"
        bank = functools.cache(functools.partial(FilledBank, documents, kind, "cuda"))
        cases += [
            Case(
                f"{title}, bytes per second",
                "copy bandwidth",
                Goal(0.85),
                functools.partial(bank_vs_copy, timer, bank, copied),
            ),
            Case(
                f"{title}, lookups per second",
                f"{kind.rate / 1e6:.0f} M lookups/s",
                Goal(1.0),
                functools.partial(bank_rate, timer, bank, kind.rate),
            ),
        ]
    return cases


class FilledBank:
    """A bank of real memories, and one query for each document, in random order."""

    def __init__(self, documents: int, kind: BankKind, device: str) -> None:
        size = kind.size
        self.bank = MemoryBank(documents, size, values=kind.values, dtype=kind.dtype, device=device)
        hidden = torch.randn(min(DIFFERENT, documents), 256 if kind.values else 64, size, device=device) / 8
        if kind.values is None:
            self.memories = ops.encode(hidden)
        else:
            values = torch.randn(*hidden.shape[:2], kind.values, device=device)
            self.memories = ops.ridge_solution(hidden.mT @ torch.cat([values, hidden], 2))
        for first in range(0, documents, len(self.memories)):
            places = torch.arange(first, min(first + len(self.memories), documents), device=device)
            self.bank.write(places, self.memories[: len(places)])
        self.order = torch.randperm(documents, device=device)
        self.queries = torch.randn(documents, size, device=device).bfloat16()
        self.tolerance = TOLERANCES[kind.dtype]
        # Bytes that a lookup reads and writes: memory, query, readout, index.
        readout = 4 * (kind.values or size)
        self.lookup_bytes = self.bank.nbytes / documents + size * self.queries.element_size() + readout + 8

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
            self.lookup()[few], torch.einsum("qij,qi->qj", written, self.queries[few].double())
        )


def bank_vs_copy(timer: Timer, made: Callable[[], FilledBank], copied: int) -> Comparison:
    """Bytes per second, compared with a plain copy of a large tensor in the same run."""
    filled = made()
    source = torch.zeros(copied, dtype=torch.int8, device=filled.order.device)
    target = torch.empty_like(source)
    copy = Contender("copy bandwidth", lambda: target.copy_(source), amount=2.0 * copied)
    result = compare(filled.contender(filled.lookup_bytes * len(filled.order)), [copy], timer)
    costs = (result.ours, result.theirs or [])
    ours, theirs = (n / median(cost) / 1e12 for n, cost in zip(result.amounts, costs, strict=True))
    return replace(result, note=f"{ours:.2f} TB/s compared with {theirs:.2f} TB/s")


def bank_rate(timer: Timer, made: Callable[[], FilledBank], rate: float) -> Comparison:
    """Lookups per second, compared with a fixed rate."""
    filled = made()
    result = compare_with_limit(filled.contender(float(len(filled.order))), 1 / rate, timer)
    return replace(result, note=f"{1 / median(result.ours) / 1e6:.0f} M lookups/s")
