"""What search keeps in a store: a signature per document, statistics, and which documents changed last.

| key | value |
|---|---|
| `s` + name | the time of change of the document that the signature belongs to, 8 bytes, then the signature |
| `s` | the statistics that signatures are made with, and their options; no document has an empty name |
| `j` + number, 8 bytes | keys of the documents that this change wrote or removed; the last thousand changes are kept |

A signature is written and deleted by the transaction that writes or deletes its document. The content is that of
`attar.search`; here it is bytes.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from attar.errors import RecordError, quoted
from attar.store import format
from attar.store.format import Buffer, DocumentEntry, key_of
from attar.store.lmdb_env import LmdbTransaction

if TYPE_CHECKING:
    from attar.store.transactions import Snapshot, Transaction

STATISTICS_KEY = b"s"
# The kinds of values that search keeps.
SEARCH_KINDS: tuple[format.Kind, ...] = (b"j", b"s")
# Changes that a reader of the store may be behind without reading all signatures again.
_CHANGES = 1_024
_STAMP, _NUMBER = 8, 8


def wrapped(entry: DocumentEntry, signature: Buffer) -> bytes:
    """The value of a signature: bound to the version of its document."""
    return format.wrap(b"s", entry.changed.to_bytes(_STAMP, "little") + bytes(signature))


def note_changes(transaction: LmdbTransaction, names: Sequence[str]) -> None:
    """Write which documents a transaction changes, and forget the oldest change."""
    if not names:
        return
    number = last_change(transaction) + 1
    keys = msgspec.msgpack.encode(sorted({key_of(name) for name in names}))
    transaction.put(_change_key(number), format.wrap(b"j", keys))
    if number > _CHANGES:
        transaction.delete(_change_key(number - _CHANGES))


def forget_signatures(transaction: LmdbTransaction) -> None:
    """Delete all that search keeps; whoever has read signatures must read them all again."""
    number = last_change(transaction) + _CHANGES + 1
    for kind in SEARCH_KINDS:
        for key in [key for key, _ in format.values_of(transaction, kind)]:
            transaction.delete(kind + key)
    transaction.put(_change_key(number), format.wrap(b"j", msgspec.msgpack.encode([])))


def last_change(transaction: LmdbTransaction) -> int:
    """The number of the last change; 0 for a store of an earlier version."""
    with transaction.cursor() as cursor:
        # `k` is no kind: the key before its place is the last change, if there is one.
        found = cursor.prev() if cursor.set_range(b"k") else cursor.last()
        key = bytes(cursor.key()) if found else b""
    return int.from_bytes(key[1:], "big") if key[:1] == b"j" else 0


class Signatures:
    """The signatures in a snapshot of a store, or within a transaction, by the keys of their documents.

    >>> import tempfile
    >>> from attar.store import Store
    >>> with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store, store.snapshot() as now:
    ...     found = Signatures(now)
    ...     found.change, found.changed_since(0), list(found), found.statistics
    (0, set(), [], None)
    """

    def __init__(self, snapshot: "Snapshot | Transaction") -> None:
        self._transaction = snapshot._transaction

    @property
    def statistics(self) -> bytes | None:
        """The statistics that signatures are made with, if there are any."""
        value = self._transaction.get(STATISTICS_KEY)
        return None if value is None else bytes(format.unwrap(b"s", value, "statistics"))

    @property
    def change(self) -> int:
        """The number of the last change; a cache that saw it needs only what changed since."""
        return last_change(self._transaction)

    def changed_since(self, number: int) -> set[bytes] | None:
        """The keys of the documents that changed after the change `number`; None if that is not known any more."""
        last = self.change
        if not number <= last <= number + _CHANGES:
            return None
        keys: set[bytes] = set()
        for each in range(number + 1, last + 1):
            value = self._transaction.get(_change_key(each))
            if value is None:
                return None
            keys.update(_changed_keys(value))
        return keys

    def get(self, key: bytes) -> tuple[int, bytes] | None:
        """The time of change of the document that a signature belongs to, and the signature; None without one."""
        value = self._transaction.get(b"s" + key)
        return None if value is None else _stamped(value, key)

    def __iter__(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield the key, the time of change and the signature of each document that has one; damaged ones have none."""
        for key, value in format.values_of(self._transaction, b"s"):
            if key:
                try:
                    yield key, *_stamped(value, key)
                except RecordError:
                    continue

    def document_keys(self) -> Iterator[bytes]:
        """Yield the keys of all documents, with a signature or without."""
        with self._transaction.cursor() as cursor:
            found = cursor.set_range(b"f")
            while found and bytes(cursor.key()[:1]) == b"f":
                yield bytes(cursor.key()[1:])
                found = cursor.next()

    def entry(self, key: bytes) -> DocumentEntry | None:
        """The entry of a document by its key; None if it is not there, or cannot be read."""
        value = self._transaction.get(b"f" + key)
        try:
            return None if value is None else format.read_entry(value, "")
        except RecordError:
            return None


def check_search_value(kind: format.Kind, key: bytes, value: Buffer, changed: int | None) -> None:
    """Refuse a value of search that cannot be read, or a signature that is not of its document.

    `changed` is the time of change of the document under `key`; None if there is none.
    """
    if kind == b"j":
        _changed_keys(value)
        if len(key) != _NUMBER:
            raise RecordError.expected("changes of the store", f"a number of {_NUMBER} bytes", repr(key[:60]))
    elif not key:
        format.unwrap(b"s", value, "search")  # the statistics
    elif _stamped(value, key)[0] != changed:
        came = "one of a document that is gone" if changed is None else "one of an earlier version"
        what = f"signature of {quoted(key.decode(errors='replace'))}"
        raise RecordError.expected(what, "one of its document", came, "add the document again")


def _changed_keys(value: Buffer) -> list[bytes]:
    data = format.unwrap(b"j", value, "store")
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])
    except msgspec.DecodeError as fault:
        raise RecordError.expected("changes of the store", "keys of documents", str(fault)) from fault


def _stamped(value: Buffer, key: bytes) -> tuple[int, bytes]:
    data = format.unwrap(b"s", value, key.decode(errors="replace"))
    return int.from_bytes(data[:_STAMP], "little"), bytes(data[_STAMP:])


def _change_key(number: int) -> bytes:
    return b"j" + number.to_bytes(_NUMBER, "big")
