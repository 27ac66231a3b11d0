"""The index of a library whose queries look into inverted lists, compared with one that looks at all signatures."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attar.library.library import Library
from attar.library.rounds import _found, run_rounds
from attar.reader.reader import Reader
from attar.search import scan
from attar.store.records import key_of
from benchmarks.search import fill_library, made_up, queries_like

pytestmark = pytest.mark.slow

DOCUMENTS = 2_000
TEXT = "Coffee came from Ethiopia."


@pytest.fixture(scope="module")
def shipped():
    return Reader.load()


@pytest.fixture(scope="module")
def made(tmp_path_factory, shipped):
    """A library of made-up signatures in clusters."""
    folder = tmp_path_factory.mktemp("libraries") / "library"
    with Library(folder, shipped, durability="relaxed") as library:
        fill_library(library, shipped, DOCUMENTS)
    return folder


@pytest.fixture
def filled(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "library"))


@pytest.fixture
def library(filled, shipped, monkeypatch):
    """That library, with lists."""
    few(monkeypatch)
    with opened(filled, shipped) as library:
        with_lists(library)
        yield library


def few(monkeypatch, probed=13):
    """Of so few documents, not nearly all are compared; a cluster is split into about seven lists."""
    pytest.importorskip("faiss")
    monkeypatch.setattr("attar.search.index._BY_WORDS", 10)
    monkeypatch.setattr("attar.search.scan.CANDIDATES", 20)
    monkeypatch.setattr("attar.search.lists.PROBED", probed)


def opened(folder, reader, lists_from=1_000):
    return Library(folder, reader, durability="relaxed", lists_from=lists_from)


def with_lists(library):
    for _ in range(2):
        library.search(TEXT)
    library.part._searching.index.wait_for_lists()
    return library.part._searching.index


class _Asked:
    """The part of a library for which a query's signature is given."""

    def __init__(self, library, signature):
        self._part, self._signature = library.part, signature

    def query(self, text):
        return replace(self._part.query(text), signature=self._signature)

    def __getattr__(self, name):
        return getattr(self._part, name)


def found(library, signature, text="x"):
    return [each.name for each in run_rounds(_found(text, 10), _Asked(library, signature))]


def test_what_lists_find_is_nearly_what_all_signatures_give(library, filled, shipped):
    queries = queries_like(made_up(DOCUMENTS, 1_032), 20)
    assert library.part._searching.index._lists.lists is not None
    with opened(filled, shipped, 0) as exact:
        pairs = [(found(library, each), found(exact, each)) for each in queries]
        assert with_lists(exact)._lists.lists is None
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in pairs]) >= 0.9


def test_a_document_whose_words_fit_is_compared_wherever_its_signature_lies(library, filled, shipped):
    library.add("words", TEXT)
    library.close()
    with opened(filled, shipped) as again:
        index = with_lists(again)
        assert len(index._lists.lists) == DOCUMENTS + 1
        away = -index.query(TEXT).signature
        row = index._rows[key_of("words")]
        assert row not in index._lists.lists.near(away)
        assert "words" in found(again, away, TEXT)


def test_documents_added_replaced_and_removed_since_count_at_once(library):
    lists = library.part._searching.index._lists.lists
    library.add("new", TEXT)
    assert library.search(TEXT)[0].document == "new"
    library.add("new", "Paris lies on the Seine.", replace=True)
    assert library.ask_all("What lies on the Seine?")[0].text == "Paris"
    near = queries_like(made_up(DOCUMENTS, 1_032), 1)[0]
    before = found(library, near)
    library.remove("new", before[0])
    after = found(library, near)
    assert (before[0] in after, set(before[1:]) <= set(after)) == (False, True)
    assert "new" not in [hit.document for hit in library.search(TEXT, top=50)]
    assert library.part._searching.index._lists.lists is lists


def test_what_another_process_removes_is_never_found(library, filled, shipped):
    near = queries_like(made_up(DOCUMENTS, 1_032), 3)[2]
    before = found(library, near)
    with opened(filled, shipped) as other:
        other.remove(*before[:3])
    assert not set(before[:3]) & set(found(library, near))


def test_a_library_that_shrinks_is_compared_as_a_whole_again(tmp_path, shipped, monkeypatch):
    few(monkeypatch, probed=16)
    with opened(tmp_path / "library", shipped, 200) as library:
        fill_library(library, shipped, 220)
        index = with_lists(library)
        query, words = index.query(TEXT), np.zeros(220, np.float32)
        assert 20 <= len(index._near(query, words)) < 200
        library.remove(*(document.name for document in list(library.documents())[:30]))
        library.search(TEXT)
        assert index._near(query, words) is None


def test_a_process_that_asks_once_makes_no_lists(filled, shipped):
    with opened(filled, shipped) as library:
        library.search(TEXT)
        assert library.part._searching.index._lists._current is None


def test_without_faiss_all_signatures_are_compared(filled, shipped, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with opened(filled, shipped) as library:
        assert with_lists(library)._lists.lists is None
        assert library.search(TEXT)


QUESTIONS = ["Where did coffee come from?", "the of and", "Who was first?", TEXT, TEXT]


@pytest.mark.parametrize("many", [1_000, 4_096], ids=["rounded", "exact"])
def test_many_questions_at_once_are_answered_as_each_alone(filled, shipped, monkeypatch, many):
    monkeypatch.setattr("attar.search.scan._MANY", many)
    scans = []
    near_scores = scan.near_scores
    monkeypatch.setattr(
        scan, "near_scores", lambda *given: scans.append(len(given[2])) or near_scores(*given)
    )
    with opened(filled, shipped, 0) as library:
        library.add("words", TEXT)
        alone = [library.ask_all(question, top=None) for question in QUESTIONS]
        hits = [library.search(question) for question in QUESTIONS]
    with opened(filled, shipped, 0) as library:
        del scans[:]
        assert library.ask_all_many(QUESTIONS, top=None) == alone
        # A question that comes twice is compared twice at most.
        assert scans == [len(QUESTIONS)]
        assert [library.search(question) for question in QUESTIONS] == hits


def test_many_questions_look_into_lists_as_each_does_alone(library):
    kept = library.part._searching.index._recent
    kept.clear()
    alone = [library.ask_all(question, top=None) for question in QUESTIONS]
    kept.clear()
    assert library.ask_all_many(QUESTIONS, top=None) == alone


def test_scores_of_questions_asked_together_are_kept_until_their_last_round(filled, shipped, monkeypatch):
    monkeypatch.setattr("attar.search.index._KEPT", 1)
    scans = []
    near_scores = scan.near_scores
    monkeypatch.setattr(scan, "near_scores", lambda *given: scans.append(1) or near_scores(*given))
    with opened(filled, shipped, 0) as library:
        library.ask_all_many(["Who?", "Where?", "What?"])
        assert len(scans) == 1


def test_no_questions_have_no_answers(filled, shipped):
    with opened(filled, shipped, 0) as library:
        assert library.ask_all_many([]) == []
