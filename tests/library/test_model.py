"""Property test: after any sequence of operations each document has the memory that the reader makes of its texts."""

import tempfile
from functools import reduce
from operator import add

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from attar.errors import NameTakenError, UnknownDocumentError
from attar.library.library import Library
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT

NAMES = st.sampled_from(["emma", "novels/emma", "two\nlines", "x" * 700])
SENTENCES = (
    "Then Ann Lee met Bob Gray in Bath.",
    "Bob Gray left Bath with Eve Marlow.",
    "Ann Lee wrote to Tom Price about it.",
    "Nobody knew why",
    "Eve Marlow and Tom Price came back from York!",
)
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4).map(" ".join)


def library_as_texts(reader):
    """A machine that keeps, beside the library, each document's text, or of a merged one the memory that it must have.

    Windows of a merged document begin anew with each part: there the reader's own `extend` is the model.
    """

    class LibraryAsTexts(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.place = tempfile.TemporaryDirectory()
            self.parts: dict[str, str | Memory] = {}
            # The texts that the library would know again.
            self.known: dict[str, str | None] = {}
            self.open()

        def open(self):
            self.library = Library(self.place.name, reader, cache=4_000)

        def expected(self, name):
            kept = self.parts[name]
            return reader.read(kept) if isinstance(kept, str) else kept

        @rule(name=NAMES, text=TEXTS, replace=st.booleans())
        def add_text(self, name, text, replace):
            known = self.known.get(name) if name in self.parts else None
            try:
                change = self.library.add(name, text, replace=replace).change
            except NameTakenError:
                assert name in self.parts
                assert not replace
                assert known != text
                return
            if name not in self.parts:
                assert change == "added"
            else:
                assert change == ("unchanged" if known == text else "replaced")
            self.parts[name] = text
            self.known[name] = text

        @rule(name=NAMES, text=TEXTS)
        def append(self, name, text):
            try:
                self.library.append(name, text)
            except UnknownDocumentError:
                assert name not in self.parts
                return
            kept = self.parts[name]
            self.parts[name] = kept + JOINT + text if isinstance(kept, str) else reader.extend(kept, text)
            self.known[name] = None

        @rule(new=NAMES, names=st.lists(NAMES, min_size=2, max_size=3, unique=True))
        def merge(self, new, names):
            if any(name not in self.parts for name in names):
                with pytest.raises(UnknownDocumentError):
                    self.library.merge(new, names, replace=True)
                return
            merged = reduce(add, map(self.expected, names))
            self.library.merge(new, names, replace=True)
            self.parts[new] = merged
            self.known[new] = None

        @rule(name=NAMES)
        def remove(self, name):
            try:
                self.library.remove(name)
            except UnknownDocumentError:
                assert name not in self.parts
            else:
                del self.parts[name]

        @rule(name=NAMES)
        def ask(self, name):
            if name not in self.parts:
                with pytest.raises(UnknownDocumentError):
                    self.library.ask(name, "Who left?")
                return
            found = self.library.ask(name, "Who left?", top=None)
            wanted = reader.answer(self.expected(name), "Who left?")
            assert {a.text: a.probability for a in found} == pytest.approx(
                {a.text: a.probability for a in wanted}, rel=1e-3
            )

        @rule()
        def open_again(self):
            self.library.close()
            self.open()

        @invariant()
        def memories_are_those_of_the_texts(self):
            assert [each.name for each in self.library.documents()] == sorted(self.parts)
            for name in self.parts:
                assert self.library.memory(name) == self.expected(name)

        def teardown(self):
            assert list(self.library.store.check()) == []
            self.library.close()
            self.place.cleanup()

    return LibraryAsTexts


@pytest.mark.slow
def test_a_library_behaves_like_a_dictionary_of_texts(reader):
    machine = library_as_texts(reader)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=12, stateful_step_count=12, deadline=None)
    )
