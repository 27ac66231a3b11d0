"""Switching a store to the memories of another reader, in one transaction.

The new memories lie in a second store in its folder, the staged one, each with the version of the document that it was
read from. Processes that have the store open see the old memories until the transaction ends, and the new ones from
their next snapshot on; a killed process leaves the old ones.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import lmdb
import msgspec

from attar.errors import StoreError, quoted
from attar.store.lmdb_env import Environment, LmdbTransaction, store_errors
from attar.store.records import (
    DOCUMENT_KINDS,
    HEADER_KEY,
    DocumentEntry,
    Header,
    name_in,
    now,
    read_entry,
    values_of,
    write_entry,
    write_header,
)
from attar.store.signatures import forget_signatures
from attar.store.transactions import Snapshot, header_of

if TYPE_CHECKING:
    from attar.store.store import Store


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
    header, moment = Header(reader=reader, created=before.created), now()
    for key in [key for key, _ in values_of(transaction, b"f")]:
        entry = read_entry(transaction.get(b"f" + key), name_in(key))
        if entry.name in dropped:
            for kind in DOCUMENT_KINDS:
                transaction.delete(kind + key)
            continue
        staged = _staged(memories, entry)
        entry = msgspec.structs.replace(
            entry,
            # Later than before: caches of other processes know by it that the memory is another.
            changed=max(moment, entry.changed + 1),
            tokens=staged.tokens,
            memory_bytes=staged.memory_bytes,
        )
        transaction.put(b"f" + key, write_entry(entry))
        transaction.put(b"m" + key, memories.memory_data(staged))
        header = header.plus(entry)
    transaction.put(HEADER_KEY, write_header(header))
    # Made again from the texts when they are needed: they are of the former reader.
    forget_signatures(transaction)
    return header


def _staged(memories: Snapshot, entry: DocumentEntry) -> DocumentEntry:
    """The staged entry of a document; raises for one of another version, or whose memory is damaged."""
    staged = memories.find(entry.name)
    if staged is None or staged.applied != source_version(entry):
        message = f"document {quoted(entry.name)} was not read with the new reader in its present version"
        raise StoreError(message, "run attar reread again")
    memories.check_bytes(staged)
    return staged
