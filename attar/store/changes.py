"""Several changes as one: all of them are on the disk when it ends, or none."""

import contextlib
from types import TracebackType
from typing import NamedTuple

import lmdb
import msgspec

from attar.errors import OptionError, RecordError
from attar.memory import Memory
from attar.store.environment import Environment, Transaction
from attar.store.faults import StoreError, UnknownNameError, line_for, quoted
from attar.store.keys import key_of
from attar.store.reading import HEAD, about_in, counted, facts_in
from attar.store.record import About, Facts, Record, encode
from attar.store.seal import payload_of, seal


class Step(NamedTuple):
    """One change: what is written for a document in place of all that is there, and whose memory it is."""

    key: bytes
    name: str
    facts: Facts | None = None
    values: tuple[tuple[bytes, bytes], ...] = ()
    reader: str | None = None


class Changes:
    """What `Store.writing` hands out; its changes are kept until the end, to be made again in a larger map."""

    def __init__(
        self, environment: Environment, store: object, reader: str | None, timeout: float | None
    ) -> None:
        self._environment = environment
        # A store that nobody holds any more is closed.
        self._store = store
        self._reader = reader
        self._timeout = timeout
        self._turn = contextlib.ExitStack()
        self._steps: list[Step] = []
        self._begun: Transaction | None = None
        self._about: About

    def __enter__(self) -> "Changes":
        self._turn.enter_context(self._environment.writing_turn(self._timeout))
        try:
            self._begin()
        except BaseException:
            self._turn.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            if fault is None:
                self._commit()
                return
            self._abort()
            if isinstance(fault, lmdb.Error):
                raise line_for(self._environment.folder, fault) from fault

    def put(
        self,
        name: str,
        memory: Memory,
        *,
        title: str = "",
        text: str | None = None,
        digest: bytes | None = None,
    ) -> Facts:
        """Write a document, or write it anew; its memory in the store's own type of number."""
        kept = memory.astype(self._about.dtype)
        created = None
        with contextlib.suppress(RecordError):
            earlier = self._find(key_of(name), name)
            created = None if earlier is None else earlier.created
        record = Record.of(name, kept, title=title, text=text, digest=digest, created=created)
        return self.put_record(record, memory.reader)

    def put_record(self, record: Record, reader: str) -> Facts:
        """Write a record as it is, if its memory is by the store's own reader."""
        key = key_of(record.name)
        whose = self._about.reader or self._reader
        if whose is not None and reader != whose:
            remedy = f"read the document with the reader {whose!r}, or open another store"
            came = f"one of the reader {reader!r}"
            what = f"memory of {quoted(record.name)}"
            raise OptionError(what, f"one of the store's reader {whose!r}", came, remedy)
        values = [
            (b"f" + key, seal(b"f", encode(record.facts))),
            (b"m" + key, seal(b"m", record.memory_data)),
        ]
        if record.text_data is not None:
            values.append((b"t" + key, seal(b"t", record.text_data)))
        self._do(Step(key, record.name, record.facts, tuple(values), reader))
        return record.facts

    def remove(self, name: str) -> None:
        """Take a document out."""
        key = key_of(name)
        if self._transaction.get(b"f" + key) is None:
            raise UnknownNameError(name)
        self._do(Step(key, name))

    def get(self, name: str) -> Record:
        """Give all that the store keeps of a document, these changes included."""
        key = key_of(name)
        facts = self._find(key, name)
        if facts is None:
            raise UnknownNameError(name)
        text = None
        memory = payload_of(b"m", self._transaction.get(b"m" + key, b""), name)
        if facts.text_bytes is not None:
            text = payload_of(b"t", self._transaction.get(b"t" + key, b""), name)
        # The next change may write where these views look.
        return Record(facts, memory, text).copied()

    def __contains__(self, name: str) -> bool:
        return self._find(key_of(name), name) is not None

    @property
    def about(self) -> About:
        """The store's head, these changes included."""
        return self._about

    def _find(self, key: bytes, name: str) -> Facts | None:
        value = self._transaction.get(b"f" + key)
        if value is None:
            return None
        facts = facts_in(value, name)
        if facts.name != name:
            raise StoreError(f"name {quoted(name)}", "a key of its own", f"that of {quoted(facts.name)}")
        return facts

    def _make(self, step: Step) -> None:
        self._erase(step.key, step.name)
        for key, value in step.values:
            self._transaction.put(key, value)
        if step.facts is not None:
            self._about = msgspec.structs.replace(self._about.plus(step.facts), reader=step.reader)

    def _erase(self, key: bytes, name: str) -> None:
        try:
            facts, damaged = self._find(key, name), False
        except RecordError:
            facts, damaged = None, True
        if facts is None and not damaged:
            return
        for kind in (b"f", b"m", b"t"):
            self._transaction.delete(kind + key)
        # Nobody knows what unreadable facts have been counted as.
        self._about = self._about.plus(facts, -1) if facts else counted(self._transaction, self._about)

    @property
    def _transaction(self) -> Transaction:
        if self._begun is None:
            what, remedy = f"store {self._environment.folder}", "begin anew with store.writing()"
            raise StoreError(what, "changes that are open", "some that have failed or ended", remedy)
        return self._begun

    def _begin(self) -> None:
        self._begun, self._thread = self._environment.begin(write=True)
        try:
            self._about = about_in(self._transaction, self._environment)
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> None:
        if self._begun is not None and not self._environment.forked:
            self._begun.abort()
            self._end()

    def _end(self) -> None:
        self._begun = None
        self._environment.gate.leave(self._thread)

    def _do(self, step: Step) -> None:
        """Make a change, and remember it in case that the map must grow."""
        self._steps.append(step)
        try:
            self._make(step)
        except lmdb.MapFullError:
            self._again_in_a_larger_map()

    def _commit(self) -> None:
        environment = self._environment
        environment.refuse_fork()
        while self._steps:
            try:
                self._transaction.put(HEAD, seal(b"a", encode(self._about)))
                self._transaction.commit()
                environment.fill_up()
                self._end()
                return
            except lmdb.MapFullError:
                self._again_in_a_larger_map()
            except lmdb.Error as fault:
                self._abort()
                raise line_for(environment.folder, fault) from fault
        self._abort()

    def _again_in_a_larger_map(self) -> None:
        # The turn is kept meanwhile: what these changes have seen of the store is still so.
        while True:
            self._abort()
            self._environment.grow()
            self._begin()
            try:
                for step in self._steps:
                    self._make(step)
                return
            except lmdb.MapFullError:
                continue
