"""Whatever is done in whatever order, the store is a dictionary in the order of names."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from attar.memory import Memory
from attar.store import Store, UnknownNameError

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
    """The store beside a dictionary: name to (number, size, text)."""

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
        except UnknownNameError:
            assert name not in self.expected
        else:
            del self.expected[name]

    @rule(name=NAMES)
    def get(self, name):
        try:
            record = self.store.get(name)
        except UnknownNameError:
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
            with self.store.writing() as changes:
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
        page = [facts.name for facts in self.store.documents(after=after, limit=limit)]
        assert page == sorted(name for name in self.expected if name > after)[:limit]

    @rule()
    def check(self):
        assert list(self.store.check()) == []

    @invariant()
    def holds_what_the_dictionary_holds(self):
        assert [facts.name for facts in self.store.documents()] == sorted(self.expected)
        about = self.store.about
        assert about.documents == len(self.store) == len(self.expected)
        assert about.tokens == sum(number for number, _, _ in self.expected.values())

    def teardown(self) -> None:
        assert list(self.store.check()) == []
        self.store.close()
        self.place.cleanup()


StoreAsDictionary.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestStoreAsDictionary = StoreAsDictionary.TestCase
