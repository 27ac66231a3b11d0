"""A user's history as a memory: an event is a rank-1 update, a candidate a lookup, however long the history.

A taste is some topics; an event is an item v that the user chose, a vector near one of them; the memory C = Σ v vᵀ
is a packed triangle. A candidate c scores c · C c = Σ (v · c)²: how much of the history lies its way.
"""

from timeit import repeat

import numpy as np
import torch
import typer
from rich.console import Console

from attar.bench.tables import print_table, quantity
from attar.ops import packed_lookup_many, packed_update, softmax_lookup

SIZE = 64  # k
TOPICS, LIKED = 200, 8  # in all, and of one taste
CANDIDATES = 100  # one of which is to the user's taste
FADING = 0.98  # what is left of C at each event: half after 34
rng = np.random.default_rng(0)
topics = rng.standard_normal((TOPICS, SIZE)) / SIZE**0.5


def items_of(liked: np.ndarray, count: int) -> np.ndarray:
    """Items near some of these topics `[count, k]`, of length 1."""
    items = topics[rng.choice(liked, count)] + rng.standard_normal((count, SIZE)) / SIZE**0.5
    return (items / np.linalg.norm(items, axis=1, keepdims=True)).astype(np.float32)


def memory_of(events: np.ndarray, fading: float = 1.0) -> np.ndarray:
    """The memory of events that come one by one."""
    memory = np.zeros(SIZE * (SIZE + 1) // 2, np.float32)
    for event in events:
        memory *= fading
        packed_update(memory, event)
    return memory


def by_memory(memory: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """c · C c of every candidate: constant time."""
    readouts = packed_lookup_many(memory[None], candidates, documents=[0] * len(candidates))
    return (readouts * candidates).sum(1)


def by_softmax(events: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """What attention over every event reads for a candidate, along the candidate."""
    hidden, queries = (torch.from_numpy(vectors)[None] for vectors in (events, 8 * candidates))
    return (softmax_lookup(hidden, queries)[0].numpy() * candidates).sum(1)


def candidates_for(liked: np.ndarray) -> np.ndarray:
    """An item that the user would choose, and others that are not to this taste."""
    others = np.setdiff1d(np.arange(TOPICS), liked)
    return np.concatenate([items_of(liked, 1), items_of(others, CANDIDATES - 1)])


def grow(users: int, events: int) -> list[str]:
    """A row: how often one's own item is found after so many events, and what that costs."""
    found = []
    for _ in range(users):
        liked = rng.choice(TOPICS, LIKED, replace=False)
        history, candidates = items_of(liked, events), candidates_for(liked)
        memory = memory_of(history)
        scores = by_memory(memory, candidates), by_softmax(history, candidates), candidates @ history.mean(0)
        found.append([each.argmax() == 0 for each in scores])  # one's own item is the first
    append = min(repeat(lambda: packed_update(memory, history[0]), number=100)) / 100
    ours = min(repeat(lambda: by_memory(memory, candidates), number=3)) / 3 / CANDIDATES
    theirs = min(repeat(lambda: by_softmax(history, candidates), number=3)) / 3 / CANDIDATES
    shares = (f"{share:.0%}" for share in np.mean(found, 0))
    return [f"{events:,}", *shares, *(quantity(seconds, "s") for seconds in (append, ours, theirs))]


def main(users: int = 100, lengths: str = "10,30,100,1000,10000") -> None:
    """Remember made-up users, find what they like, and let them change and be forgotten."""
    torch.set_num_threads(1)
    print(f"The user's own item found among {CANDIDATES}, and what an event and a candidate cost:\n")
    columns = ["events", "memory", "softmax", "mean vector", "append", "score, memory", "score, softmax"]
    print_table(Console(), columns, [grow(users, int(events)) for events in lengths.split(",")])
    kept = []
    for _ in range(users):
        old, new = rng.permutation(TOPICS)[: 2 * LIKED].reshape(2, LIKED)
        past, recent, candidates = items_of(old, 1000), items_of(new, 50), candidates_for(new)
        both = np.concatenate([past, recent])
        cleared = memory_of(both)
        packed_update(cleared, past, weight=-1.0)
        memories = memory_of(both), memory_of(both, FADING), cleared
        kept.append([by_memory(memory, candidates).argmax() == 0 for memory in memories])
    print("\nTaste changes after 1,000 events; what is liked now is found, 50 events later,\n")
    columns = ["if all is kept", f"if C fades by {1 - FADING:.0%} an event", "if the past is taken out"]
    print_table(Console(), columns, [[f"{share:.0%}" for share in np.mean(kept, 0)]])
    off = np.abs(cleared - memory_of(recent)).max() / np.abs(cleared).max()
    print(f"\nTaken out is as never seen: memories differ by {off:.0e} of their largest number.")


if __name__ == "__main__":
    typer.run(main)
