"""Word overlap of a question with every sentence, in little memory; phrases that repeat the question are lowered."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from attar.memory.phrases import PhraseIndex
from attar.reader import questions
from attar.reader.questions import Query, content_words
from attar.text.kinds import without_preface

NEIGHBOURS = np.array([0.5, 0.25], np.float32)


def make_query(rng, words: int, pieces: int = 50, question: str = "") -> Query:
    table = rng.standard_normal((pieces, 4)).astype(np.float32)
    return Query(
        question=question,
        vector=np.zeros(3, np.float32),
        null=0.0,
        weights=rng.random(words, np.float32),
        words=table[rng.integers(0, pieces, words)],
        table=table,
        asked=content_words(question),
        exact=[np.array([], np.int64)] * words,
    )


def make_index(words: list[list[int]]) -> PhraseIndex:
    count = len(words)
    return PhraseIndex.of("a." * count, [], [(2 * at, 2 * at + 2) for at in range(count)], words)


def slow_overlap(query: Query, index: PhraseIndex) -> np.ndarray:
    alone = np.zeros(len(index.sentence_starts))
    for at in range(len(alone)):
        words = index.words[index.word_starts[at] : index.word_starts[at + 1]]
        for weight, vector in zip(query.weights, query.words, strict=True):
            alone[at] += weight * max((0.0, *(query.table[words] @ vector)))
    padded = np.pad(alone, 1)
    return alone + NEIGHBOURS[0] * padded[:-2] + NEIGHBOURS[1] * padded[2:]


@pytest.mark.parametrize("numbers", [1, 40, 2**22], ids=["a sentence at a time", "some", "all at once"])
@pytest.mark.parametrize(("words", "sentences"), [(3, 40), (1, 1), (0, 5), (4, 0)])
def test_overlap_is_the_weighted_best_match_of_each_word(monkeypatch, numbers, words, sentences):
    monkeypatch.setattr(questions, "_NUMBERS", numbers)
    rng = np.random.default_rng(words)
    query = make_query(rng, words)
    index = make_index(
        [np.unique(rng.integers(0, 50, rng.integers(0, 9))).tolist() for _ in range(sentences)]
    )
    found = query.overlap(index).with_neighbours(NEIGHBOURS)
    np.testing.assert_allclose(found, slow_overlap(query, index), rtol=1e-5)


def test_a_rare_word_of_the_question_lifts_the_sentences_that_have_it():
    query = replace(
        make_query(np.random.default_rng(0), 2),
        weights=np.float32([1.0, 2.0]),
        words=np.zeros((2, 4), np.float32),
        exact=[np.array([5]), np.array([7, 8])],
    )
    index = make_index([[5, 7], [5], [5, 8], [5, 9]])
    common, rare = np.log(5 / 4) / np.log(5), 2 * np.log(5 / 2) / np.log(5)
    expected = 0.8 * np.array([common + rare, common, common + rare, common])
    found = query.overlap(index).with_neighbours(NEIGHBOURS)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_long_question_on_a_long_text_takes_little_memory():
    """All words of the question with all words of the text would be 400 MB."""
    rng = np.random.default_rng(0)
    query = make_query(rng, 256, 1_000)
    index = make_index([rng.choice(1_000, 20, replace=False).tolist() for _ in range(20_000)])
    tracemalloc.start()
    query.overlap(index).with_neighbours(NEIGHBOURS)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60e6


def test_phrases_that_only_repeat_the_question_are_lowered():
    text = "The Finches wrote. Ann of the Finches wrote to the."
    parts = ["The Finches", "wrote", "Ann", "Ann of the Finches", "the Finches wrote", "to the"]
    phrases = sorted((text.index(part), text.index(part) + len(part), 0, 0.0) for part in parts)
    index = PhraseIndex.of(text, phrases, [(0, len(text))], [[]])
    query = make_query(np.random.default_rng(0), 1, question="Who are the Finches, who wrote?")
    found = query.scored(np.zeros(len(phrases), np.float32), index, NEIGHBOURS).scores
    lowered = {index.text_of(at) for at in np.flatnonzero(found < 0)}
    assert lowered == {"The Finches", "wrote", "the Finches wrote"}


@pytest.mark.parametrize(
    ("asked", "plain"),
    [
        ("Could you please tell me where the keys are?", "where the keys are?"),
        ("hi, do you know who has the keys", "who has the keys"),
        ("I'd like to know when it closes.", "when it closes."),
        ("According to the text, how old is Ann?", "how old is Ann?"),
        ("Who knows the way?", "Who knows the way?"),
        ("History of the mill?", "History of the mill?"),
        ("please", "please"),
    ],
)
def test_what_people_write_before_a_question_is_no_part_of_it(asked: str, plain: str) -> None:
    assert without_preface(asked) == plain
