"""Questions are sentences held out of documents, always answerable from the rest."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.cloze.documents import ClozeDocument, count_names
from attar.cloze.encoded import EncodedSplit, encode_split
from attar.cloze.questions import DrawnQuestions, QuestionDrawer, concatenate_ranges, draw_questions
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import story_document, tell_stories

VOCABULARY_FILE = Vocabulary(("met", "in", "the", "house", "."), entities=20)

words = st.sampled_from(["met", "in", "the", "house", ".", *(f"@entity{n}" for n in range(4))])
documents = st.lists(st.lists(words, min_size=1, max_size=12), max_size=20).map(
    lambda sentences: ClozeDocument("a", "b", sentences, {n: f"Name {n}" for n in range(4)})
)


@given(documents, st.integers(0, 99), st.integers(1, 6))
def test_every_answer_is_still_in_the_document(document: ClozeDocument, seed: int, count: int) -> None:
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
def test_at_most_one_sentence_in_four_is_held_out_and_at_least_one_allowed(
    document: ClozeDocument, seed: int
) -> None:
    drawn = draw_questions(document, np.random.default_rng(seed), 99)
    assert len(drawn.questions) <= max(1, len(document.sentences) // 4)


@given(documents, st.integers(0, 99))
def test_questions_have_6_to_80_tokens(document: ClozeDocument, seed: int) -> None:
    document.sentences[:0] = [["@entity0", "met", *["the"] * 79]]
    for question in draw_questions(document, np.random.default_rng(seed), 6).questions:
        assert 6 <= len(question.tokens) <= 80


@given(documents, st.integers(0, 99), st.integers(1, 6))
def test_the_same_seed_draws_the_same_questions(document: ClozeDocument, seed: int, count: int) -> None:
    one, other = (draw_questions(document, np.random.default_rng(seed), count) for _ in range(2))
    assert one == other


def test_each_call_draws_other_questions() -> None:
    sentences = [["the", f"@entity{n % 4}", "met", "in", "the", "house", str(n)] for n in range(40)]
    document = ClozeDocument("a", "", sentences, {})
    rng = np.random.default_rng(0)
    assert len({draw_questions(document, rng, 3).questions[0] for _ in range(20)}) > 10


def test_a_document_without_names_has_no_questions() -> None:
    document = ClozeDocument("a", "", [["the", "house", "."]] * 8, {})
    assert draw_questions(document, np.random.default_rng(0), 3) == document
    assert draw_questions(ClozeDocument("a", "", [], {}), np.random.default_rng(0), 3).questions == []


splits = st.lists(st.lists(st.lists(words, max_size=12), max_size=20), max_size=5).map(
    lambda documents: encode_split(
        [ClozeDocument("", "", sentences, {}) for sentences in documents], VOCABULARY_FILE
    )
)


@pytest.fixture(scope="module")
def stories() -> EncodedSplit:
    told = [story_document(story, str(n)) for n, story in enumerate(tell_stories(3, 200))]
    return encode_split(told, VOCABULARY_FILE)


def draw(split: EncodedSplit, seed: int, count: int) -> DrawnQuestions:
    return QuestionDrawer(split).draw(np.random.default_rng(seed), count)


def questions_by_document(
    split: EncodedSplit, drawn: DrawnQuestions
) -> list[tuple[list[list[int]], dict[int, int]]]:
    """Each document's sentences as names, -1 for other words, and which token of which sentence is blanked."""
    found = []
    for d in range(len(split)):
        first, last = split.document_sentences[d : d + 2]
        starts = split.sentence_starts[first : last + 1]
        sentences = [split.names[start:stop].tolist() for start, stop in pairwise(starts)]
        own = slice(*drawn.document_questions[d : d + 2])
        chosen = drawn.sentences[own] - first
        blanks = drawn.blanks[own] - split.sentence_starts[drawn.sentences[own]]
        assert ((chosen >= 0) & (chosen < last - first)).all()
        found.append((sentences, dict(zip(chosen.tolist(), blanks.tolist(), strict=True))))
        assert len(found[-1][1]) == len(chosen)
    return found


def possible_blanks(sentence: list[int], left: Counter[int]) -> list[int]:
    """The places of names that stand once in the sentence, and still elsewhere once it is held out."""
    return [
        at
        for at, name in enumerate(sentence)
        if name >= 0 and sentence.count(name) == 1 and left[name] - sentence.count(name) > 0
    ]


def check(sentences: list[list[int]], chosen: dict[int, int], count: int) -> None:
    """The rule, in plain Python: what was chosen may be asked, and nothing more could have been."""
    room = min(count, max(1, len(sentences) // 4))
    kept = [sentence for at, sentence in enumerate(sentences) if at not in chosen]
    left = Counter(name for sentence in kept for name in sentence)
    answers = {sentences[at][blank] for at, blank in chosen.items()}
    assert len(chosen) <= room
    for at, blank in chosen.items():
        assert 6 <= len(sentences[at]) <= 80
        assert sentences[at][blank] >= 0
        assert sentences[at].count(sentences[at][blank]) == 1
    assert all(left[answer] > 0 for answer in answers)
    if len(chosen) < room:
        for at, sentence in enumerate(sentences):
            if at not in chosen and 6 <= len(sentence) <= 80:
                blocked = any(left[name] <= sentence.count(name) for name in answers.intersection(sentence))
                assert blocked or not possible_blanks(sentence, left), f"sentence {at} could be asked too"


@given(splits, st.integers(0, 99), st.integers(1, 6))
def test_drawing_from_a_split_obeys_the_rule(split: EncodedSplit, seed: int, count: int) -> None:
    drawn = draw(split, seed, count)
    assert len(drawn.sentences) == len(drawn.blanks) == drawn.document_questions[-1]
    for sentences, chosen in questions_by_document(split, drawn):
        check(sentences, chosen, count)


@pytest.mark.parametrize("count", [1, 3, 99])
def test_drawing_from_stories_obeys_the_rule(stories: EncodedSplit, count: int) -> None:
    for sentences, chosen in questions_by_document(stories, draw(stories, count, count)):
        check(sentences, chosen, count)
        assert len(chosen) == 1 or count > 1


@given(splits, st.integers(0, 99), st.integers(1, 6))
def test_the_same_seed_draws_the_same_questions_from_a_split(
    split: EncodedSplit, seed: int, count: int
) -> None:
    one, other = draw(split, seed, count), draw(split, seed, count)
    for name in ("sentences", "blanks", "document_questions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_each_draw_from_a_split_differs(stories: EncodedSplit) -> None:
    drawer, rng = QuestionDrawer(stories), np.random.default_rng(0)
    draws = [tuple(drawer.draw(rng, 2).blanks.tolist()) for _ in range(5)]
    assert len(set(draws)) == 5
    again, rng = QuestionDrawer(stories), np.random.default_rng(0)
    assert [tuple(again.draw(rng, 2).blanks.tolist()) for _ in range(5)] == draws


def test_all_possible_blanks_are_drawn_equally_often() -> None:
    sentence = ["@entity0", "met", "@entity1", "in", "the", "@entity2", "."]
    split = encode_split([ClozeDocument("", "", [sentence] * 4, {})], VOCABULARY_FILE)
    drawer, rng = QuestionDrawer(split), np.random.default_rng(0)
    drawn = Counter(int(drawer.draw(rng, 1).blanks[0]) for _ in range(1200))
    assert sorted(drawn) == [7 * row + place for row in range(4) for place in (0, 2, 5)]
    assert all(60 < times < 140 for times in drawn.values())


def test_sentences_of_6_to_80_tokens_are_drawn() -> None:
    def drawn_of(length: int) -> int:
        sentence = ["@entity0", *["the"] * (length - 1)]
        split = encode_split([ClozeDocument("", "", [sentence, ["@entity0"]], {})], VOCABULARY_FILE)
        return len(draw(split, 0, 5).sentences)

    assert [drawn_of(length) for length in (5, 6, 80, 81)] == [0, 1, 1, 0]


def test_drawn_questions_are_in_sentence_order(stories: EncodedSplit) -> None:
    drawn = draw(stories, 0, 3)
    assert (np.diff(drawn.sentences) > 0).all()
    assert (np.diff(np.searchsorted(stories.sentence_starts, drawn.blanks, "right")) > 0).all()


def test_documents_without_names_or_sentences_get_no_questions() -> None:
    plain = ClozeDocument("", "", [["in", "the", "house", "the", "house", "."]] * 8, {})
    asked = ClozeDocument("", "", [["@entity3", "in", "the", "house", "house", "."]] * 8, {})
    split = encode_split([plain, ClozeDocument("", "", [], {}), asked, plain], VOCABULARY_FILE)
    assert draw(split, 0, 2).document_questions.tolist() == [0, 0, 0, 2, 2]
    assert draw(encode_split([], VOCABULARY_FILE), 0, 2).document_questions.tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_ranges_are_concatenated(pairs: list[tuple[int, int]]) -> None:
    starts, lengths = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    expected = [number for start, length in pairs for number in range(start, start + length)]
    assert concatenate_ranges(starts, starts + lengths).tolist() == expected
