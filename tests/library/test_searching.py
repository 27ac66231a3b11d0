"""Searching a library, and asking all of its documents, with the reader that ships."""

import contextlib
from dataclasses import replace

import lmdb
import numpy as np
import pytest

from attar.errors import FormatError, OptionError
from attar.library.library import Library
from attar.library.parts import SearchPart
from attar.library.searching import SearchState
from attar.reader.reader import Reader
from attar.results import Refit
from attar.search.records import SignatureRecord
from attar.search.statistics import Statistics
from attar.store.records import Record, key_of
from attar.store.signatures import STATISTICS_KEY

pytestmark = pytest.mark.slow

TEXTS = {
    "emma": "Emma Woodhouse lived at Hartfield with her father. Mr. Knightley owned Donwell Abbey.",
    "rome": "Rome is the capital of Italy. The Tiber flows through the city. The Colosseum was finished in 80 AD.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
    "salt": "Salt is mined near Salzburg. It was traded along the Salzach for centuries.",
}


@pytest.fixture(scope="module")
def shipped():
    return Reader.load()


@pytest.fixture
def library(tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library:
        library.add_many(TEXTS.items())
        yield library


def test_loading_signatures_makes_none(tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library:
        old = Record.of("old", shipped.read(TEXTS["tea"]), text=TEXTS["tea"])
        library.store.put(old, reader=shipped.fingerprint)
        library.add("rome", TEXTS["rome"])
        library.load_signatures()
        assert len(library._searching.index) == 1
        library.search("tea")
        assert len(library._searching.index) == 2


def found(library, query):
    return [hit.document for hit in library.search(query)]


def record(library, name):
    signature = library.store.get(name).signature
    return None if signature is None else SignatureRecord.from_bytes(signature)


def without_signature(library, *names):
    """Write documents again as they are, but without their signatures."""
    with library.store.transaction() as changes:
        for name in names:
            bare = replace(changes.get(name), signature=None)
            changes.put(bare, reader=library.reader.fingerprint, replacing=bare.entry)


@pytest.mark.parametrize(
    ("query", "name"),
    [("river of the Italian capital", "rome"), ("Who owned Donwell Abbey?", "emma"), ("mining salt", "salt")],
)
def test_search_finds_documents_with_their_best_sentences(library, query, name):
    best = library.search(query)[0]
    assert best.document == name
    assert best.sentences
    for sentence in best.sentences:
        assert TEXTS[name][sentence.start : sentence.end] == sentence.text


def test_ask_all_answers_with_document_and_quote(library):
    answer = library.ask_all("Where was tea first drunk?")[0]
    assert (answer.text, answer.document, answer.quote) == ("China", "tea", "It was first drunk in China.")
    assert TEXTS["tea"][answer.start : answer.end] == "China"


def test_probabilities_are_shares_of_all_documents(library):
    answers = library.ask_all("Where was tea first drunk?", top=None)
    assert {answer.document for answer in answers} == {*TEXTS, None}
    assert [answer.probability for answer in answers] == sorted(
        (answer.probability for answer in answers), reverse=True
    )


def test_not_in_this_library_is_an_answer(library):
    assert library.ask_all("Who discovered penicillin?")[0].absent


def test_an_empty_library_has_no_answer(tmp_path, shipped):
    with Library(tmp_path / "empty", shipped) as library:
        assert [answer.absent for answer in library.ask_all("Who?")] == [True]
        assert library.search("Who?") == []


@pytest.mark.parametrize("query", ["the of and", "___", "\ud800", "x" * 5_000])
def test_odd_queries_are_answered(library, query):
    assert len(library.search(query)) == len(TEXTS)
    library.ask_all(query)


def test_a_question_as_long_as_a_book_is_refused(library):
    for ask in (library.search, library.ask_all):
        with pytest.raises(FormatError, match="at most 10,000 characters, got 50,000,000"):
            ask("x" * 50_000_000)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("x" * 2_000_000, 1), ("salt " * 1_500, 1_500)],
    ids=["no space", "no end of a sentence"],
)
def test_a_text_of_one_long_line_is_read_and_found(library, text, tokens):
    library.add("line", text)
    assert library.show("line").tokens == tokens
    assert "line" in found(library, "salt")
    assert "line" in found(library, "tea")


def test_texts_of_stop_words_only_are_found_behind_others(tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library:
        library.add_many([("stop", "the of and"), ("dots", "..."), ("again", "the of and")])
        assert set(found(library, "the of")) == {"stop", "again", "dots"}
        library.add("tea", TEXTS["tea"])
        assert found(library, "leaves of Camellia sinensis")[0] == "tea"
        library.refit()
        assert found(library, "leaves of Camellia sinensis")[0] == "tea"


def test_top_must_be_a_number_from_1_up(library):
    with pytest.raises(OptionError, match="top"):
        library.search("tea", top=0)


def test_removed_and_replaced_documents_are_never_found(library):
    assert found(library, "river of the Italian capital")[0] == "rome"
    library.add("tea", "Paris lies on the Seine.", replace=True)
    library.remove("rome")
    assert "rome" not in found(library, "river of the Italian capital")
    assert found(library, "leaves of Camellia sinensis")[-1] != "rome"
    assert library.ask_all("What lies on the Seine?")[0].text == "Paris"


def test_what_another_process_writes_is_found(library, tmp_path, shipped):
    assert found(library, "tea")
    with Library(tmp_path / "library", shipped) as other:
        other.add("new", "Coffee came from Ethiopia.")
        other.remove("salt")
    names = found(library, "Where did coffee come from?")
    assert names[0] == "new"
    assert "salt" not in names


def test_an_appended_document_has_the_signature_of_the_whole(library, shipped):
    library.append("tea", "Black tea is oxidised. Assam lies in India.")
    library.append("tea", "Milk is added in England.")
    whole = library.show("tea").text
    with Library(library.store.path.with_name("other"), shipped) as other:
        other.add("tea", whole)
        expected, came = record(other, "tea"), record(library, "tea")
    assert came.tokens == expected.tokens
    np.testing.assert_array_equal(came.word_counts[0], expected.word_counts[0])
    bits = [np.unpackbits(np.frombuffer(each.signature, np.uint8)) for each in (came, expected)]
    assert (bits[0] == bits[1]).mean() > 0.99
    assert library.ask_all("Where does Assam lie?")[0].text == "India"


def test_merged_documents_are_found(library):
    library.merge("both", ["tea", "salt"])
    assert {"both", "tea"} == set(found(library, "leaves of Camellia sinensis")[:2])


def test_merged_sums_are_those_of_the_parts(tmp_path, shipped):
    with Library(tmp_path / "short", shipped, keep_text=False) as library:
        library.add_many(TEXTS.items())
        library.merge("both", ["tea", "salt"])
        a, b, both = (record(library, name).sums() for name in ("tea", "salt", "both"))
        np.testing.assert_allclose(both.triangle, a.triangle + b.triangle, rtol=1e-6)
        assert found(library, "mining salt")[0] in ("both", "salt")


def test_missing_signatures_are_made_from_texts_and_kept(library):
    without_signature(library, *TEXTS)
    assert record(library, "tea") is None
    assert found(library, "leaves of Camellia sinensis")[0] == "tea"
    assert record(library, "tea") is not None


def test_a_read_only_library_without_signatures_is_searched(library, tmp_path, shipped):
    without_signature(library, "tea")
    library.close()
    with Library(tmp_path / "library", shipped, read_only=True) as reading:
        assert found(reading, "leaves of Camellia sinensis")[0] == "tea"
        assert reading.search_state == SearchState([], 0.0)


def test_documents_without_text_and_signature_are_left_out_with_a_line(tmp_path, shipped):
    with Library(tmp_path / "library", shipped, keep_text=False) as library:
        library.add_many(TEXTS.items())
        without_signature(library, "tea")
        assert "tea" not in found(library, "leaves of Camellia sinensis")
        (line,) = library.search_state.lines()
        assert line.startswith("1 documents are left out, such as 'tea'")


def test_damaged_statistics_are_one_line(library):
    with library.store.transaction() as changes:
        changes.put_statistics(b"damaged")
    with pytest.raises(OptionError, match="statistics of the library"):
        library.search("tea")


@contextlib.contextmanager
def raw(library):
    """The values of a library that is closed first, as another program could write them."""
    path = library.store.path
    library.close()
    with lmdb.open(str(path), map_size=2**30) as environment, environment.begin(write=True) as values:
        yield values


def test_statistics_with_a_wrong_checksum_are_one_line_and_fitted_again(library, shipped):
    with raw(library) as values:
        values.put(STATISTICS_KEY, b"garbage")
    with Library(library.store.path, shipped) as opened:
        with pytest.raises(OptionError, match="attar store refit"):
            opened.search("tea")
        opened.refit()
        assert found(opened, "leaves of Camellia sinensis")[0] == "tea"


def test_what_an_earlier_version_wrote_without_signatures_is_found(library, shipped):
    """It adds, changes and removes documents, and leaves the signatures as they are."""
    places = {name: b"s" + key_of(name) for name in (*TEXTS, "new")}
    with library.store.snapshot() as now:
        before = {place: now._transaction.get(place) for place in places.values()}
        before = {place: value and bytes(value) for place, value in before.items()}
    library.add("new", TEXTS["rome"])
    library.add("salt", TEXTS["emma"], replace=True)
    library.remove("tea")
    with raw(library) as values:
        for place, value in before.items():
            values.delete(place) if value is None else values.put(place, value)
    with Library(library.store.path, shipped) as opened:
        names = found(opened, "Who owned Donwell Abbey?")
        assert set(names[:2]) == {"emma", "salt"}
        assert set(names) == {"emma", "salt", "rome", "new"}


def test_refit_makes_signatures_with_the_documents_own_statistics(library):
    before = record(library, "tea").statistics
    assert library.refit() == Refit(len(TEXTS))
    assert record(library, "tea").statistics != before
    assert found(library, "leaves of Camellia sinensis")[0] == "tea"
    assert list(library.store.check()) == []


@pytest.fixture
def without_text(tmp_path, shipped):
    """A library of which one document has a signature and no text."""
    with Library(tmp_path / "library", shipped, keep_text=False) as library:
        library.add("rome", TEXTS["rome"])
    with Library(tmp_path / "library", shipped) as library:
        library.add("tea", TEXTS["tea"])
        yield library


def test_refit_refuses_to_lose_documents_without_a_text(without_text):
    before = record(without_text, "tea")
    with pytest.raises(OptionError, match=r"got 1 without, such as 'rome'.*--leave-out"):
        without_text.refit()
    assert record(without_text, "tea") == before
    assert found(without_text, "river of the Italian capital")[0] == "rome"


def test_refit_leaves_out_documents_without_a_text_if_told(without_text):
    assert without_text.refit(leave_out=True) == Refit(1, left_out=1)
    assert found(without_text, "leaves of Camellia sinensis") == ["tea"]
    (line,) = without_text.search_state.lines()
    assert line.startswith("1 documents are left out, such as 'rome'")


def after_some_progress(change, task="signatures"):
    """A progress callback that changes something at the first document of a task."""

    def progress(name, at, count):
        if (name, at) == (task, 0):
            change()

    return progress


@pytest.mark.parametrize("task", ["fitting", "signatures"])
def test_refit_goes_on_without_a_document_that_is_removed_meanwhile(library, task):
    progress = after_some_progress(lambda: library.remove("salt"), task)
    assert library.refit(progress=progress) == Refit(len(TEXTS) - 1)
    assert set(found(library, "mining salt")) == TEXTS.keys() - {"salt"}


def test_refit_refuses_a_document_without_a_text_that_comes_meanwhile(library, shipped):
    before = record(library, "tea")
    with Library(library.store.path, shipped, keep_text=False) as other:
        progress = after_some_progress(lambda: other.add("new", "Coffee came from Ethiopia."))
        with pytest.raises(OptionError, match="such as 'new'"):
            library.refit(progress=progress)
    assert record(library, "tea") == before


def test_what_changes_during_a_refit_is_found(library):
    text = "Coffee came from Ethiopia."
    library.refit(progress=after_some_progress(lambda: library.add("tea", text, replace=True)))
    assert found(library, "Where did coffee come from?")[0] == "tea"


@pytest.mark.parametrize("kind", [b"f", b"t"], ids=["entry", "text"])
def test_refit_counts_damaged_documents(library, shipped, kind):
    with raw(library) as values:
        values.put(kind + key_of("salt"), b"garbage")
    with Library(library.store.path, shipped) as opened:
        assert opened.refit() == Refit(len(TEXTS) - 1, damaged=1)


def test_a_long_text_is_fitted_window_by_window(library, monkeypatch):
    library.add("long", 200 * (TEXTS["rome"] + " "))
    longest = []
    with_states = Statistics.with_states
    monkeypatch.setattr(
        Statistics,
        "with_states",
        lambda self, ids, states: longest.append(len(states)) or with_states(self, ids, states),
    )
    library.refit()
    assert max(longest) <= 512


def test_drifted_statistics_suggest_a_refit():
    (line,) = SearchState([], 0.25).lines()
    assert "attar store refit" in line


def test_a_search_starts_again_if_the_library_is_refitted_meanwhile(library, monkeypatch):
    query, refits = SearchPart.query, []

    def refitting(self, text):
        made = query(self, text)
        if not refits:
            refits.append(library.refit())
        return made

    monkeypatch.setattr(SearchPart, "query", refitting)
    assert found(library, "the river in the capital of Italy")[0] == "rome"
    assert len(refits) == 1


def test_a_library_that_was_moved_to_the_fixed_reader_is_searched_and_asked(library):
    library.reread("fixed")
    assert found(library, "the river in the capital of Italy")[0] == "rome"
    assert library.search_state.lines() == []
    assert library.ask_all("Where was tea first drunk?", top=1)[0].document == "tea"


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_query_or_question_is_refused(library, empty):
    for ask in (library.search, library.ask_all, lambda text: library.ask("tea", text)):
        with pytest.raises(FormatError, match="got nothing"):
            ask(empty)
