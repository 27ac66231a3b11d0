"""The claim, measured: what a question costs as a document grows, to softmax and to a memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from torch import Tensor

from attar import ops
from attar.bench.case import Contender
from attar.bench.clocks import Effort, WallClock
from attar.bench.referee import distance
from attar.bench.tables import print_table, quantity

SIZE = 100  # the paper's
QUESTIONS = 4  # about what CNN's documents have
LENGTHS = (100, 300, 750, 3_000, 10_000, 100_000)
COLUMNS = ["tokens n", "softmax, a question", "memory, a question", "quicker", "H", "memory C", "C q off by"]


@dataclass(frozen=True)
class Reading:
    """A document of n tokens, asked in both ways."""

    tokens: int
    softmax_seconds: float
    memory_seconds: float
    hidden_bytes: int
    memory_bytes: int
    error: float

    def cells(self) -> list[str]:
        """As a row of the table."""
        return [
            f"{self.tokens:,}",
            quantity(self.softmax_seconds, "s"),
            quantity(self.memory_seconds, "s"),
            f"{self.softmax_seconds / self.memory_seconds:.1f} ×",
            quantity(self.hidden_bytes, "B"),
            quantity(self.memory_bytes, "B"),
            f"{self.error:.0e}",
        ]


def show_cost(console: Console, lengths: tuple[int, ...] = LENGTHS, effort: Effort | None = None) -> None:
    """Encode made-up documents, ask each in both ways, and print what a question costs."""
    console.print(
        f"A made-up document, n states of size k = {SIZE}, becomes a memory C = HᵀH of {SIZE} × {SIZE}.\n"
        f"{QUESTIONS} questions are put to it, on one thread: softmax reads all of H for each, C q none.\n",
        highlight=False,
        soft_wrap=True,
    )
    torch.manual_seed(0)
    with Console(stderr=True).status("reading and asking …"):
        readings = [read_and_ask(n, effort or Effort(budget=0.6)) for n in lengths]
    print_table(console, COLUMNS, [reading.cells() for reading in readings])
    first, last = readings[0], readings[-1]
    console.print(
        f"\nFrom {first.tokens:,} to {last.tokens:,} tokens a question to softmax became "
        f"{last.softmax_seconds / first.softmax_seconds:.0f} times dearer, one to a memory "
        f"{last.memory_seconds / first.memory_seconds:.1f} times.\n"
        "Last column: the distance from the same products in float64.",
        highlight=False,
        soft_wrap=True,
    )


def read_and_ask(n: int, effort: Effort) -> Reading:
    """One document, both ways, timed in turns."""
    hidden = torch.randn(1, n, SIZE) / SIZE**0.5
    queries = torch.randn(1, QUESTIONS, SIZE)
    memory = ops.encode(hidden)
    exact = ops.encode(hidden.double(), backend="reference") if n <= 1_000 else ops.encode(hidden.double())
    expected = torch.einsum("bij,bmj->bmi", exact, queries.double())
    error = distance(ops.lookup(memory, queries), expected)
    softmax = asking(lambda: ops.softmax_lookup(hidden, queries))
    linear = asking(lambda: ops.lookup(memory, queries))
    # Threads wait for each other: on a busy machine that slowed softmax a hundredfold, and nothing else.
    spent = WallClock(effort, threads=1).race([softmax, linear])
    each = [sorted(times)[len(times) // 2] / QUESTIONS for times in spent]
    return Reading(n, each[0], each[1], hidden.nbytes, memory.nbytes, error)


def asking(run: Callable[[], Tensor]) -> Contender:
    """Questions as a contender; the demonstration has checked its results itself."""
    return Contender("questions", run, lambda: 0.0, 0.0)
