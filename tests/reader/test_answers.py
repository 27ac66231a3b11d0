"""Scores become answers: overlapping phrases are joined, probabilities calibrated, questions without answer refused."""

import numpy as np
import pytest

from attar.memory.phrases import PhraseIndex
from attar.reader.answers import features_of, rank
from attar.reader.folders import FEATURES, Calibration
from attar.reader.questions import Query

TABLE = np.eye(8, dtype=np.float32)
TEXT = "Ann left in 1919. Bob ran."
# Pieces: left 1, 1919 2, ran 3, 1991 4; [SEP] 7.
INDEX = PhraseIndex.of(
    TEXT, [(0, 3, 0, 0.5), (12, 16, 0, 0.25), (18, 21, 1, 0.0)], [(0, 17), (18, 26)], [[1, 2], [3]]
)


def asked(null: float = 0.0, pieces: tuple[int, ...] = (1, 7), question: str = "") -> Query:
    """A question of some pieces, each with weight 1."""
    return Query(
        question=question,
        vector=np.zeros(2, np.float32),
        null=null,
        weights=np.ones(len(pieces), np.float32),
        words=TABLE[list(pieces)],
        table=TABLE,
        asked=frozenset(),
        exact=[np.array([piece]) for piece in pieces],
    )


def values(query: Query, phrase: int = 0) -> dict[str, float]:
    found = features_of(query, INDEX, phrase, 0.75, 0.25, 2.0)
    assert found.dtype == np.float32
    return dict(zip(FEATURES, found.tolist(), strict=True))


def weights(**given: float) -> tuple[float, ...]:
    return tuple(given.get(name, 0.0) for name in FEATURES)


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


def test_features_weigh_the_words_that_the_text_lacks() -> None:
    found = values(asked(pieces=(1, 3, 4, 5, 7)))
    # 3 is in the next sentence; 4 and 5 are in none; [SEP] does not count.
    assert (found["unmatched"], found["unmatched_share"], found["largest_unmatched"]) == (2, 0.5, 1)
    assert found["pieces"] == 4
    near = values(asked(pieces=(1, 3, 7)))
    assert (near["unmatched"], near["largest_unmatched"]) == (0, 1)
