"""Questions made from others: unanswerable ones, and others as a person might type them."""

import numpy as np

from attar.training.data import Passage, PassageQuestion
from attar.training.variants import swapped, with_swapped_questions

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
