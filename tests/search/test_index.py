"""The index of a library whose queries look into inverted lists, compared with one that looks at all signatures."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attar.library.finding import find_candidates
from attar.library.library import Library
from attar.search import scan
from attar.search.signatures import signature_bytes
from attar.store.records import key_of
from benchmarks.search import fill_library, made_up, queries_like

DOCUMENTS = 2_000
# Rows of the tiny reader's signatures.
SIZE = 16
TEXT = "Coffee came from Ethiopia."
QUESTIONS = ["Where did coffee come from?", "the of and", "Who was first?", TEXT, TEXT]


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_reader):
    """A library of made-up signatures in clusters."""
    folder = tmp_path_factory.mktemp("libraries") / "library"
    with Library(folder, tiny_reader, durability="relaxed") as library:
        fill_library(library, tiny_reader, DOCUMENTS)
    return folder


@pytest.fixture
def filled(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "library"))


@pytest.fixture
def library(filled, tiny_reader, monkeypatch):
    """That library, with lists."""
    few(monkeypatch)
    with opened(filled, tiny_reader) as library:
        with_lists(library)
        yield library


def few(monkeypatch, probed=40):
    """Not nearly all documents are compared, though they are few."""
    pytest.importorskip("faiss")
    monkeypatch.setattr("attar.search.index._BY_WORDS", 10)
    for place in ("scan", "ranking"):
        monkeypatch.setattr(f"attar.search.{place}.CANDIDATES", 20)
    monkeypatch.setattr("attar.search.scan.PROBED", probed)


def opened(folder, reader, lists_from=1_000):
    return Library(folder, reader, durability="relaxed", lists_from=lists_from)


def index_of(library):
    with library.opened() as shard:
        return shard._index


def with_lists(library):
    """The index of a library, once its lists are made: they are begun with the second question."""
    for _ in range(2):
        library.search(TEXT)
    index = index_of(library)
    index.wait_for_lists()
    return index


def found(library, signature, text="x"):
    """The best documents for a query whose signature is given."""
    index = index_of(library)
    query, index._query = index._query, lambda text: replace(query(text), signature=signature)
    try:
        with library.opened() as shard:
            ((*candidates,),) = find_candidates(shard.alone, [text], 10)
    finally:
        index._query = query
        index._recent.clear()
    return [document.name for document in candidates]


def queries(count):
    return queries_like(made_up(DOCUMENTS, signature_bytes(SIZE)), count, SIZE)


def test_what_lists_find_is_nearly_what_all_signatures_give(library, filled, tiny_reader):
    assert index_of(library)._lists.lists is not None
    with opened(filled, tiny_reader, 0) as exact:
        pairs = [(found(library, query), found(exact, query)) for query in queries(20)]
        assert with_lists(exact)._lists.lists is None
    assert np.mean([len(set(near) & set(of_all)) / 10 for near, of_all in pairs]) >= 0.9


def test_a_document_whose_words_fit_is_compared_wherever_its_signature_lies(library, filled, tiny_reader):
    library.add("words", TEXT)
    library.close()
    with opened(filled, tiny_reader) as again:
        index = with_lists(again)
        assert len(index._lists.lists) == DOCUMENTS + 1
        away = -index._query(TEXT).signature
        row = index._table.keys.index(key_of("words"))
        assert row not in index._lists.lists.near(away)
        assert "words" in found(again, away, TEXT)


def test_documents_added_replaced_and_removed_since_count_at_once(library):
    lists = index_of(library)._lists.lists
    library.add("new", TEXT)
    near = index_of(library)._query(TEXT).signature
    assert found(library, near, TEXT)[0] == "new"
    before = found(library, near, TEXT)
    library.remove("new", before[1])
    after = found(library, near, TEXT)
    assert not {"new", before[1]} & set(after)
    assert set(before[2:]) <= set(after)
    assert index_of(library)._lists.lists is lists


def test_what_another_process_removes_is_never_found(library, filled, tiny_reader):
    near = queries(3)[2]
    before = found(library, near)
    with opened(filled, tiny_reader) as other:
        other.remove(*before[:3])
    assert not set(before[:3]) & set(found(library, near))


def test_a_library_that_shrinks_is_compared_as_a_whole_again(tmp_path, tiny_reader, monkeypatch):
    few(monkeypatch, probed=16)
    with opened(tmp_path / "library", tiny_reader, 200) as library:
        fill_library(library, tiny_reader, 220)
        index = with_lists(library)
        query, words = index._query(TEXT), np.zeros(220, np.float32)
        assert 20 <= len(index._near(query, words)) < 200
        library.remove(*(document.name for document in list(library.documents())[:30]))
        library.search(TEXT)
        assert index._near(query, words) is None


def test_a_process_that_asks_once_makes_no_lists(filled, tiny_reader):
    with opened(filled, tiny_reader) as library:
        library.search(TEXT)
        assert index_of(library)._lists._current is None


def test_without_faiss_all_signatures_are_compared(filled, tiny_reader, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with opened(filled, tiny_reader) as library:
        assert with_lists(library)._lists.lists is None
        assert library.search(TEXT)


def test_many_questions_look_into_lists_as_each_does_alone(library):
    recent = index_of(library)._recent
    recent.clear()
    alone = [library.ask_all(question, top=None) for question in QUESTIONS]
    recent.clear()
    assert library.ask_all_many(QUESTIONS, top=None) == alone


def test_scores_of_questions_asked_together_are_kept_until_their_last_step(filled, tiny_reader, monkeypatch):
    monkeypatch.setattr("attar.search.index._KEPT", 1)
    scans = []
    scanned = scan.near_scores
    monkeypatch.setattr(scan, "near_scores", lambda *given: scans.append(1) or scanned(*given))
    with opened(filled, tiny_reader, 0) as library:
        library.ask_all_many(["Who?", "Where?", "What?"])
        assert len(scans) == 1
