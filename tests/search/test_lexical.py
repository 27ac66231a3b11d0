"""BM25 that documents are added to and removed from equals BM25 of the documents that are there."""

import numpy as np
import pytest

from attar.search.lexical import Lexical


def counts(*words):
    return np.unique(np.array(words), return_counts=True)


@pytest.fixture
def documents():
    random = np.random.default_rng(1)
    return [counts(*random.integers(0, 50, random.integers(3, 30))) for _ in range(80)]


def scores_of(documents, query):
    index = Lexical(50)
    index.append(documents)
    return index.scores(index.corpus(query))


@pytest.mark.parametrize("unsorted", [0, 10, 1_000])
def test_documents_added_later_score_as_if_they_had_been_there(documents, unsorted, monkeypatch):
    monkeypatch.setattr("attar.search.lexical._UNSORTED", unsorted)
    index, query = Lexical(50), np.array([3, 17, 40])
    for each in documents:
        index.append([each])
    np.testing.assert_allclose(index.scores(index.corpus(query)), scores_of(documents, query), rtol=1e-5)


@pytest.mark.parametrize("unsorted", [0, 30, 1_000])
def test_removed_documents_score_zero_and_count_no_more(documents, unsorted, monkeypatch):
    monkeypatch.setattr("attar.search.lexical._UNSORTED", unsorted)
    index, query = Lexical(50), np.array([3, 17, 40])
    index.append(documents[:40])
    index.remove(5)
    index.append(documents[40:])
    index.remove(60)
    rest = [each for at, each in enumerate(documents) if at not in (5, 60)]
    found = index.scores(index.corpus(query))
    assert found[5] == found[60] == 0
    np.testing.assert_allclose(np.delete(found, [5, 60]), scores_of(rest, query), rtol=1e-5)


def test_words_of_most_documents_alone_find_nothing(documents):
    everywhere = [counts(1, *each[0]) for each in documents]
    assert not scores_of(everywhere, np.array([1])).any()
