"""Metrics against cases counted by hand."""

import pytest

from attar.training.evaluation import Given, calibration_error, exact, f1, holds, score


@pytest.mark.parametrize(
    ("given", "golds", "em", "overlap_f1"),
    [
        ("The Eiffel Tower.", ["eiffel tower"], 1, 1),
        ("in Paris, France", ["Paris"], 0, 0.5),  # 2 · 1 / (3 + 1)
        ("Paris Paris", ["Paris"], 0, 2 / 3),  # a word counts once for each time that the answer has it
        ("Rome", ["Paris", "Rome in May"], 0, 0.5),
        ("", ["Paris"], 0, 0),
        ("the", ["a"], 1, 0),  # both are empty without articles
    ],
)
def test_exact_match_and_f1(given: str, golds: list[str], em: float, overlap_f1: float) -> None:
    assert exact(given, golds) == em
    assert f1(given, golds) == pytest.approx(overlap_f1)


def test_a_sentence_holds_an_answer_as_whole_words() -> None:
    assert holds("It is in the city of Paris, France.", ["Rome", "Paris France"]) == 1
    assert holds("It is in Parish.", ["Paris"]) == 0


def test_calibration_error_weighs_bins_by_their_questions() -> None:
    # Three at 0.95, two right: |0.95 − 2/3| · 3/4; one at 0.1, right: 0.9 · 1/4.
    assert calibration_error([0.95, 0.95, 0.95, 0.1], [1, 1, 0, 1]) == pytest.approx(
        (0.95 - 2 / 3) * 0.75 + 0.9 * 0.25
    )
    assert calibration_error([1.0, 0.0], [1, 0]) == 0


class TestScores:
    given = (
        Given("Leeds", "She lives in Leeds.", False, 0.9, 0.95),  # right
        Given("Bath", "She lives in Leeds.", False, 0.6, 0.7),  # wrong, in the right sentence
        Given("Dover", "To Dover.", True, 0.8, 0.2),  # right, but refused
        Given("York", "From York.", True, 0.7, 0.3),  # rightly refused
        Given("Hull", "In Hull.", False, 0.5, 0.6),  # wrongly answered
    )
    golds = (["Leeds"], ["Leeds"], ["Dover"], [], [])
    other = (Given("a", "", True, 0.9, 0.1), Given("b", "", False, 0.6, 0.5), Given("c", "", True, 0.8, 0.15))

    def test_of_answerable_questions_ignore_refusals(self) -> None:
        scores = score(self.given, self.golds, self.other)
        assert scores.questions == 5
        assert scores.em == pytest.approx(2 / 3)
        assert scores.f1 == pytest.approx(2 / 3)
        assert scores.sentence == 1

    def test_refusals_are_counted_by_kind_of_question(self) -> None:
        scores = score(self.given, self.golds, self.other)
        assert scores.refused_other == pytest.approx(2 / 3)
        assert scores.kept == 0.5
        assert scores.refused_unanswerable == 0.5

    def test_refusals_at_the_threshold_that_keeps_right_answers(self) -> None:
        # The least confident right answer has 0.2: two of the other questions have less, no trick has.
        scores = score(self.given, self.golds, self.other)
        assert scores.refused_at_90 == pytest.approx(2 / 3)
        assert scores.tricks_at_95 == 0

    def test_calibration_error_is_that_of_the_stated_probabilities(self) -> None:
        # Said and right: 0.9 yes, 0.6 no, 0.8 (refused) no, 0.7 (refused) yes, 0.5 no; each alone in its bin.
        scores = score(self.given, self.golds, self.other)
        assert scores.calibration_error == pytest.approx((0.1 + 0.6 + 0.8 + 0.3 + 0.5) / 5)
