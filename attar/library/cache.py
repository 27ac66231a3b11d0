"""Memories ready to be asked, those asked last kept: names decoded, numbers in float32."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from attar.memory import Memory
from attar.store import DocumentEntry, Snapshot

# What a name takes in a decoded table: 200 bytes, 615 once a question has looked for parts of names (tracemalloc,
# nine names a document).
NAME_BYTES = 615


class Kept(NamedTuple):
    """A memory, the writing that it is of, and what it weighs."""

    written: tuple[int, bytes, int]
    memory: Memory
    weight: int


class MemoryCache:
    """Keeps memories up to so many bytes; whoever wrote a document anew meanwhile, the new one is given.

    >>> len(MemoryCache(2**20))
    0
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.weight = 0
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def memory(self, now: Snapshot, name: str) -> Memory:
        """Give a document's memory as it is in this moment of the store."""
        # The facts tell one writing of a document from another, and are a small value.
        written = writing_of(now.entry(name))
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None and kept.written == written:
                self._kept.move_to_end(name)
                return kept.memory
        memory = ready(bytes(now.view(name, check=True)))
        self._keep(name, Kept(written, memory, weight_of(memory)))
        return memory

    def _keep(self, name: str, kept: Kept) -> None:
        with self._lock:
            earlier = self._kept.pop(name, None)
            self.weight -= 0 if earlier is None else earlier.weight
            if kept.weight > self.limit:
                return
            self._kept[name] = kept
            self.weight += kept.weight
            while self.weight > self.limit:
                _, oldest = self._kept.popitem(last=False)
                self.weight -= oldest.weight


def writing_of(facts: DocumentEntry) -> tuple[int, bytes, int]:
    """What differs between two writings of one document: the time in microseconds, the text, the size."""
    return facts.changed, facts.digest, facts.memory_bytes


def ready(data: bytes) -> Memory:
    """Decode a memory whole."""
    memory = Memory.from_bytes(data, check=False).astype("float32")
    memory.names  # noqa: B018  # decoded when it is first asked for
    return memory


def weight_of(memory: Memory) -> int:
    """About how many bytes a decoded memory takes."""
    return memory.nbytes + memory.state.nbytes + NAME_BYTES * (1 + len(memory.names))
