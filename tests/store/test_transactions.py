"""Transactions are atomic, one writer at a time, in a map that grows; and a store behaves like a dictionary."""

import tempfile
import threading
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from attar.errors import BusyError, OptionError, ReaderMismatchError, StoreError, UnknownDocumentError
from attar.memory.memory import Memory
from attar.store.store import Store

SMALL_MAP = 2**18


def test_the_changes_of_a_transaction_are_atomic(store, make_memory):
    store.put("a", make_memory())
    with store.transaction() as changes:
        changes.put("b", make_memory(1))
        changes.remove("a")
        assert [entry.name for entry in store.documents()] == ["a"]
    assert [entry.name for entry in store.documents()] == ["b"]


def test_an_exception_undoes_all_changes(store, make_memory):
    store.put("a", make_memory(1))

    def fail() -> None:
        with store.transaction() as changes:
            changes.put("a", make_memory(2))
            changes.put("b", make_memory(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.memory("a") == make_memory(1)
    assert len(store) == 1


def test_a_refused_document_does_not_undo_the_others(store, make_memory):
    with store.transaction() as changes:
        changes.put("a", make_memory(1))
        with pytest.raises(ReaderMismatchError):
            changes.put("b", make_memory(2, reader="another"))
        with pytest.raises(OptionError):
            changes.put("", make_memory(2))
    assert [entry.name for entry in store.documents()] == ["a"]


def test_an_ended_transaction_cannot_be_used(store, make_memory):
    with store.transaction() as changes:
        pass
    with pytest.raises(StoreError, match="failed or ended; begin another"):
        changes.put("a", make_memory())


def test_a_record_that_is_too_large_leaves_no_values(store, make_memory, monkeypatch):
    monkeypatch.setattr("attar.store.format.LIMIT", 1000)
    with store.transaction() as changes:
        changes.put("a", make_memory(1))
        with pytest.raises(OptionError, match="at most 1,000 bytes"):
            changes.put("b", make_memory(2, 60))
    assert [entry.name for entry in store.documents()] == ["a"]
    assert list(store.check()) == []


def test_a_memory_that_float16_cannot_hold_is_kept_in_float32(tmp_path):
    with Store.open(tmp_path / "half", dtype="float16") as store:
        store.put("a", memory(1, 2))
        store.put("b", memory(70_000, 2))
        assert [(entry.name, entry.dtype) for entry in store.documents()] == [
            ("a", "float16"),
            ("b", "float32"),
        ]
        assert store.memory("b") == memory(70_000, 2)
        assert list(store.check()) == []


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(store, number):
    with store.transaction() as changes:
        changes.put("a", memory(1, 2))
        with pytest.raises(OptionError, match="memory of 'b': expected finite numbers, got NaN or infinity"):
            changes.put("b", Memory.of_matrix([[number]], tokens=1, reader="reader-1"))
    assert [entry.name for entry in store.documents()] == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"title": 5}, "title of 'a': expected `str`, got `int`"),
        ({"title": None}, "title of 'a': expected `str`, got `None`"),
        ({"title": "\ud800"}, "entry of 'a': expected text, got half of a surrogate pair"),
        ({"digest": "abc"}, "digest of 'a': expected `bytes`, got `str`"),
        ({"digest": b"x" * 33}, "digest of 'a': expected `bytes` of length <= 32"),
    ],
)
def test_an_entry_that_could_not_be_read_again_is_refused(store, make_memory, options, message):
    store.put("b", make_memory(2))
    with pytest.raises(OptionError, match=message):
        store.put("a", make_memory(1), **options)
    assert [entry.name for entry in store.documents()] == ["b"]


def test_a_transaction_sees_its_own_changes(store, make_memory):
    with store.transaction() as changes:
        changes.put("a", make_memory(1), text="one")
        assert "a" in changes
        assert changes.get("a").text == "one"
        assert changes.header.documents == 1
        changes.remove("a")
        assert "a" not in changes


def test_a_document_may_change_several_times_in_one_transaction(folder, make_memory):
    with Store.open(folder) as store, store.transaction() as changes:
        for number in range(20):
            changes.put("a", make_memory(number, 100))
    with Store.open(folder) as store:
        assert store.memory("a") == make_memory(19, 100)
        assert list(store.check()) == []


def test_a_transaction_without_changes_writes_nothing(store):
    before = store.stats().changes
    with store.transaction():
        pass
    assert store.stats().changes == before


def test_the_map_grows_over_several_transactions(folder, make_memory):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        for number in range(60):
            store.put(str(number), make_memory(number, 60))
        assert store.stats().map_bytes > SMALL_MAP
        assert all(store.memory(str(number)) == make_memory(number, 60) for number in range(60))
        assert list(store.check()) == []


def test_the_map_grows_within_one_transaction(folder, make_memory):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        store.put("old", make_memory(0, 60))
        with store.transaction() as changes:
            changes.remove("old")
            for number in range(60):
                changes.put(str(number), make_memory(number, 60))
        assert store.stats().map_bytes > SMALL_MAP
        assert len(store) == 60
        assert list(store.check()) == []


@pytest.mark.slow
def test_the_map_grows_between_snapshots_of_other_threads(folder, make_memory):
    done, faults = threading.Event(), []

    def read(store):
        while not done.is_set():
            with store.snapshot() as snapshot:
                some = list(snapshot.documents())[:3]
                faults.extend(f for f in some if snapshot.memory(f.name, check=True).tokens != f.tokens)

    with Store.open(folder, map_size=SMALL_MAP) as store:
        threads = [threading.Thread(target=read, args=(store,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(60):
            store.put(str(number), make_memory(number, 60))
        done.set()
        for thread in threads:
            thread.join()
        assert store.stats().map_bytes > SMALL_MAP
    assert faults == []


def test_the_map_cannot_grow_during_a_snapshot_of_the_same_thread(folder, make_memory):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        store.put("a", make_memory(1))

        def outgrow() -> None:
            with store.transaction() as changes:
                for number in range(60):
                    changes.put(str(number), make_memory(number, 60))

        def swallow() -> None:
            with store.transaction() as changes:
                with pytest.raises(StoreError, match="no open snapshot"):
                    changes.put("large", make_memory(1, 400))
                changes.put("small", make_memory(1))

        with store.snapshot() as snapshot:
            with pytest.raises(StoreError, match="no open snapshot or transaction in this thread"):
                outgrow()
            with pytest.raises(StoreError, match="failed or ended"):
                swallow()
            assert snapshot.memory("a") == make_memory(1)
        assert len(store) == 1
        store.put("b", make_memory(2))
        assert list(store.check()) == []


def test_a_transaction_within_a_transaction_is_refused(store, make_memory):
    with store.transaction(), pytest.raises(StoreError, match="a second within the first"):
        store.put("a", make_memory())


def test_a_second_writing_thread_waits(store, make_memory):
    began = threading.Event()

    def second():
        began.set()
        store.put("b", make_memory(2))

    thread = threading.Thread(target=second)
    with store.transaction() as changes:
        thread.start()
        began.wait()
        changes.put("a", make_memory(1))
        assert "b" not in changes
    thread.join()
    assert len(store) == 2


def test_a_second_writing_thread_times_out(store, make_memory):
    errors = []

    def second():
        try:
            store.put("b", make_memory(2), timeout=0.01)
        except BusyError as fault:
            errors.append(str(fault))

    with store.transaction():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert ["another writer, still at work after 0.01 s; wait for it" in line for line in errors] == [True]


NAMES = st.one_of(
    st.sampled_from(["a", "b", "a/b", "x" * 478, "x" * 479, "x" * 600, "x" * 600 + "y"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3),
)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SIZES = st.sampled_from([2, 30, 60])
DOCUMENTS = st.tuples(NAMES, st.integers(0, 99), SIZES, TEXTS)


def memory(number: int, size: int) -> Memory:
    return Memory.of_matrix(np.eye(size) * number, tokens=number, reader="reader-1")


class StoreAsDictionary(RuleBasedStateMachine):
    """The store compared with a dictionary: name to (number, size, text)."""

    @initialize()
    def make(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "store"
        self.expected: dict[str, tuple[int, int, str | None]] = {}
        self.open()

    def open(self) -> None:
        self.store = Store.open(self.folder, durability="none", map_size=2**18)

    @rule(document=DOCUMENTS)
    def put(self, document):
        name, number, size, text = document
        self.store.put(name, memory(number, size), text=text)
        self.expected[name] = (number, size, text)

    @rule(name=NAMES)
    def remove(self, name):
        try:
            self.store.remove(name)
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
        assert record.memory == memory(number, size)
        assert record.text == text

    @rule(
        documents=st.lists(DOCUMENTS, max_size=6), removed=st.lists(NAMES, max_size=3), aborts=st.booleans()
    )
    def change_several(self, documents, removed, aborts):
        expected = dict(self.expected)
        try:
            with self.store.transaction() as changes:
                for name, number, size, text in documents:
                    changes.put(name, memory(number, size), text=text)
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
