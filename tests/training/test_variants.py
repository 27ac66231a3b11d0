"""Questions made from others: unanswerable ones, and others as a person might type them."""

import numpy as np

from attar.training.data import Passage, PassageQuestion
from attar.training.variants import as_typed, swapped, with_swapped_questions, with_typo

QUESTION = "When did the Royal Navy leave Malta in 1979?"
PASSAGE = Passage(
    "In 1979 the Royal Navy left Malta. The first ships went to Gibraltar in 1980.",
    "a",
    (PassageQuestion("When did the Royal Navy leave Malta?", ((3, 7),)),),
)


def test_the_answer_is_not_put_into_the_question() -> None:
    texts = [
        swapped("Who came in 1980?", [], ["1979"], {"1979"}, np.random.default_rng(n)) for n in range(20)
    ]
    assert set(texts) == {None}


def test_changed_questions_are_added_without_a_label() -> None:
    added = [
        question
        for seed in range(20)
        for passage in with_swapped_questions([PASSAGE], seed)
        for question in passage.questions[1:]
    ]
    assert "When did the Royal Navy leave Gibraltar?" in {question.text for question in added}
    assert not any(question.labelled or question.answers for question in added)


def test_a_question_is_typed_in_many_ways() -> None:
    ways = {as_typed(QUESTION, np.random.default_rng(seed)) for seed in range(200)}
    assert QUESTION.rstrip("?") in ways
    assert "When Royal Navy leave Malta 1979" in ways
    assert any(way.startswith("could you please tell me when did") for way in ways)
    assert all("1979" in way for way in ways)


def test_a_typo_changes_one_word_by_at_most_one_letter() -> None:
    for seed in range(100):
        typed = with_typo(QUESTION, np.random.default_rng(seed))
        changed = [pair for pair in zip(QUESTION.split(), typed.split(), strict=True) if pair[0] != pair[1]]
        assert len(changed) <= 1
        assert abs(len(typed) - len(QUESTION)) <= 1
