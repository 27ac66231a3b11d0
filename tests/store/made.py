"""Small memories, each different, and short ways to write and read them."""

from typing import Any

import numpy as np

from attar.memory.memory import Memory
from attar.memory.phrases import PhraseIndex
from attar.store.records import DocumentEntry, Record
from attar.store.store import Store
from attar.store.transactions import Snapshot, Transaction

READER = "reader-1"
# Numbers of one vector: 60 phrases then take two pages.
WIDTH = 128


def make_memory(number: int = 0, phrases: int = 4, reader: str = READER) -> Memory:
    """A different memory for each number."""
    vectors = np.random.default_rng(number).normal(size=(phrases, WIDTH)).astype(np.float32)
    spans = [(at, at + 1, 0, 0.0) for at in range(phrases)]
    index = PhraseIndex.of("x" * phrases, spans, [(0, phrases)], [[number % 2**16]])
    return Memory.quantized(vectors, form="phrases", phrases=index, tokens=number, reader=reader)


def put(target: Store | Transaction, name: str, memory: Memory, **fields: Any) -> DocumentEntry:
    """Write or replace a document, in a transaction of its own or in one that is open."""
    data = {field: fields.pop(field) for field in ("text", "signature") if field in fields}
    record = Record.of(DocumentEntry(name=name, **fields), memory, **data)
    if isinstance(target, Store):
        with target.transaction() as changes:
            return changes.put(record, reader=memory.reader, replacing=changes.find(name))
    return target.put(record, reader=memory.reader, replacing=target.find(name))


def remove(store: Store, name: str) -> None:
    """Remove a document."""
    with store.transaction() as changes:
        changes.remove(name)


def memory_in(source: Store | Snapshot | Transaction, name: str) -> Memory:
    """A document's memory."""
    return source.get(name).memory


def overwrite(store: Store, key: bytes, value: bytes | None) -> None:
    """Write past the store what it never would."""
    with store._environment.map.begin(write=True) as transaction:
        if value is None:
            transaction.delete(key)
        else:
            transaction.put(key, value)


def value_of(store: Store, key: bytes) -> bytes:
    """The bytes under a key."""
    with store._environment.map.begin() as transaction:
        return bytes(transaction.get(key))


def flip(store: Store, key: bytes) -> None:
    """Change a bit of the last byte under a key."""
    value = bytearray(value_of(store, key))
    value[-1] ^= 4
    overwrite(store, key, bytes(value))
