"""A moment of the store, read without copying: whatever others write meanwhile, it stays the same."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

import lmdb
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.memory import Floats, Memory
from attar.store.environment import Environment, Transaction
from attar.store.faults import UnknownNameError, line_for, quoted
from attar.store.keys import PLAIN, is_long, key_of
from attar.store.lookups import look_up, look_up_each
from attar.store.record import About, Facts, Record, about_from, facts_from
from attar.store.seal import Buffer, payload_of

# The one key without a name.
HEAD = b"a"

# Values below this may lie anywhere inside one of LMDB's pages; larger ones have pages of their own.
INLINE = 2048


class Reading:
    """What `Store.reading` hands out: views into the file, valid until it ends.

    Ended, its views must not be touched: the file's pages may have moved on.
    """

    __slots__ = ("_environment", "_store", "_thread", "_transaction")

    def __init__(self, environment: Environment, store: object) -> None:
        self._environment = environment
        # A store that nobody holds any more is closed.
        self._store = store

    def __enter__(self) -> "Reading":
        self._transaction, self._thread = self._environment.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        environment = self._environment
        if not environment.forked:
            self._transaction.abort()
            environment.gate.leave(self._thread)
        if fault is not None and isinstance(fault, lmdb.Error):
            raise line_for(environment.folder, fault) from fault

    def view(self, name: str, check: bool = False) -> memoryview:
        """Give the bytes of a document's memory; `check=True` compares their checksum too (9 µs at 20 KB)."""
        return payload_of(b"m", self._value(name), name, check)

    def views(self, names: Iterable[str], check: bool = False) -> list[memoryview]:
        """Give the bytes of many documents' memories, in the order of the names."""
        return [self.view(name, check) for name in names]

    def memory(self, name: str, check: bool = False) -> Memory:
        """Give a document's memory, its numbers where they lie in the file."""
        return Memory.from_bytes(aligned(self.view(name, check)), check=False)

    def memories(self, names: Iterable[str], check: bool = False) -> list[Memory]:
        """Give many documents' memories, in the order of the names."""
        return [Memory.from_bytes(aligned(self.view(name, check)), check=False) for name in names]

    def lookup(self, name: str, queries: NDArray[Any]) -> Floats:
        """Give the readouts of queries `[m, k]` from a document's memory, as `Memory.lookup` would."""
        return look_up(self._value(name), name, queries, self._ask)

    def lookup_many(self, names: Sequence[str], queries: NDArray[Any]) -> Floats:
        """Give the readout of each of the queries `[m, k]` from its own document's memory."""
        keys = [b"m" + key_of(name) for name in names]
        # In the order of keys, which LMDB's pages have, this takes no less: sorting costs what it gains.
        values = list(map(self._transaction.get, keys))
        if not all(values) or max(map(len, keys), default=0) > PLAIN + 1:
            values = [self._value(name) for name in names]
        return look_up_each(values, names, queries, self._ask)

    def _ask(self, name: str, queries: Floats) -> Floats:
        return self.memory(name).lookup(queries)

    def _value(self, name: str) -> memoryview:
        key = key_of(name)
        if len(key) > PLAIN:
            self.facts(name)
        value: memoryview | None = self._transaction.get(b"m" + key)
        if value is None:
            raise UnknownNameError(name)
        return value

    def facts(self, name: str) -> Facts:
        """Give what can be said of a document without its memory."""
        value = self._transaction.get(b"f" + key_of(name))
        if value is None:
            raise UnknownNameError(name)
        facts = facts_in(value, name)
        if facts.name != name:
            raise RecordError(f"facts of {quoted(name)}", "facts of that name", quoted(facts.name))
        return facts

    def get(self, name: str, check: bool = True) -> Record:
        """Give all that the store keeps of a document."""
        facts = self.facts(name)
        memory, text = self.view(name, check), None
        if facts.text_bytes is not None:
            text = payload_of(b"t", self._transaction.get(b"t" + key_of(name), b""), name, check)
        return Record(facts, memory, text)

    def get_many(self, names: Iterable[str], check: bool = True) -> list[Record]:
        """Give all that the store keeps of many documents, in the order of the names."""
        return [self.get(name, check) for name in names]

    def __contains__(self, name: str) -> bool:
        return self._transaction.get(b"f" + key_of(name)) is not None

    def documents(self, after: str | None = None) -> Iterator[Facts]:
        """Yield all documents' facts in the order of names, those behind `after`."""
        with self._transaction.cursor() as cursor:
            yield from in_name_order(cursor, after)

    def about(self) -> About:
        """Give the store's own head."""
        return about_in(self._transaction, self._environment)


def about_in(transaction: Transaction, environment: Environment) -> About:
    """Read the store's own head within any transaction."""
    name = str(environment.folder)
    return about_from(payload_of(b"a", transaction.get(HEAD, b""), name), name)


def counted(transaction: Transaction, about: About) -> About:
    """Count all documents anew whose facts can be read."""
    total = About(about.reader, about.dtype, about.created)
    with transaction.cursor() as cursor:
        for key, value in cursor if cursor.set_range(b"f") else ():
            if bytes(key[:1]) != b"f":
                break
            with contextlib.suppress(RecordError):
                total = total.plus(facts_in(value, ""))
    return total


def facts_in(value: Buffer, name: str) -> Facts:
    """Open the envelope of a document's facts."""
    return facts_from(payload_of(b"f", value, name), name)


def aligned(view: memoryview) -> Buffer:
    """Give bytes where arithmetic may work on them: a small value is copied out of its page."""
    return view if len(view) >= INLINE else bytes(view)


def in_name_order(cursor: Transaction, after: str | None) -> Iterator[Facts]:
    """Go through the facts in the order of names; long names, which share a beginning, by groups (`keys`)."""
    group: list[Facts] = []
    shared = b""
    start = b"" if after is None else key_of(after)[:PLAIN]
    last = b"" if after is None else after.encode()
    for found, value in cursor if cursor.set_range(b"f" + start) else ():
        kind, key = bytes(found[:1]), bytes(found[1:])
        if kind != b"f":
            break
        facts = facts_in(value, key.decode(errors="replace"))
        if group and key[:PLAIN] != shared:
            yield from sorted(group, key=code_points)
            group.clear()
        if code_points(facts) <= last:
            continue
        if is_long(key):
            shared = key[:PLAIN]
            group.append(facts)
        else:
            yield facts
    yield from sorted(group, key=code_points)


def code_points(facts: Facts) -> bytes:
    """The order of names: by code points, which is the order of their bytes."""
    return facts.name.encode()
