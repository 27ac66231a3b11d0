"""A Transformer block whose cross-attention is a memory: encode the context once, look up any number of times.

A context alternates keys and values; queries are keys, and the model recalls their values. The block is the usual
one except for its attention: the context becomes a memory, and every query token is one lookup.
"""

from collections.abc import Iterator

import torch
import typer
from rich.console import Console
from rich.progress import track
from tables import print_table
from torch import Tensor, nn

from attar.nn import Memories, attention

SIZE = 32  # k


class MemoryBlock(nn.Module):
    """Query tokens `[B, m, k]` read a context `[B, n, k]` through a mechanism; then an MLP."""

    def __init__(self, mechanism: str, size: int) -> None:
        super().__init__()
        # C q grows with the length of the context, so it is scaled; softmax's weights sum to 1.
        options = {} if mechanism in ("none", "softmax") else {"scale": "sqrt"}
        self.attention = attention(mechanism, size, **options)
        self.norm_context, self.norm_query, self.norm_mlp = (nn.LayerNorm(size) for _ in range(3))
        self.hidden, self.query, self.out = (nn.Linear(size, size) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def write(self, context: Tensor) -> Memories:
        """The memory of a context, made once for any number of queries."""
        return self.attention.encode(self.hidden(self.norm_context(context)))

    def forward(self, x: Tensor, memories: Memories) -> Tensor:
        """One lookup per token instead of attention, then the MLP."""
        x = x + self.out(self.attention.lookup(memories, self.query(self.norm_query(x))))
        return x + self.mlp(self.norm_mlp(x))


class Recall(nn.Module):
    """Embeddings, a short convolution, and two blocks that each encode the context and look up in it."""

    def __init__(self, mechanism: str, symbols: int, size: int = SIZE) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2 * symbols, size)  # keys, then values
        # A lookup by a key returns what was written together with it, so one state must contain key and value:
        # each token sees the one before it.
        self.neighbours = nn.Conv1d(size, size, kernel_size=2)
        self.blocks = nn.ModuleList(MemoryBlock(mechanism, size) for _ in range(2))
        self.head = nn.Linear(size, symbols)

    def forward(self, context: Tensor, queries: Tensor) -> Tensor:
        """Scores of the values `[B, m, symbols]`."""
        read = self.neighbours(self.embedding(context).mT).mT
        x = self.embedding(queries)
        for block in self.blocks:
            x = block(x, block.write(read))
        return self.head(x)


def contexts_and_questions(batch: int, pairs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Contexts `[B, 2 pairs]`, keys, and their values; the last pair, which "none" keeps, is not a query."""
    keys = torch.rand(batch, 2 * pairs).argsort(1)[:, :pairs]
    values = torch.randint(2 * pairs, (batch, pairs))
    return torch.stack([keys, values + 2 * pairs], 2).flatten(1), keys[:, :-1], values[:, :-1]


def accuracies(mechanism: str, every: int, pairs: int) -> Iterator[float]:
    """Train on new contexts at each step; yield the accuracy on other contexts six times, every `every` steps."""
    torch.manual_seed(0)
    model = Recall(mechanism, 2 * pairs)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(6 * every):
        context, asked, answers = contexts_and_questions(64, pairs)
        scores = model(context, asked)
        optimizer.zero_grad()
        nn.functional.cross_entropy(scores.mT, answers).backward()
        optimizer.step()
        if (step + 1) % every == 0:
            context, asked, answers = contexts_and_questions(256, pairs)
            yield (model(context, asked).argmax(-1) == answers).float().mean().item()


def main(mechanisms: str = "none,linear,gated,softmax", every: int = 30, pairs: int = 16) -> None:
    """Train a Transformer-style model to recall pairs, with each mechanism as its attention."""
    torch.set_num_threads(1)  # two threads are slower for products this small
    names = track(mechanisms.split(","), "training", console=Console(stderr=True), transient=True)
    rows = [[name, *(f"{share:.0%}" for share in accuracies(name, every, pairs))] for name in names]
    print(f"Values recalled from contexts of {pairs} pairs, with {2 * pairs} possible values:\n")
    print_table(["mechanism", *(f"{times * every} steps" for times in range(1, 7))], rows)
    print(f"\nStored per context: {SIZE} numbers (none), {SIZE} × {SIZE} for any length (linear, gated),")
    print(f"or all its states, here {2 * pairs - 1} × {SIZE}, all read for every query (softmax).")


if __name__ == "__main__":
    typer.run(main)
