"""A user's history as a memory: an event is a rank-1 update, a candidate one lookup, for any length of history.

A user likes some topics; an event is an item v that the user chose, a vector near one of them; the memory
C = Σ v vᵀ is a packed triangle. A candidate c has the score c · C c = Σ (v · c)².
"""

from timeit import repeat

import numpy as np
import torch
import typer
from tables import print_table

from attar.ops import packed_lookup, packed_update, softmax_lookup

SIZE = 64  # k
TOPICS, LIKED = 200, 8  # in total, and per user
CANDIDATES = 100  # the user likes one of them
DECAY = 0.98  # C is multiplied by it at each event: half is left after 34
rng = np.random.default_rng(0)
topics = rng.standard_normal((TOPICS, SIZE)) / SIZE**0.5


def items_of(liked: np.ndarray, count: int) -> np.ndarray:
    """Items `[count, k]` of length 1 near random ones of these topics."""
    items = topics[rng.choice(liked, count)] + rng.standard_normal((count, SIZE)) / SIZE**0.5
    return (items / np.linalg.norm(items, axis=1, keepdims=True)).astype(np.float32)


def memory_of(events: np.ndarray, decay: float = 1.0) -> np.ndarray:
    """The memory of events, added one by one."""
    memory = np.zeros(SIZE * (SIZE + 1) // 2, np.float32)
    for event in events:
        memory *= decay
        packed_update(memory, event)
    return memory


def by_memory(memory: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """c · C c of every candidate, in constant time."""
    readouts = packed_lookup(memory, candidates)
    return (readouts * candidates).sum(1)


def by_softmax(events: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The dot product of each candidate with its softmax attention over all events."""
    hidden, queries = (torch.from_numpy(vectors)[None] for vectors in (events, 8 * candidates))
    return (softmax_lookup(hidden, queries)[0].numpy() * candidates).sum(1)


def candidates_for(liked: np.ndarray) -> np.ndarray:
    """One item that the user likes, then others of other topics."""
    others = np.setdiff1d(np.arange(TOPICS), liked)
    return np.concatenate([items_of(liked, 1), items_of(others, CANDIDATES - 1)])


def grow(users: int, events: int) -> list[str]:
    """A row: how often the liked item scores highest after `events` events, and what that costs."""
    found = []
    for _ in range(users):
        liked = rng.choice(TOPICS, LIKED, replace=False)
        history, candidates = items_of(liked, events), candidates_for(liked)
        memory = memory_of(history)
        scores = by_memory(memory, candidates), by_softmax(history, candidates), candidates @ history.mean(0)
        found.append([each.argmax() == 0 for each in scores])  # the liked item is the first
    append = min(repeat(lambda: packed_update(memory, history[0]), number=100)) / 100
    ours = min(repeat(lambda: by_memory(memory, candidates), number=3)) / 3 / CANDIDATES
    theirs = min(repeat(lambda: by_softmax(history, candidates), number=3)) / 3 / CANDIDATES
    shares = (f"{share:.0%}" for share in np.mean(found, 0))
    return [f"{events:,}", *shares, *(f"{1e6 * seconds:,.1f} µs" for seconds in (append, ours, theirs))]


def main(users: int = 100, lengths: str = "10,30,100,1000,10000") -> None:
    """Keep memories of random users, find what they like, and let their preferences change."""
    torch.set_num_threads(1)
    print(
        f"How often the liked item is found among {CANDIDATES}, and the time per event and per candidate:\n"
    )
    columns = ["events", "memory", "softmax", "mean vector", "append", "score, memory", "score, softmax"]
    print_table(columns, [grow(users, int(events)) for events in lengths.split(",")])
    kept = []
    for _ in range(users):
        old, new = rng.permutation(TOPICS)[: 2 * LIKED].reshape(2, LIKED)
        past, recent, candidates = items_of(old, 1000), items_of(new, 50), candidates_for(new)
        both = np.concatenate([past, recent])
        cleared = memory_of(both)
        packed_update(cleared, past, weight=-1.0)
        memories = memory_of(both), memory_of(both, DECAY), cleared
        kept.append([by_memory(memory, candidates).argmax() == 0 for memory in memories])
    print("\nPreferences change after 1,000 events. Found 50 events later:\n")
    columns = ["all events kept", f"C decays by {1 - DECAY:.0%} per event", "old events subtracted"]
    print_table(columns, [[f"{share:.0%}" for share in np.mean(kept, 0)]])
    off = np.abs(cleared - memory_of(recent)).max() / np.abs(cleared).max()
    print(f"\nSubtracting equals never adding: memories differ by {off:.0e} of their largest number.")


if __name__ == "__main__":
    typer.run(main)
