"""Transactions are atomic, one writer at a time; and a store behaves like a dictionary."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from attar.errors import OptionError, ReaderMismatchError, StoreError, UnknownDocumentError
from attar.store.records import DocumentEntry, Record
from attar.store.store import Store
from tests.store.made import READER, flip, make_memory, put, remove

SMALL_MAP = 2**18


def test_a_refused_document_does_not_undo_the_others(store):
    with store.transaction() as changes:
        put(changes, "a", make_memory(1))
        with pytest.raises(ReaderMismatchError):
            put(changes, "b", make_memory(2, reader="another"))
        with pytest.raises(OptionError):
            put(changes, "", make_memory(2))
        with pytest.raises(OptionError, match="entry of 'c' has half of a surrogate pair"):
            put(changes, "c", make_memory(2), title="\ud800")
    assert [entry.name for entry in store.documents()] == ["a"]


def test_a_record_that_is_too_large_leaves_no_values(store, monkeypatch):
    monkeypatch.setattr("attar.memory.memory.MOST_BYTES", 1000)
    with store.transaction() as changes:
        put(changes, "a", make_memory(1))
        with pytest.raises(OptionError, match="at most 1,000 bytes"):
            put(changes, "b", make_memory(2, 60))
    assert [entry.name for entry in store.documents()] == ["a"]
    assert list(store.check()) == []


@pytest.mark.parametrize("is_known", [True, False], ids=["with its entry", "without"])
@pytest.mark.parametrize("is_damaged", [True, False], ids=["damaged", "intact"])
def test_totals_are_right_after_a_document_is_replaced(store, is_known, is_damaged):
    """Whoever replaces a document without naming its entry, which may be unreadable, lets the store count again."""
    put(store, "a", make_memory(1), text="one")
    put(store, "b", make_memory(2), text="two", signature=b"old")
    if is_damaged:
        flip(store, b"fb")
    with store.transaction() as changes:
        earlier = changes.find("b")
        assert (earlier is None) == is_damaged
        record = Record.of(DocumentEntry(name="b"), make_memory(3))
        changes.put(record, reader=READER, replacing=earlier if is_known else None)
    assert (store.header.documents, store.header.tokens) == (2, 4)
    assert store.get("b").signature is None
    assert list(store.check()) == []


def fill(store, count):
    with store.transaction() as changes:
        for number in range(count):
            put(changes, str(number), make_memory(number, 60))


def test_a_store_that_no_addresses_are_left_for_stays_as_it_was(folder):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        put(store, "old", make_memory(0, 60))
        with pytest.raises(StoreError, match="larger than the addresses of this process"):
            fill(store, 60)
        assert [entry.name for entry in store.documents()] == ["old"]
        put(store, "new", make_memory(1))
        assert list(store.check()) == []


NAMES = st.one_of(
    st.sampled_from(["a", "b", "a/b", "x" * 478, "x" * 479, "x" * 600, "x" * 600 + "y"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3),
)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SIZES = st.sampled_from([2, 30, 60])
DOCUMENTS = st.tuples(NAMES, st.integers(0, 99), SIZES, TEXTS)


def test_the_list_of_changes_names_what_was_written_and_removed(store):
    put(store, "a", make_memory(1))
    with store.snapshot() as now:
        before = now.last_change
    put(store, "b", make_memory(1))
    remove(store, "a")
    with store.snapshot() as now:
        assert now.changed_since(before) == {b"a", b"b"}
        assert now.changed_since(before + 2) == set()
        assert now.changed_since(before + 3) is None


def test_changes_too_long_ago_are_forgotten(store, monkeypatch):
    monkeypatch.setattr("attar.store.transactions.KEPT_CHANGES", 3)
    for number in range(1, 7):
        put(store, "a", make_memory(number))
    with store.snapshot() as now:
        assert now.changed_since(1) is None
        assert now.changed_since(4) == {b"a"}
    assert list(store.check()) == []


class StoreAsDictionary(RuleBasedStateMachine):
    """The store compared with a dictionary: name to (number, size, text)."""

    @initialize()
    def make(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "store"
        self.expected: dict[str, tuple[int, int, str | None]] = {}
        self.open()

    def open(self) -> None:
        self.store = Store.open(self.folder)

    @rule(document=DOCUMENTS)
    def put(self, document):
        name, number, size, text = document
        put(self.store, name, make_memory(number, size), text=text)
        self.expected[name] = (number, size, text)

    @rule(name=NAMES)
    def remove(self, name):
        try:
            remove(self.store, name)
        except UnknownDocumentError:
            assert name not in self.expected
        else:
            del self.expected[name]

    @rule(name=NAMES)
    def get(self, name):
        try:
            record = self.store.get(name)
        except UnknownDocumentError:
            assert name not in self.expected
            return
        number, size, text = self.expected[name]
        assert record.memory == make_memory(number, size)
        assert record.text == text

    @rule(
        documents=st.lists(DOCUMENTS, max_size=6), removed=st.lists(NAMES, max_size=3), aborts=st.booleans()
    )
    def change_several(self, documents, removed, aborts):
        expected = dict(self.expected)
        try:
            with self.store.transaction() as changes:
                for name, number, size, text in documents:
                    put(changes, name, make_memory(number, size), text=text)
                    expected[name] = (number, size, text)
                for name in removed:
                    assert (name in changes) == (name in expected)
                    if name in changes:
                        changes.remove(name)
                        del expected[name]
                if aborts:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        self.expected = expected

    @rule()
    def open_again(self):
        self.store.close()
        self.open()

    @rule()
    def compact(self):
        self.store.compact()

    @rule(after=NAMES, limit=st.integers(0, 4))
    def list_a_page(self, after, limit):
        page = [entry.name for entry in self.store.documents(after=after, limit=limit)]
        assert page == sorted(name for name in self.expected if name > after)[:limit]

    @rule()
    def check(self):
        assert list(self.store.check()) == []

    @invariant()
    def holds_what_the_dictionary_holds(self):
        assert [entry.name for entry in self.store.documents()] == sorted(self.expected)
        about = self.store.header
        assert about.documents == len(self.store) == len(self.expected)
        assert about.tokens == sum(number for number, _, _ in self.expected.values())

    def teardown(self) -> None:
        assert list(self.store.check()) == []
        self.store.close()
        self.place.cleanup()


StoreAsDictionary.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestStoreAsDictionary = pytest.mark.slow(StoreAsDictionary.TestCase)
