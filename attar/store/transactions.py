"""Transactions on a store: a `Snapshot` reads one state of it, a `Transaction` makes several changes atomic.

Both read a document's entry first, once, and then what is needed of the document by its entry:

    entry = now.entry(name)
    memory, text = now.memory(entry), now.text(entry)

    with store.transaction() as changes:
        earlier = changes.find(name)
        changes.put(Record.of(DocumentEntry(name=name), memory, text=text), reader=memory.reader, replacing=earlier)

What search keeps is written and deleted by the transaction that writes or deletes its document. Here it is bytes; their
content is that of `attar.search`:

| key | value |
|---|---|
| `s` + name | the time of change of the document that the signature belongs to, 8 bytes, then the signature |
| `s` | the statistics that signatures are made with, after eight bytes of their SHA-256; no name is empty |
| `j` + number, 8 bytes | keys of the documents that this change wrote or removed; the last thousand changes are kept |
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import lmdb
import msgspec

from attar.errors import ReaderMismatchError, RecordError, StoreError, UnknownDocumentError, quoted
from attar.memory.memory import ENVELOPE_BYTES, Buffer, Memory, unwrap, wrap
from attar.store.lmdb_env import Environment, LmdbTransaction, store_error
from attar.store.records import (
    DOCUMENT_KINDS,
    HEADER_KEY,
    LONGEST_PLAIN_KEY,
    DocumentEntry,
    Fault,
    Header,
    Kind,
    Record,
    digest_of,
    entry_or_fault,
    key_of,
    name_in,
    read_entry,
    read_header,
    read_text,
    values_of,
    write_entry,
    write_header,
)

STATISTICS_KEY = b"s"
# The kinds of values that search keeps.
SEARCH_KINDS: tuple[Kind, ...] = (b"j", b"s")
# Changes that a reader of the store may be behind without reading all signatures again.
KEPT_CHANGES = 1_024
# Bytes of a change's number.
NUMBER_BYTES = 8
# Bytes of the time of change before a signature.
_STAMP = 8
# Bytes of the digest before statistics.
_DIGEST = 8


class StampedSignature(NamedTuple):
    """A signature, and the time of change of the document that it was made of."""

    key: bytes
    changed: int
    data: bytes


def signature_value(changed: int, signature: bytes) -> bytes:
    """The value of a signature: bound to the version of its document."""
    return wrap(b"s", changed.to_bytes(_STAMP, "little") + signature, "signature")


def read_signature(key: bytes, value: Buffer) -> StampedSignature:
    data = unwrap(b"s", value, "signature", name_in(key))
    return StampedSignature(key, int.from_bytes(data[:_STAMP], "little"), bytes(data[_STAMP:]))


def statistics_value(data: bytes) -> bytes:
    """The value of statistics: their digest tells whether they are others, without reading 700 kB."""
    return wrap(b"s", digest_of(data)[:_DIGEST] + data, "statistics")


def read_statistics(value: Buffer) -> bytes:
    return bytes(unwrap(b"s", value, "the statistics of search")[_DIGEST:])


def write_change(transaction: LmdbTransaction, number: int, keys: Collection[bytes]) -> None:
    """Write which documents a change was of."""
    transaction.put(_change_key(number), wrap(b"j", msgspec.msgpack.encode(sorted(keys)), "changes"))


def read_change(value: Buffer) -> list[bytes]:
    data = unwrap(b"j", value, "the changes of the store")
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])
    except msgspec.DecodeError as fault:
        raise RecordError(f"the changes of the store are damaged: {fault}") from fault


def _change_key(number: int) -> bytes:
    return b"j" + number.to_bytes(NUMBER_BYTES, "big")


def header_of(transaction: LmdbTransaction, environment: Environment) -> Header:
    return read_header(transaction.get(HEADER_KEY, b""), str(environment.folder))


class Reading:
    """What a snapshot and a transaction read of a store."""

    __slots__ = ("_begun",)

    def __init__(self, transaction: LmdbTransaction | None = None) -> None:
        self._begun = transaction

    @property
    def _transaction(self) -> LmdbTransaction:
        if self._begun is None:
            message = "this snapshot or transaction of a store has failed, has ended or was not entered"
            raise StoreError(message, "begin another: with store.snapshot() or store.transaction()")
        return self._begun

    def entry_data(self, name: str) -> bytes:
        """Return the bytes of a document's entry: while these are the same, so is the document."""
        value = self._transaction.get(b"f" + key_of(name))
        if value is None:
            raise UnknownDocumentError.named(name)
        return bytes(value)

    def entry(self, name: str) -> DocumentEntry:
        """Return what the store knows of a document without its memory."""
        return read_entry(key_of(name), self.entry_data(name))

    def find(self, name: str) -> DocumentEntry | None:
        """Return a document's entry; None if there is none, or a damaged one, which may be replaced."""
        return self.find_key(key_of(name))

    def find_key(self, key: bytes) -> DocumentEntry | None:
        """`find` by the key of a name (`records.key_of`)."""
        value = self._transaction.get(b"f" + key)
        try:
            return None if value is None else read_entry(key, value)
        except RecordError:
            return None

    def document_keys(self) -> Iterator[bytes]:
        """Yield the keys of all documents."""
        return (key for key, _ in values_of(self._transaction, b"f"))

    def __contains__(self, name: str) -> bool:
        return self._transaction.get(b"f" + key_of(name)) is not None

    def memory(self, entry: DocumentEntry) -> Memory:
        """Return a document's memory, decoded and checked."""
        return Memory.from_bytes(self.memory_data(entry), entry.name)

    def text(self, entry: DocumentEntry) -> str | None:
        """Return a document's text, if it is kept."""
        data = self.text_data(entry)
        return None if data is None else read_text(data, entry.name)

    def memory_data(self, entry: DocumentEntry) -> bytes:
        """Return the bytes of a document's memory, as they lie in the store: `Memory.from_bytes` checks them."""
        return bytes(self._transaction.get(b"m" + key_of(entry.name), b""))

    def text_data(self, entry: DocumentEntry) -> bytes | None:
        """Return the bytes of a document's text, as they lie in the store: `read_text` checks them."""
        if entry.text_bytes is None:
            return None
        return bytes(self._transaction.get(b"t" + key_of(entry.name), b""))

    def record(self, entry: DocumentEntry) -> Record:
        """Return all that the store keeps of a document; its parts are checked when they are decoded."""
        return Record(entry, self.memory_data(entry), self.text_data(entry), self.signature(entry))

    def get(self, name: str) -> Record:
        """Return all that the store keeps of a document, by its name."""
        return self.record(self.entry(name))

    def check_bytes(self, entry: DocumentEntry) -> None:
        """Verify the checksums of a document's memory and text, without copying or decoding them."""
        key = key_of(entry.name)
        unwrap(b"m", self._transaction.get(b"m" + key, b""), "memory", entry.name)
        if entry.text_bytes is not None:
            unwrap(b"t", self._transaction.get(b"t" + key, b""), "text", entry.name)

    def is_intact(self, entry: DocumentEntry) -> bool:
        """Return whether the checksums of a document's memory and text are right."""
        try:
            self.check_bytes(entry)
        except RecordError:
            return False
        return True

    @property
    def statistics(self) -> bytes | None:
        """The statistics that signatures are made with, if there are any."""
        value = self._transaction.get(STATISTICS_KEY)
        return None if value is None else read_statistics(value)

    @property
    def statistics_digest(self) -> bytes | None:
        """The first eight bytes of the SHA-256 of the statistics."""
        value = self._transaction.get(STATISTICS_KEY)
        return None if value is None else bytes(value[ENVELOPE_BYTES : ENVELOPE_BYTES + _DIGEST])

    @property
    def last_change(self) -> int:
        """The number of the last change, 0 before the first; a cache that saw it needs only what changed since."""
        with self._transaction.cursor() as cursor:
            # `k` is no kind: the key before its place is the last change, if there is one.
            has_key = cursor.prev() if cursor.set_range(b"k") else cursor.last()
            key = bytes(cursor.key()) if has_key else b""
        return int.from_bytes(key[1:], "big") if key[:1] == b"j" else 0

    def changed_since(self, number: int) -> set[bytes] | None:
        """Return the keys of the documents that changed after the change `number`; None if that is forgotten."""
        last = self.last_change
        if not number <= last <= number + KEPT_CHANGES:
            return None
        keys: set[bytes] = set()
        for later in range(number + 1, last + 1):
            value = self._transaction.get(_change_key(later))
            if value is None:
                return None
            keys.update(read_change(value))
        return keys

    def signatures(self) -> Iterator[StampedSignature]:
        """Yield the signature of each document that has one; damaged ones are left out."""
        for key, value in values_of(self._transaction, b"s"):
            if key:
                with contextlib.suppress(RecordError):
                    yield read_signature(key, value)

    def find_signature(self, key: bytes) -> StampedSignature | None:
        """Return the signature of the document with this key; None without one."""
        value = self._transaction.get(b"s" + key)
        return None if value is None else read_signature(key, value)

    def signature(self, entry: DocumentEntry) -> bytes | None:
        """Return the signature of this version of a document; None without one, or if it is damaged."""
        try:
            stamped = self.find_signature(key_of(entry.name))
        except RecordError:
            return None
        return stamped.data if stamped is not None and stamped.changed == entry.changed else None

    def documents(self, after: str | None = None) -> Iterator[DocumentEntry | Fault]:
        """Yield the documents' entries in the order of names, those after the name `after`.

        In place of an entry that cannot be read: its fault, with the name that its key has.
        """
        start = b"" if after is None else key_of(after)[:LONGEST_PLAIN_KEY]
        values = values_of(self._transaction, b"f", start)
        # Long names that begin alike have keys in the order of their digests: each such group is sorted here.
        for _, group in groupby(values, key=lambda item: item[0][:LONGEST_PLAIN_KEY]):
            entries = [entry_or_fault(key, value) for key, value in group]
            # Names are ordered by code points, as their keys are.
            for entry in sorted(entries, key=lambda entry: entry.name or ""):
                if after is None or (entry.name or "") > after:
                    yield entry


class Snapshot(Reading):
    """What `Store.snapshot` returns: one state of the store, unchanged by what others write meanwhile."""

    __slots__ = ("_environment", "_store", "_thread")

    def __init__(self, environment: Environment, store: object) -> None:
        super().__init__()
        # The store is kept alive: one that nobody refers to is closed.
        self._environment, self._store = environment, store

    def __enter__(self) -> "Snapshot":
        self._begun, self._thread = self._environment.begin()
        return self

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        environment = self._environment
        if not environment.forked:
            self._transaction.abort()
            self._begun = None
            environment.map_lock.release(self._thread)
        if fault is not None and isinstance(fault, lmdb.Error):
            raise store_error(environment.folder, fault) from fault

    @property
    def header(self) -> Header:
        return header_of(self._transaction, self._environment)


class Transaction(Reading):
    """What `Store.transaction` returns: changes that are all on the disk when it ends, or none of them."""

    def __init__(self, environment: Environment, reader: str | None) -> None:
        super().__init__()
        self._environment, self._reader = environment, reader
        self._is_changed = False
        # The keys of the documents that are written or removed.
        self._changed: set[bytes] = set()
        self.header: Header  # with the changes so far

    @contextlib.contextmanager
    def committed(self) -> Iterator["Transaction"]:
        """Hold the lock for writing, and commit what was changed."""
        environment = self._environment
        with environment.writing():
            try:
                with environment.transaction(write=True) as self._begun:
                    self.header = header_of(self._begun, environment)
                    yield self
                    environment.refuse_fork()
                    if self._is_changed:
                        self._note_changes()
                        self._transaction.put(HEADER_KEY, write_header(self.header))
            finally:
                self._begun = None
            environment.extend_file()

    def put(self, record: Record, *, reader: str, replacing: DocumentEntry | None = None) -> DocumentEntry:
        """Write a document, or replace the one whose entry `find` has returned; returns its entry.

        `reader` is the fingerprint of the reader that made the memory, which must be the store's.
        """
        expected = self.header.reader or self._reader
        if expected is not None and reader != expected:
            message = f"the memory of {quoted(record.name)} is by the reader {reader!r}, the store's is {expected!r}"
            raise ReaderMismatchError(message, "read the document with the store's reader")
        entry, key = record.entry, key_of(record.name)
        values = {b"f" + key: write_entry(entry), b"m" + key: record.memory_data}
        if record.text_data is not None:
            values[b"t" + key] = record.text_data
        if record.signature is not None:
            values[b"s" + key] = signature_value(entry.changed, record.signature)
        self._erase(key, replacing)
        self._write(key, values)
        self.header = msgspec.structs.replace(self.header.plus(entry), reader=reader)
        return entry

    def change_reader(self, fingerprint: str) -> None:
        """Begin to move to another reader: then all documents are put again, and statistics if it has any."""
        self._is_changed = True
        self.header = msgspec.structs.replace(self.header, reader=fingerprint)
        self._transaction.delete(STATISTICS_KEY)

    def put_entry(self, entry: DocumentEntry) -> None:
        """Write the entry of a document with other tags, metadata or title; the document stays as it is."""
        key = key_of(entry.name)
        self._write(key, {b"f" + key: write_entry(entry)})

    def put_signature(self, entry: DocumentEntry, data: bytes) -> None:
        """Write the signature of a document, which stays as it is."""
        key = key_of(entry.name)
        self._write(key, {b"s" + key: signature_value(entry.changed, data)})

    def put_statistics(self, data: bytes) -> None:
        """Write the statistics that signatures are made with."""
        self._write(None, {STATISTICS_KEY: statistics_value(data)})

    def remove(self, name: str) -> None:
        """Remove a document, also a damaged one."""
        if name not in self:
            raise UnknownDocumentError.named(name)
        key = key_of(name)
        self._erase(key, self.find(name))
        self._write(key, {})

    def _write(self, document: bytes | None, values: Mapping[bytes, bytes]) -> None:
        """Write values, of the document with this key or of none."""
        self._is_changed = True
        if document is not None:
            self._changed.add(document)
        for key, value in values.items():
            # LMDB leaks pages where a shorter value overwrites one that was written in the same transaction.
            self._transaction.delete(key)
            self._transaction.put(key, value)

    def _erase(self, key: bytes, replaced: DocumentEntry | None) -> None:
        """Remove all that is stored for a document, and subtract it from the totals."""
        if self._transaction.get(b"f" + key) is None:
            return
        for kind in DOCUMENT_KINDS:
            self._transaction.delete(kind + key)
        # Nobody knows what an unreadable entry added to the totals.
        self.header = self._recounted() if replaced is None else self.header.plus(replaced, -1)

    def _recounted(self) -> Header:
        """Count again all documents whose entries can be read."""
        header = Header(reader=self.header.reader, created=self.header.created)
        for entry in self.documents():
            if isinstance(entry, DocumentEntry):
                header = header.plus(entry)
        return header

    def _note_changes(self) -> None:
        """Write which documents this transaction changes, and forget the oldest change."""
        if self._changed:
            number = self.last_change + 1
            write_change(self._transaction, number, self._changed)
            if number > KEPT_CHANGES:
                self._transaction.delete(_change_key(number - KEPT_CHANGES))
