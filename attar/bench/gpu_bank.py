"""GPU rows of the memory bank: random documents out of millions, one query each, at the speed of memory."""

import functools
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from attar import ops
from attar.bench.case import Case, Clock, Contender, Goal, Measurement, check, duel, ratio_of
from attar.bench.referee import distance
from attar.ops import MemoryBank

# Documents differ by their place; what they hold repeats, since the bus does not read what it carries.
FILLING = 4096
TOLERANCES = {torch.bfloat16: 1e-2, torch.int8: 5e-2}


def bank_cases(
    clock: Clock,
    documents: int,
    size: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cuda",
    copied: int = 2**31,
) -> list[Case]:
    """Share of the copy bandwidth, and lookups a second; the bank is filled once for both."""
    name = str(dtype).removeprefix("torch.")
    title = f"GPU memory bank, {documents:,} documents, k = {size}, packed {name}"
    share, rate = Goal(0.85), Goal(1.0)
    filled = functools.cache(lambda: fill(documents, size, dtype, device))
    return [
        Case(
            f"{title}, bytes a second",
            "copy bandwidth",
            share,
            lambda: beside_copy(share, clock, filled(), copied),
        ),
        Case(
            f"{title}, lookups a second",
            "200 M lookups/s",
            rate,
            lambda: beside_number(rate, clock, filled(), 200e6),
        ),
    ]


@dataclass(frozen=True)
class FilledBank:
    """A bank, the memories that it was filled with in turns, and questions to it in random order."""

    bank: MemoryBank
    memories: Tensor
    documents: Tensor
    queries: Tensor
    dtype: torch.dtype

    def contender(self, amount: float) -> Contender:
        """One run asks every question."""
        return Contender(
            "attar.ops.MemoryBank",
            lambda: self.bank.lookup(self.documents, self.queries),
            self.error,
            TOLERANCES[self.dtype],
            amount,
        )

    def error(self) -> float:
        """The distance of a few hundred readouts from float64 products with what was written."""
        few = slice(None, None, max(1, len(self.documents) // 256))
        found = self.bank.lookup(self.documents, self.queries)[few]
        written = self.memories[self.documents[few] % len(self.memories)].double()
        return distance(found, torch.einsum("qij,qj->qi", written, self.queries[few].double()))

    def bytes_touched(self) -> float:
        """What all of its questions read and write: packed memories, indices, queries, readouts."""
        k = self.queries.shape[1]
        packed = self.bank.nbytes / self.bank.documents
        each = packed + k * self.queries.element_size() + 4 * k + 8
        return float(each * len(self.documents))


def fill(documents: int, size: int, dtype: torch.dtype, device: str) -> FilledBank:
    """A bank of real memories, written in batches."""
    bank = MemoryBank(documents, size, dtype=dtype, device=device)
    tokens = torch.randn(min(FILLING, documents), 64, size, device=device) / 8
    memories = ops.encode(tokens)
    for first in range(0, documents, len(memories)):
        places = torch.arange(first, min(first + len(memories), documents), device=device)
        bank.write(places, memories[: len(places)])
    order = torch.randperm(documents, device=device)
    queries = torch.randn(documents, size, device=device).bfloat16()
    return FilledBank(bank, memories, order, queries, dtype)


def beside_copy(goal: Goal, clock: Clock, filled: FilledBank, copied: int) -> Measurement:
    """Bytes a second, beside a plain copy of a large tensor in the same run."""
    source = torch.zeros(copied, dtype=torch.int8, device=filled.documents.device)
    target = torch.empty_like(source)
    copy = Contender("copy bandwidth", lambda: target.copy_(source), lambda: 0.0, 0.0, 2.0 * copied)
    ours = filled.contender(filled.bytes_touched())
    found = duel(goal, ours, [copy], clock)
    if found.theirs is None:
        return found
    rates = ours.amount / found.ours / 1e12, copy.amount / found.theirs / 1e12
    note = "{:.2f} TB/s beside {:.2f} TB/s".format(*rates)
    return Measurement(found.ratio, found.low, found.high, found.ours, found.theirs, "s", found.against, note)


def beside_number(goal: Goal, clock: Clock, filled: FilledBank, wanted: float) -> Measurement:
    """Lookups a second, beside a number that was promised."""
    ours = filled.contender(float(len(filled.documents)))
    check(ours)
    (seconds,) = clock.race([ours])
    each = [s / ours.amount for s in seconds]
    ratio, low, high = ratio_of(goal, each, [1 / wanted] * len(each))
    note = f"{1 / median(each) / 1e6:.0f} M lookups/s"
    return Measurement(ratio, low, high, median(each), 1 / wanted, "s", note=note)
