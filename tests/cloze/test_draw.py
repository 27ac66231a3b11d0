"""Questions drawn from a document: sentences held out of it, and always answerable from the rest."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attar.cloze import ClozeDocument, draw_questions
from attar.cloze.document import count_names

words = st.sampled_from(["met", "in", "the", "house", ".", *(f"@entity{n}" for n in range(4))])
documents = st.lists(st.lists(words, min_size=1, max_size=12), max_size=20).map(
    lambda sentences: ClozeDocument("a", "b", sentences, {n: f"Name {n}" for n in range(4)})
)


@given(documents, st.integers(0, 99), st.integers(1, 6))
def test_every_answer_is_still_in_the_rest(document: ClozeDocument, seed: int, count: int) -> None:
    drawn = draw_questions(document, np.random.default_rng(seed), count)
    left = count_names(drawn.sentences)
    assert len(drawn.questions) <= count
    assert len(drawn.sentences) + len(drawn.questions) == len(document.sentences)
    for question in drawn.questions:
        assert left[question.answer] > 0
        assert question.tokens.count("@placeholder") == 1
        assert f"@entity{question.answer}" not in question.tokens
        whole = [
            f"@entity{question.answer}" if token == "@placeholder" else token for token in question.tokens
        ]
        assert whole in document.sentences


@given(documents, st.integers(0, 99))
def test_at_most_one_sentence_in_four_is_held_out_but_for_one(document: ClozeDocument, seed: int) -> None:
    drawn = draw_questions(document, np.random.default_rng(seed), 99)
    assert len(drawn.questions) <= max(1, len(document.sentences) // 4)


@given(documents, st.integers(0, 99))
def test_sentences_too_short_or_too_long_are_no_questions(document: ClozeDocument, seed: int) -> None:
    document.sentences[:0] = [["@entity0", "met", *["the"] * 79]]
    for question in draw_questions(document, np.random.default_rng(seed), 6).questions:
        assert 6 <= len(question.tokens) <= 80


@given(documents, st.integers(0, 99), st.integers(1, 6))
def test_the_same_generator_draws_the_same(document: ClozeDocument, seed: int, count: int) -> None:
    one, other = (draw_questions(document, np.random.default_rng(seed), count) for _ in range(2))
    assert one == other


def test_every_epoch_draws_others() -> None:
    sentences = [["the", f"@entity{n % 4}", "met", "in", "the", "house", str(n)] for n in range(40)]
    document = ClozeDocument("a", "", sentences, {})
    rng = np.random.default_rng(0)
    assert len({draw_questions(document, rng, 3).questions[0] for _ in range(20)}) > 10


def test_a_document_without_names_has_no_questions() -> None:
    document = ClozeDocument("a", "", [["the", "house", "."]] * 8, {})
    assert draw_questions(document, np.random.default_rng(0), 3) == document
    assert draw_questions(ClozeDocument("a", "", [], {}), np.random.default_rng(0), 3).questions == []
