"""Transactions on a store: a `Snapshot` reads one state of it, a `Transaction` makes several changes atomic."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import lmdb
import msgspec
from numpy.typing import NDArray

from attar.errors import (
    OptionError,
    ReaderMismatchError,
    RecordError,
    StoreError,
    UnknownDocumentError,
    quoted,
)
from attar.memory.forms import Floats
from attar.memory.memory import Memory
from attar.store import format, lookups, signatures
from attar.store.format import HEADER_KEY, LONGEST_PLAIN_KEY, DocumentEntry, Header, Record, key_of, unwrap
from attar.store.lmdb_env import Environment, LmdbTransaction, store_error, store_errors
from attar.store.origin import Origin, pack_parts
from attar.store.validation import Fault, check_numbers, entry_data, entry_or_fault


def header_of(transaction: LmdbTransaction, environment: Environment) -> Header:
    """Read the store's header."""
    return format.read_header(transaction.get(HEADER_KEY, b""), str(environment.folder))


def _find_entry(transaction: LmdbTransaction, name: str) -> DocumentEntry | None:
    value = transaction.get(b"f" + key_of(name))
    if value is None:
        return None
    entry = format.read_entry(value, name)
    if entry.name != name:
        raise RecordError.expected(f"entry of {quoted(name)}", "an entry of that name", quoted(entry.name))
    return entry


def _entry_of(transaction: LmdbTransaction, name: str) -> DocumentEntry:
    entry = _find_entry(transaction, name)
    if entry is None:
        raise UnknownDocumentError.named(name)
    return entry


def _read_record(transaction: LmdbTransaction, name: str, check: bool) -> Record:
    entry = _entry_of(transaction, name)
    key, text = key_of(name), None
    memory = unwrap(b"m", transaction.get(b"m" + key, b""), name, check)
    if entry.text_bytes is not None:
        text = unwrap(b"t", transaction.get(b"t" + key, b""), name, check)
    return Record(entry, memory, text)


class Snapshot:
    """What `Store.snapshot` returns: one state of the store, unchanged by what others write meanwhile.

    Its views into the file are valid until it ends. Do not use them later: LMDB may reuse the pages.
    """

    __slots__ = ("_environment", "_store", "_thread", "_transaction")

    def __init__(self, environment: Environment, store: object) -> None:
        # The store is kept alive: one that nobody refers to is closed.
        self._environment, self._store = environment, store

    def __enter__(self) -> "Snapshot":
        self._transaction, self._thread = self._environment.begin()
        return self

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        environment = self._environment
        if not environment.forked:
            self._transaction.abort()
            environment.map_lock.release(self._thread)
        if fault is not None and isinstance(fault, lmdb.Error):
            raise store_error(environment.folder, fault) from fault

    def view(self, name: str, check: bool = False) -> memoryview:
        """Return the bytes of a document's memory; `check=True` verifies their checksum (9 µs for 20 KB)."""
        return unwrap(b"m", self._value(name), name, check)

    def memory(self, name: str, check: bool = False) -> Memory:
        """Return a document's memory on the file's own bytes."""
        return lookups.memory_in(self._value(name), name, check)

    def memories(self, names: Iterable[str], check: bool = False) -> list[Memory]:
        """Return many documents' memories, in the order of the names."""
        return [self.memory(name, check) for name in names]

    def lookup(self, name: str, queries: NDArray[Any]) -> Floats:
        """Return the readouts of queries `[m, k]` from a document's memory, as `Memory.lookup` does."""
        readouts: Floats = lookups.fastest(1).look_up(self._value(name), name, queries)
        return readouts

    def lookup_many(self, names: Sequence[str], queries: NDArray[Any]) -> Floats:
        """Return the readout of each of the queries `[m, k]` from its own document's memory."""
        keys = [b"m" + key_of(name) for name in names]
        # Not sorted into the order of LMDB's pages: sorting costs what it gains.
        values = list(map(self._transaction.get, keys))
        if not all(values) or max(map(len, keys), default=0) > LONGEST_PLAIN_KEY + 1:
            values = [self._value(name) for name in names]
        readouts: Floats = lookups.fastest(len(values)).look_up_each(values, names, queries)
        return readouts

    def _value(self, name: str) -> memoryview:
        key = key_of(name)
        if len(key) > LONGEST_PLAIN_KEY:
            self.entry(name)
        value: memoryview | None = self._transaction.get(b"m" + key)
        if value is None:
            raise UnknownDocumentError.named(name)
        return value

    def entry(self, name: str) -> DocumentEntry:
        """Return what the store knows of a document without its memory."""
        return _entry_of(self._transaction, name)

    def get(self, name: str, check: bool = True) -> Record:
        """Return all that the store keeps of a document."""
        return _read_record(self._transaction, name, check)

    def __contains__(self, name: str) -> bool:
        return self._transaction.get(b"f" + key_of(name)) is not None

    def documents(self, after: str | None = None) -> Iterator[DocumentEntry | Fault]:
        """Yield the documents' entries in the order of names, those after the name `after`.

        In place of an entry that cannot be read: its fault, with the name that its key has.
        """
        start = b"" if after is None else key_of(after)[:LONGEST_PLAIN_KEY]
        values = format.values_of(self._transaction, b"f", start)
        # Long names that begin alike have keys in the order of their digests: each such group is sorted here.
        for _, group in groupby(values, key=lambda item: item[0][:LONGEST_PLAIN_KEY]):
            entries = [entry_or_fault(key, value) for key, value in group]
            # Names are ordered by code points, as their keys are.
            for entry in sorted(entries, key=attrgetter("name")):
                if after is None or (entry.name or "") > after:
                    yield entry

    def header(self) -> Header:
        """Return the store's header."""
        return header_of(self._transaction, self._environment)


class _Step(NamedTuple):
    """One change: the values that replace all that is stored for a document, and the reader of its memory."""

    name: str
    entry: DocumentEntry | None = None
    values: tuple[tuple[bytes, bytes], ...] = ()
    reader: str | None = None
    adds: bool = False  # the document stays


class Transaction:
    """What `Store.transaction` returns: changes that are all on the disk when it ends, or none of them.

    They are kept until the end, to be repeated if LMDB's map must grow.
    """

    def __init__(
        self, environment: Environment, store: object, reader: str | None, timeout: float | None
    ) -> None:
        # The store is kept alive: one that nobody refers to is closed.
        self._environment, self._store = environment, store
        self._reader, self._timeout = reader, timeout
        self._writing = contextlib.ExitStack()
        self._steps: list[_Step] = []
        self._begun: LmdbTransaction | None = None
        self.header: Header  # with the changes so far

    def __enter__(self) -> "Transaction":
        self._writing.enter_context(self._environment.writing(self._timeout))
        try:
            self._begin()
        except BaseException:
            self._abort()
            self._writing.close()
            raise
        return self

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        with self._writing, store_errors(self._environment.folder):
            try:
                if fault is None:
                    self._commit()
                elif isinstance(fault, lmdb.Error):
                    raise fault
            finally:
                self._abort()

    def put(
        self,
        name: str,
        memory: Memory,
        *,
        title: str = "",
        text: str | None = None,
        digest: bytes | None = None,
        applied: tuple[bytes, ...] = (),
        signature: bytes | None = None,
        origin: Origin | None = None,
        budget: int = 0,
    ) -> DocumentEntry:
        """Write or replace a document; its memory is converted to the store's dtype, if that can hold it."""
        earlier = None
        check_numbers(memory, name)
        try:
            converted = memory.astype(self.header.dtype)
        except OptionError:
            # float16 ends at 65504, which the vector of a name reaches after about 7,000 mentions.
            converted = memory.astype("float32")
        with contextlib.suppress(RecordError):
            earlier = _find_entry(self._transaction, name)
        facts: dict[str, Any] = {"title": title, "digest": digest, "applied": applied, "budget": budget}
        facts["created"] = None if earlier is None else earlier.created
        record = Record.of(name, converted, text=text, signature=signature, origin=origin, **facts)
        if origin is None and earlier is not None and earlier.digest == record.entry.digest != b"":
            # The same text, read again, keeps its origin.
            same = {field: getattr(earlier, field) for field in Origin._fields}
            record = replace(record, entry=msgspec.structs.replace(record.entry, **same))
        return self.put_record(record, memory.reader)

    def put_record(self, record: Record, reader: str) -> DocumentEntry:
        """Write a record as it is, if its memory is by the store's reader."""
        key = key_of(record.name)
        expected = self.header.reader or self._reader
        if expected is not None and reader != expected:
            what, came = f"memory of {quoted(record.name)}", f"one of the reader {reader!r}"
            remedy = f"read the document with the reader {expected!r}, or open another store"
            raise ReaderMismatchError.expected(what, f"one of the store's reader {expected!r}", came, remedy)
        parts: dict[format.Kind, format.Buffer] = {b"f": entry_data(record.entry), b"m": record.memory_data}
        if record.text_data is not None:
            parts[b"t"] = record.text_data
        values = [(kind + key, format.wrap(kind, data)) for kind, data in parts.items()]
        if record.signature is not None:
            values.append((b"s" + key, signatures.wrapped(record.entry, record.signature)))
        self._do(_Step(record.name, record.entry, tuple(values), reader))
        return record.entry

    def put_origin(self, name: str, origin: Origin) -> None:
        """Note where a document came from; its memory, text and signature stay."""
        known = origin._asdict() | {"parts": pack_parts(origin.parts)}
        entry = msgspec.structs.replace(self.get(name).entry, **known)
        value = b"f" + key_of(name), format.wrap(b"f", entry_data(entry))
        self._do(_Step(name, values=(value,), adds=True))

    def put_signature(self, name: str | None, data: bytes) -> None:
        """Write a document's signature, or with None the statistics of all; documents stay as they are."""
        value = signatures.STATISTICS_KEY, format.wrap(b"s", data)
        if name is not None:
            value = b"s" + key_of(name), signatures.wrapped(self.get(name).entry, data)
        self._do(_Step(name or "", values=(value,), adds=True))

    def remove(self, name: str) -> None:
        """Remove a document."""
        if self._transaction.get(b"f" + key_of(name)) is None:
            raise UnknownDocumentError.named(name)
        self._do(_Step(name))

    def get(self, name: str) -> Record:
        """Return all that the store keeps of a document, with the changes so far."""
        return _read_record(self._transaction, name, check=True).copied()  # the next change may overwrite it

    def __contains__(self, name: str) -> bool:
        return _find_entry(self._transaction, name) is not None

    @property
    def _transaction(self) -> LmdbTransaction:
        if self._begun is None:
            what, remedy = f"store {self._environment.folder}", "begin another with store.transaction()"
            raise StoreError.expected(what, "an open transaction", "one that has failed or ended", remedy)
        return self._begun

    def _do(self, step: _Step) -> None:
        """Make a change, and remember it in case the map must grow."""
        self._steps.append(step)
        try:
            self._make(step)
        except lmdb.MapFullError:
            self._repeat_in_a_larger_map()

    def _make(self, step: _Step) -> None:
        if not step.adds:
            self._erase(step.name)
        for key, value in step.values:
            self._transaction.put(key, value)
        if step.entry is not None:
            self.header = msgspec.structs.replace(self.header.plus(step.entry), reader=step.reader)

    def _erase(self, name: str) -> None:
        try:
            entry = _find_entry(self._transaction, name)
            if entry is None:
                return
        except RecordError:
            entry = None
        for kind in (b"f", b"m", b"t", b"s"):
            self._transaction.delete(kind + key_of(name))
        # Nobody knows what an unreadable entry added to the totals.
        self.header = self.header.plus(entry, -1) if entry else self._recounted()

    def _recounted(self) -> Header:
        """Count again all documents whose entries can be read."""
        header = Header(self.header.reader, self.header.dtype, self.header.created)
        for _, value in format.values_of(self._transaction, b"f"):
            with contextlib.suppress(RecordError):
                header = header.plus(format.read_entry(value, ""))
        return header

    def _begin(self) -> None:
        self._begun, self._thread = self._environment.begin(write=True)
        self.header = header_of(self._transaction, self._environment)

    def _abort(self) -> None:
        """End LMDB's transaction; what it has committed stays."""
        if self._begun is not None and not self._environment.forked:
            self._begun.abort()
            self._begun = None
            self._environment.map_lock.release(self._thread)

    def _commit(self) -> None:
        self._environment.refuse_fork()
        while self._steps:
            try:
                signatures.note_changes(self._transaction, [step.name for step in self._steps if step.name])
                self._transaction.put(HEADER_KEY, format.wrap(b"a", format.encode(self.header)))
                self._transaction.commit()
                self._environment.extend_file()
                return
            except lmdb.MapFullError:
                self._repeat_in_a_larger_map()

    def _repeat_in_a_larger_map(self) -> None:
        # The lock for writing is kept meanwhile: what these changes have read of the store is still true.
        self._abort()
        self._environment.grow()
        self._begin()
        try:
            for step in self._steps:
                self._make(step)
        except lmdb.MapFullError:
            self._repeat_in_a_larger_map()
