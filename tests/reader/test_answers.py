"""Scores become answers: overlapping phrases are joined, probabilities calibrated, questions without answer refused."""

import numpy as np
import pytest

from attar.memory.phrases import PhraseIndex
from attar.reader.answers import rank
from attar.reader.confidence import Calibration
from tests.reader.test_confidence import INDEX, TEXT, asked, weights


def test_overlapping_phrases_are_joined_to_the_likeliest() -> None:
    text = "Ann Lee met Bob."
    phrases = [(0, 3, 0, 0.0), (0, 7, 0, 0.0), (4, 7, 0, 0.0), (12, 15, 0, 0.0)]
    index = PhraseIndex.of(text, phrases, [(0, 16)], [[1]])
    odds = np.array([1.0, 4.0, 2.0, 2.0], np.float32)
    answers = rank(np.log(odds), asked(), index, None, text)
    assert [(answer.text, round(answer.probability, 6)) for answer in answers] == [
        ("Ann Lee", 0.7),
        ("Bob", 0.2),
        ("", 0.1),
    ]
    assert rank(np.log(odds), asked(), index, 1, text) == answers[:1]


def test_not_in_this_text_comes_first_if_it_is_likeliest() -> None:
    index = PhraseIndex.of("Ann left.", [(0, 3, 0, 0.0)], [(0, 9)], [[1]])
    absent, ann = rank(np.zeros(1, np.float32), asked(np.log(3.0)), index, None, None)
    assert (absent.absent, absent.probability) == (True, pytest.approx(0.75))
    assert (ann.text, ann.probability, ann.quote) == ("Ann", pytest.approx(0.25), None)


def test_a_right_answer_has_the_probability_of_its_calibration() -> None:
    calibration = Calibration(weights(bias=np.log(6.0)), weights(bias=0.0), 0.5)
    first, *others = rank(np.array([3.0, 1.0, 0.0], np.float32), asked(), INDEX, None, TEXT, calibration)
    assert (first.text, first.probability) == ("Ann", pytest.approx(0.75))
    phrases = [answer for answer in others if not answer.absent]
    assert sum(answer.probability for answer in phrases) <= 0.125 + 1e-9
    assert [answer.text for answer in phrases] == ["1919", "Bob"]
    (absent,) = (answer for answer in others if answer.absent)
    assert absent.probability == pytest.approx(0.125)


@pytest.mark.parametrize(("threshold", "refused"), [(0.7, False), (0.6, True)])
def test_refuses_above_the_threshold_only(threshold: float, refused: bool) -> None:
    calibration = Calibration(weights(bias=0.0), weights(bias=np.log(4.0)), threshold)
    answers = rank(np.array([3.0, 1.0, 0.0], np.float32), asked(), INDEX, 2, None, calibration)
    assert [answer.absent for answer in answers] == [refused, not refused]
