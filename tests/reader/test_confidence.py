"""Probabilities by a calibration: what a question has and the text has not counts against an answer."""

from typing import Any

import numpy as np
import pytest

from attar.memory.phrases import PhraseIndex
from attar.reader.confidence import FEATURES, Calibration, features_of
from attar.reader.phrase_scores import Query, ScoredPhrases, combined, rank, total_of

TABLE = np.eye(8, dtype=np.float32)
TEXT = "Ann left in 1919. Bob ran."
# Pieces: left 1, 1919 2, ran 3, 1991 4; [SEP] 7.
INDEX = PhraseIndex.of(
    TEXT, [(0, 3, 0, 0.5), (12, 16, 0, 0.25), (18, 21, 1, 0.0)], [(0, 17), (18, 26)], [[1, 2], [3]]
)


def asked(null: float = 0.0, pieces: tuple[int, ...] = (1, 7), question: str = "", **given: Any) -> Query:
    """A question of some pieces, each with weight 1."""
    words = TABLE[list(pieces)]
    return Query(
        np.zeros(2, np.float32), null, np.ones(len(pieces), np.float32), words, TABLE, frozenset(),
        question=question, **given,
    )  # fmt: skip


def values(query: Query, phrase: int = 0) -> dict[str, float]:
    found = features_of(query, INDEX, phrase, 0.75, 0.25, 2.0)
    assert found.dtype == np.float32
    return dict(zip(FEATURES, found.tolist(), strict=True))


def weights(**given: float) -> tuple[float, ...]:
    return tuple(given.get(name, 0.0) for name in FEATURES)


class TestFeatures:
    def test_come_from_the_ranking(self) -> None:
        found = values(asked())
        assert found["bias"] == 1
        assert found["log_odds"] == pytest.approx(np.log(3))
        assert found["lead"] == pytest.approx(np.log(3))
        assert (found["margin"], found["prior"]) == (2, 0.5)

    def test_weigh_the_words_that_the_text_lacks(self) -> None:
        found = values(asked(pieces=(1, 3, 4, 5, 7)))
        # 3 is in the next sentence; 4 and 5 are in none; [SEP] does not count.
        assert (found["unmatched"], found["unmatched_share"], found["largest_unmatched"]) == (2, 0.5, 1)
        assert found["pieces"] == 4
        near = values(asked(pieces=(1, 3, 7)))
        assert (near["unmatched"], near["largest_unmatched"]) == (0, 1)

    @pytest.mark.parametrize(("pieces", "missing"), [((), 0), ((2,), 0), ((4,), 1), ((2, 4), 1)])
    def test_find_a_number_that_is_not_in_the_text(self, pieces: tuple[int, ...], missing: int) -> None:
        assert values(asked(numbers=np.array(pieces, np.int64)))["number"] == missing

    @pytest.mark.parametrize(
        ("question", "phrase", "other", "unknown"),
        [("Who left?", 0, 0, 0), ("When did Ann leave?", 0, 1, 0), ("When?", 1, 0, 0), ("Why?", 0, 0, 1)],
    )
    def test_compare_the_kind_of_phrase_with_the_one_asked_for(
        self, question: str, phrase: int, other: int, unknown: int
    ) -> None:
        found = values(asked(question=question), phrase)
        assert (found["other_kind"], found["any_kind"]) == (other, unknown)

    @pytest.mark.parametrize(("question", "negated"), [("Who didn't leave?", 1), ("Who noted it?", 0)])
    def test_find_negations(self, question: str, negated: int) -> None:
        assert values(asked(question=question))["negation"] == negated

    def test_of_an_empty_question_are_finite(self) -> None:
        for pieces in ((7,), ()):
            assert np.isfinite(list(values(asked(pieces=pieces)).values())).all()


class TestRanking:
    def test_a_right_answer_has_the_probability_of_its_calibration(self) -> None:
        calibration = Calibration(weights(bias=np.log(6.0)), weights(bias=0.0), 0.5)
        first, *others = rank(np.array([3.0, 1.0, 0.0], np.float32), asked(), INDEX, None, TEXT, calibration)
        assert (first.text, first.probability) == ("Ann", pytest.approx(0.75))
        phrases = [each for each in others if not each.absent]
        assert sum(each.probability for each in phrases) <= 0.125 + 1e-9
        assert [each.text for each in phrases] == ["1919", "Bob"]
        (absent,) = (each for each in others if each.absent)
        assert absent.probability == pytest.approx(0.125)

    @pytest.mark.parametrize(("threshold", "refused"), [(0.7, False), (0.6, True)])
    def test_refuses_above_the_threshold_only(self, threshold: float, refused: bool) -> None:
        calibration = Calibration(weights(bias=0.0), weights(bias=np.log(4.0)), threshold)
        answers = rank(np.array([3.0, 1.0, 0.0], np.float32), asked(), INDEX, 2, None, calibration)
        assert [each.absent for each in answers] == [refused, not refused]

    def test_refuses_if_no_phrase_has_a_higher_score(self) -> None:
        calibration = Calibration(weights(bias=2.0), weights(bias=0.0), 0.9)
        answers = rank(np.array([1.0, 0.0, 0.0], np.float32), asked(4.0), INDEX, 2, None, calibration)
        assert [each.absent for each in answers] == [True, False]

    def test_refuses_questions_in_other_languages_however_well_a_phrase_fits(self) -> None:
        calibration = Calibration(weights(bias=9.0), weights(bias=0.0), 0.9)
        scores = np.array([20.0, 1.0, 0.0], np.float32)
        answers = rank(scores, asked(question="Wer leitete die Sitzung?"), INDEX, None, TEXT, calibration)
        assert [each.text for each in answers] == ["", "Ann", "1919", "Bob"]
        assert [each.probability for each in answers[:2]] == pytest.approx([0.7, 0.2])
        assert sum(each.probability for each in answers) <= 1 + 1e-9
        assert rank(scores, asked(question="Who led it?"), INDEX, 1, TEXT, calibration)[0].text == "Ann"

    def test_of_several_documents_refuses_questions_in_other_languages(self) -> None:
        calibration = Calibration(weights(bias=9.0), weights(bias=0.0), 0.9)
        for question, expected in (("Wer leitete die Sitzung?", True), ("Who led it?", False)):
            scores = [np.array([20.0, 1.0, 0.0], np.float32), np.array([4.0, 1.0, 0.0], np.float32)]
            scored = ScoredPhrases(asked(question=question), scores, [INDEX, INDEX], calibration)
            total = total_of(0.0, scored.log_sums())
            shares = scored.shares(total, 2, [TEXT, TEXT])
            _, absent, refused = combined(shares, float(np.exp(-total)), scored.calibration)
            assert refused is expected
            assert (absent > 0.5) is expected

    def test_a_text_without_phrases_has_no_answer(self) -> None:
        empty = PhraseIndex.of("", [], [], [])
        calibration = Calibration(weights(), weights(), 0.5)
        (absent,) = rank(np.zeros(0, np.float32), asked(), empty, 3, None, calibration)
        assert absent.absent
        assert absent.probability == 1
