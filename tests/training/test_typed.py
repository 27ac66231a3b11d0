import numpy as np

from attar.training.variants import as_typed, with_typo

QUESTION = "When did the Royal Navy leave Malta in 1979?"


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


def test_a_text_without_longer_words_has_no_typo() -> None:
    assert with_typo("is it on", np.random.default_rng(0)) == "is it on"
