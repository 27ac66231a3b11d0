"""Switching a store to the memories of another reader, in one transaction.

The new memories lie in a second store in its folder, the staged one, each with the version of the document that it was
read from. Processes that have the store open see the old memories until the transaction ends, and the new ones from
their next snapshot on; a killed process leaves the old ones.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import lmdb
import msgspec

from attar.errors import StoreError, UnknownDocumentError, quoted
from attar.store import format
from attar.store.format import HEADER_KEY, DocumentEntry, Header
from attar.store.lmdb_env import Environment, LmdbTransaction, store_errors
from attar.store.signatures import forget_signatures
from attar.store.transactions import Snapshot, header_of
from attar.store.validation import name_in

if TYPE_CHECKING:
    from attar.store.store import Store

# The fields of an entry that follow from the memory.
_OF_MEMORY = ("tokens", "form", "dtype", "memory_bytes", "names_full")


def source_version(entry: DocumentEntry) -> tuple[bytes, ...]:
    """What the `applied` field of a staged document says: the version of the document that it was read from."""
    return entry.changed.to_bytes(8, "big"), entry.digest


def switch_reader(
    environment: Environment, reader: str, staged: "Store", catch_up: Callable[[], Collection[str]]
) -> Header:
    """Replace all memories with the staged ones, and return the new header.

    `catch_up` is called when nobody else can write any more; it stages what has changed since, and returns the names
    of documents that may be dropped. The staged store must have all others, each of the version that is stored now.
    """
    with environment.writing(None), store_errors(environment.folder):
        dropped = catch_up()
        with staged.snapshot() as memories:
            while True:
                transaction, thread = environment.begin(write=True)
                try:
                    header = _replace_all(transaction, environment, reader, memories, dropped)
                    transaction.commit()
                    environment.extend_file()
                    return header
                except lmdb.MapFullError:
                    pass
                finally:
                    transaction.abort()
                    environment.map_lock.release(thread)
                environment.grow()


def _replace_all(
    transaction: LmdbTransaction,
    environment: Environment,
    reader: str,
    memories: Snapshot,
    dropped: Collection[str],
) -> Header:
    before = header_of(transaction, environment)
    header, moment = Header(reader, before.dtype, before.created), format.now()
    for key in [key for key, _ in format.values_of(transaction, b"f")]:
        entry = format.read_entry(transaction.get(b"f" + key), name_in(key))
        if entry.name in dropped:
            for kind in (b"f", b"m", b"t"):
                transaction.delete(kind + key)
            continue
        new, memory = _staged(memories, entry)
        new = msgspec.structs.replace(
            entry,
            # Later than before: caches of other processes know by it that the memory is another.
            changed=max(moment, entry.changed + 1),
            **{field: getattr(new, field) for field in _OF_MEMORY},
        )
        transaction.put(b"f" + key, format.wrap(b"f", format.encode(new)))
        transaction.put(b"m" + key, format.wrap(b"m", memory))
        header = header.plus(new)
    transaction.put(HEADER_KEY, format.wrap(b"a", format.encode(header)))
    # Made again from the texts when they are needed: they are of the former reader.
    forget_signatures(transaction)
    return header


def _staged(memories: Snapshot, entry: DocumentEntry) -> tuple[DocumentEntry, memoryview]:
    """The staged entry and the bytes of the staged memory; raises for another version of the document."""
    try:
        new = memories.entry(entry.name)
    except UnknownDocumentError:
        new = None
    if new is None or new.applied != source_version(entry):
        came, remedy = "none, or one of another version", "run attar reread again"
        raise StoreError.expected(
            f"document {quoted(entry.name)}", "a memory of the new reader", came, remedy
        )
    return new, memories.view(entry.name, check=True)
