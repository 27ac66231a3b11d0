"""A cache of decoded memories and of the texts to quote from, by document."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from attar.memory.memory import Memory
from attar.store.transactions import Snapshot


class _Cached(NamedTuple):
    """A memory, its text if that is quoted from, the version of the document that they belong to, and their bytes."""

    version: tuple[int, bytes, int]
    memory: Memory
    text: str | None
    bytes: int


class MemoryCache:
    """Least recently used cache of decoded memories (float32), at most `limit` bytes.

    A document that was written again, by any process, is decoded again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._cached: OrderedDict[str, _Cached] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._cached)

    def get(self, now: Snapshot, name: str) -> tuple[Memory, str | None]:
        """A document's memory as of the given state of the store, and its text if it is kept and quoted from."""
        # The store's entry is a small value; time in microseconds, text and size differ between two versions.
        facts = now.entry(name)
        version = facts.changed, facts.digest, facts.memory_bytes
        with self._lock:
            cached = self._cached.get(name)
            if cached is not None and cached.version == version:
                self._cached.move_to_end(name)
                return cached.memory, cached.text
        memory, text = now.memory(facts), now.text(facts)
        size = memory.decoded_bytes + len(text or "")
        self._put(name, _Cached(version, memory, text, size))
        return memory, text

    def _put(self, name: str, cached: _Cached) -> None:
        with self._lock:
            earlier = self._cached.pop(name, None)
            self.bytes -= 0 if earlier is None else earlier.bytes
            if cached.bytes > self.limit:
                return
            self._cached[name] = cached
            self.bytes += cached.bytes
            while self.bytes > self.limit:
                _, oldest = self._cached.popitem(last=False)
                self.bytes -= oldest.bytes
