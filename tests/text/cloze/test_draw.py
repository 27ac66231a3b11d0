"""Questions drawn from a document: on tokens and on ids the same, and always answerable from the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.text.cloze import ClozeDocument, EncodedDocument, draw_questions, encode_document
from attar.text.cloze.document import count_names
from attar.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(("met", "in", "the", "house", "."), entities=8)
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


@given(documents, st.integers(0, 99), st.integers(1, 6))
def test_drawing_on_ids_equals_drawing_on_tokens(document: ClozeDocument, seed: int, count: int) -> None:
    on_tokens = encode_document(draw_questions(document, np.random.default_rng(seed), count), VOCABULARY)
    on_ids = encode_document(document, VOCABULARY).draw(np.random.default_rng(seed), count)
    for name in ("ids", "sentence_starts", "question_ids", "question_starts", "answers"):
        np.testing.assert_array_equal(getattr(on_ids, name), getattr(on_tokens, name))
        assert getattr(on_ids, name).dtype == np.int32


def test_every_epoch_draws_others() -> None:
    sentences = [["the", f"@entity{n % 4}", "met", "in", "the", "house", str(n)] for n in range(40)]
    document = ClozeDocument("a", "", sentences, {})
    rng = np.random.default_rng(0)
    assert len({draw_questions(document, rng, 3).questions[0] for _ in range(20)}) > 10


@given(documents, st.integers(0, 99))
def test_shuffled_names_keep_who_is_who(document: ClozeDocument, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = encode_document(document, VOCABULARY).draw(rng, 3)
    shuffled = drawn.shuffle_names(rng)

    def pattern(encoded: EncodedDocument) -> list[list[int]]:
        both = [*encoded.ids.tolist(), *encoded.question_ids.tolist(), *(encoded.answers + 3).tolist()]
        return [[at for at, number in enumerate(both) if number == one] for one in dict.fromkeys(both)]

    assert pattern(shuffled) == pattern(drawn)
    names = shuffled.ids[shuffled.mention_places]
    assert ((names >= 3) & (names < 3 + 8)).all()
    np.testing.assert_array_equal(shuffled.mention_places, drawn.mention_places)


def test_a_document_without_names_has_no_questions() -> None:
    document = ClozeDocument("a", "", [["the", "house", "."]] * 8, {})
    assert draw_questions(document, np.random.default_rng(0), 3) == document
    encoded = encode_document(document, VOCABULARY)
    assert encoded.draw(np.random.default_rng(0), 3) is encoded
    assert len(encode_document(ClozeDocument("a", "", [], {}), VOCABULARY).ids) == 0


def test_more_names_than_the_vocabulary_has_are_refused() -> None:
    with pytest.raises(FormatError, match=r"a: expected names up to @entity7, got @entity8; .* entities=9"):
        encode_document(ClozeDocument("a", "", [["@entity8"]], {8: "Ann"}), VOCABULARY)
