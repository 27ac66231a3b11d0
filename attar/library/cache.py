"""A cache of decoded memories and of the texts to quote from, by document."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from attar.memory.memory import Memory
from attar.store.records import DocumentEntry
from attar.store.transactions import Snapshot


class OpenDocument(NamedTuple):
    """A document that is asked: its entry, its memory, and its text if that is kept."""

    entry: DocumentEntry
    memory: Memory
    text: str | None

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return self.memory.decoded_bytes + len(self.text or "")


class MemoryCache:
    """Least recently used cache of decoded documents, at most `limit` bytes.

    A document that was written again, by any process, is decoded again: its entry has another time.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._documents: OrderedDict[str, OpenDocument] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._documents)

    def get(self, now: Snapshot, name: str) -> OpenDocument:
        """A document as of the given state of the store."""
        entry = now.entry(name)
        with self._lock:
            document = self._documents.get(name)
            if document is not None and document.entry == entry:
                self._documents.move_to_end(name)
                return document
        document = OpenDocument(entry, now.memory(entry), now.text(entry))
        self._put(document)
        return document

    def _put(self, document: OpenDocument) -> None:
        with self._lock:
            earlier = self._documents.pop(document.entry.name, None)
            self.bytes -= 0 if earlier is None else earlier.bytes
            if document.bytes > self.limit:
                return
            self._documents[document.entry.name] = document
            self.bytes += document.bytes
            while self.bytes > self.limit:
                _, oldest = self._documents.popitem(last=False)
                self.bytes -= oldest.bytes
