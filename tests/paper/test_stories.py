"""Made-up stories: every question has one answer, which the story tells."""

from random import Random

import pytest

from attar.paper.stories import tell_story


@pytest.mark.parametrize("seed", range(20))
def test_no_two_facts_answer_the_same_question(seed: int) -> None:
    story = tell_story(Random(seed), "a", facts=8)
    assert len(story.questions) == 8
    assert len({question.tokens for question in story.questions}) == 8
    told = {token for sentence in story.sentences for token in sentence}
    assert all(f"@entity{question.answer}" in told for question in story.questions)
    assert all(question.tokens.count("@placeholder") == 1 for question in story.questions)
