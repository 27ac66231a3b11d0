"""Word overlap of a question with every sentence, in little memory; phrases that repeat the question are lowered."""

from dataclasses import replace

import numpy as np
import pytest

from attar.memory.phrases import PhraseIndex
from attar.reader import phrase_scores
from attar.reader.phrase_scores import Query, content_words

NEIGHBOURS = np.array([0.5, 0.25], np.float32)


def make_query(rng, words: int, pieces: int = 50) -> Query:
    table = rng.standard_normal((pieces, 4)).astype(np.float32)
    asked = table[rng.integers(0, pieces, words)]
    return Query(np.zeros(3, np.float32), 0.0, rng.random(words, np.float32), asked, table, frozenset())


def make_index(rng, sentences: int, pieces: int = 50) -> PhraseIndex:
    words = [np.unique(rng.integers(0, pieces, rng.integers(0, 9))).tolist() for _ in range(sentences)]
    text = "a." * sentences
    return PhraseIndex.of(text, [], [(2 * at, 2 * at + 2) for at in range(sentences)], words)


def slow_overlap(query: Query, index: PhraseIndex) -> np.ndarray:
    own = np.zeros(len(index.sentence_starts))
    for at in range(len(own)):
        words = index.words[index.word_starts[at] : index.word_starts[at + 1]]
        for weight, vector in zip(query.weights, query.words, strict=True):
            own[at] += weight * max((0.0, *(query.table[words] @ vector)))
    padded = np.pad(own, 1)
    return own + NEIGHBOURS[0] * padded[:-2] + NEIGHBOURS[1] * padded[2:]


@pytest.mark.parametrize("numbers", [1, 40, 2**22], ids=["a sentence at a time", "some", "all at once"])
@pytest.mark.parametrize(("words", "sentences"), [(3, 40), (1, 1), (0, 5), (4, 0)])
def test_overlap_is_the_weighted_best_match_of_each_word(monkeypatch, numbers, words, sentences):
    monkeypatch.setattr(phrase_scores, "_NUMBERS", numbers)
    rng = np.random.default_rng(words)
    query, index = make_query(rng, words), make_index(rng, sentences)
    np.testing.assert_allclose(query.overlap(index, NEIGHBOURS), slow_overlap(query, index), rtol=1e-5)


def test_a_long_question_on_a_long_text_takes_little_memory():
    """All words of the question with all words of the text would be 400 MB."""
    import tracemalloc

    rng = np.random.default_rng(0)
    query = make_query(rng, 256, 1_000)
    words = [rng.choice(1_000, 20, replace=False).tolist() for _ in range(20_000)]
    index = PhraseIndex.of("a." * 20_000, [], [(2 * at, 2 * at + 2) for at in range(20_000)], words)
    tracemalloc.start()
    query.overlap(index, NEIGHBOURS)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60e6


def test_phrases_that_only_repeat_the_question_are_lowered():
    text = "The Finches wrote. Ann of the Finches wrote to the."
    parts = ["The Finches", "wrote", "Ann", "Ann of the Finches", "the Finches wrote", "to the"]
    phrases = sorted((text.index(part), text.index(part) + len(part), 0, 0.0) for part in parts)
    index = PhraseIndex.of(text, phrases, [(0, len(text))], [[1]])
    asked = content_words("Who are the Finches, who wrote?")
    query = replace(make_query(np.random.default_rng(0), 1), asked=asked)
    scores = np.zeros(len(phrases), np.float32)
    query.lower_repeated(scores, index)
    lowered = {index.text_of(at) for at in np.flatnonzero(scores < 0)}
    assert lowered == {"The Finches", "wrote", "the Finches wrote"}
