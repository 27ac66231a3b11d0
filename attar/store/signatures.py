"""What search keeps in a store: a signature per document, statistics, and which documents changed last.

| key | value |
|---|---|
| `s` + name | the time of change of the document that the signature belongs to, 8 bytes, then the signature |
| `s` | the statistics that signatures are made with, after eight bytes of their SHA-256; no name is empty |
| `j` + number, 8 bytes | keys of the documents that this change wrote or removed; the last thousand changes are kept |

A signature is written and deleted by the transaction that writes or deletes its document. The content is that of
`attar.search`; here it is bytes.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from attar.errors import RecordError, quoted
from attar.memory.memory import ENVELOPE_BYTES, Buffer, unwrap, wrap
from attar.store.lmdb_env import LmdbTransaction
from attar.store.records import Kind, digest_of, name_in, values_of

STATISTICS_KEY = b"s"
# The kinds of values that search keeps.
SEARCH_KINDS: tuple[Kind, ...] = (b"j", b"s")
# Changes that a reader of the store may be behind without reading all signatures again.
_CHANGES = 1_024
# Bytes of the time of change before a signature.
_STAMP = 8
# Bytes of the digest before statistics.
_DIGEST = 8
# Bytes of a change's number.
_NUMBER = 8


class StampedSignature(NamedTuple):
    """A signature, and the time of change of the document that it was made of."""

    key: bytes
    changed: int
    data: bytes


def stamped(changed: int, signature: bytes) -> bytes:
    """The value of a signature: bound to the version of its document."""
    return wrap(b"s", changed.to_bytes(_STAMP, "little") + signature, "signature")


def statistics_value(data: bytes) -> bytes:
    """The value of statistics: their digest tells whether they are others, without reading 700 kB."""
    return wrap(b"s", digest_of(data)[:_DIGEST] + data, "statistics")


def note_changes(transaction: LmdbTransaction, keys: Collection[bytes]) -> None:
    """Write which documents a transaction changes, and forget the oldest change."""
    if not keys:
        return
    number = last_change(transaction) + 1
    transaction.put(_change_key(number), wrap(b"j", msgspec.msgpack.encode(sorted(keys)), "changes"))
    if number > _CHANGES:
        transaction.delete(_change_key(number - _CHANGES))


def forget_signatures(transaction: LmdbTransaction) -> None:
    """Delete all that search keeps; whoever has read signatures must read them all again."""
    number = last_change(transaction) + _CHANGES + 1
    for kind in SEARCH_KINDS:
        for key in [key for key, _ in values_of(transaction, kind)]:
            transaction.delete(kind + key)
    transaction.put(_change_key(number), wrap(b"j", msgspec.msgpack.encode([]), "changes"))


def last_change(transaction: LmdbTransaction) -> int:
    """The number of the last change; 0 before the first."""
    with transaction.cursor() as cursor:
        # `k` is no kind: the key before its place is the last change, if there is one.
        has_key = cursor.prev() if cursor.set_range(b"k") else cursor.last()
        key = bytes(cursor.key()) if has_key else b""
    return int.from_bytes(key[1:], "big") if key[:1] == b"j" else 0


class Signatures:
    """The signatures of a store, as a snapshot or a transaction sees them, by the keys of their documents."""

    def __init__(self, transaction: LmdbTransaction) -> None:
        self._transaction = transaction

    @property
    def statistics(self) -> bytes | None:
        """The statistics that signatures are made with, if there are any."""
        value = self._transaction.get(STATISTICS_KEY)
        return None if value is None else bytes(unwrap(b"s", value, "the statistics of search")[_DIGEST:])

    @property
    def statistics_digest(self) -> bytes | None:
        """The first eight bytes of the SHA-256 of the statistics."""
        value = self._transaction.get(STATISTICS_KEY)
        return None if value is None else bytes(value[ENVELOPE_BYTES : ENVELOPE_BYTES + _DIGEST])

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
        for later in range(number + 1, last + 1):
            value = self._transaction.get(_change_key(later))
            if value is None:
                return None
            keys.update(_changed_keys(value))
        return keys

    def get(self, key: bytes) -> StampedSignature | None:
        """The signature of a document; None without one."""
        value = self._transaction.get(b"s" + key)
        return None if value is None else _signature(key, value)

    def __iter__(self) -> Iterator[StampedSignature]:
        """Yield the signature of each document that has one; damaged ones are left out."""
        for key, value in values_of(self._transaction, b"s"):
            if key:
                try:
                    yield _signature(key, value)
                except RecordError:
                    continue


def check_search_value(kind: Kind, key: bytes, value: Buffer, changed: int | None) -> None:
    """Refuse a value of search that cannot be read, or a signature that is not of its document.

    `changed` is the time of change of the document under `key`; None if there is none.
    """
    if kind == b"j":
        _changed_keys(value)
        if len(key) != _NUMBER:
            raise RecordError.expected(
                "the changes of the store", f"a number of {_NUMBER} bytes", repr(key[:60])
            )
    elif not key:
        unwrap(b"s", value, "the statistics of search")
    elif _signature(key, value).changed != changed:
        owner = "a document that is gone" if changed is None else "an earlier version of the document"
        raise RecordError(f"signature of {quoted(name_in(key))} is of {owner}", "add the document again")


def _changed_keys(value: Buffer) -> list[bytes]:
    data = unwrap(b"j", value, "the changes of the store")
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])
    except msgspec.DecodeError as fault:
        raise RecordError(f"the changes of the store are damaged: {fault}") from fault


def _signature(key: bytes, value: Buffer) -> StampedSignature:
    data = unwrap(b"s", value, "signature", name_in(key))
    return StampedSignature(key, int.from_bytes(data[:_STAMP], "little"), bytes(data[_STAMP:]))


def _change_key(number: int) -> bytes:
    return b"j" + number.to_bytes(_NUMBER, "big")
