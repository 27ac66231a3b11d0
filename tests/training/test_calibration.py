"""A calibration is fitted to outcomes: probabilities say how often they hold, and right answers are kept."""

from collections.abc import Sequence

import numpy as np
import pytest

from attar.reader.folders import FEATURES
from attar.reader.reader import Features
from attar.training.calibration import FEWEST, calibrate, fit_calibration
from attar.training.data import Passage, PassageQuestion


def drawn(count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Features, and outcomes that two of them decide."""
    random = np.random.default_rng(0)
    features = random.normal(size=(count, len(FEATURES)))
    features[:, 0] = 1
    logits = np.stack(
        [0.3 + features[:, 1], -0.2 - features[:, 1] + 0.5 * features[:, 2], 0 * features[:, 1]], 1
    )
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    chosen = (random.random(count)[:, None] > p.cumsum(1)).sum(1)
    return features, np.eye(3)[chosen]


def test_finds_the_weights_that_made_the_outcomes() -> None:
    features, targets = drawn()
    features[:, 1:] = features[:, 1:] * 3 + 1  # scales do not matter
    found = fit_calibration(features, targets, np.ones(len(features)))
    said = np.array([found.probabilities(row) for row in features[:4_000]])
    for at in (0, 1):
        likely = said[:, at] > 0.5
        assert said[likely, at].mean() == pytest.approx(targets[:4_000][likely, at].mean(), abs=0.03)


def test_the_threshold_keeps_right_answers() -> None:
    features, targets = drawn(4_000)
    found = fit_calibration(features, targets, np.ones(len(features)))
    right = features[targets[:, 0] > 0]
    kept = [found.probabilities(row)[1] <= found.threshold for row in right]
    assert found.threshold >= 0.5
    assert np.mean(kept) >= 0.96


class Knowing:
    """A reader that answers every question with its last word, and is surer the longer the question is."""

    def read_many(self, texts: Sequence[str]) -> Sequence[str]:
        return texts

    def features(
        self, memory: str, questions: Sequence[str], text: str, look: int, name: str
    ) -> list[Features | None]:
        row = np.zeros(len(FEATURES), np.float32)
        row[0] = 1
        return [Features(question.split()[-1], text, row) for question in questions]


def passages(count: int) -> list[Passage]:
    right, absent = PassageQuestion("say Ann", ((0, 3),)), PassageQuestion("say Bob")
    return [Passage("Ann left.", f"article {at}", (right, absent)) for at in range(count)]


def test_needs_enough_questions() -> None:
    assert calibrate(Knowing(), passages(FEWEST - 1)) is None  # type: ignore[arg-type]
    unlabelled = [Passage("Ann.", "a", (PassageQuestion("who", labelled=False),))]
    assert calibrate(Knowing(), unlabelled) is None  # type: ignore[arg-type]


def test_says_how_often_an_answer_is_right() -> None:
    found = calibrate(Knowing(), passages(FEWEST))  # type: ignore[arg-type]
    assert found is not None
    constant = np.eye(len(FEATURES), dtype=np.float32)[0]
    # Three quarters of the questions have an answer, and all of these are right.
    assert found.probabilities(constant)[0] == pytest.approx(0.7, abs=0.02)
    # The sentence is right even where other words of it are.
    assert found.quote_probability(constant, 0.0) == pytest.approx(0.7, abs=0.02)
