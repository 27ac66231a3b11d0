"""Probabilities that mean what they say: the calibration of a reader by questions with and without an answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from attar.progress import Progress, ignore_progress
from attar.reader.folders import LOOK_FEATURES, Calibration
from attar.reader.reader import Reader
from attar.training.data import Passage
from attar.training.evaluation import exact, holds

Floats = NDArray[np.float64]
# Fewer answerable questions say too little about probabilities.
FEWEST = 50
# Passages that are read, at most: some minutes on one core.
_PASSAGES = 1_200
# Passages that are read at a time.
_CHUNK = 24
# How much each group counts: questions with an answer, as most are that people ask, without one, and questions about
# other articles.
_SHARES = (0.7, 0.18, 0.12)
# Sentences that a second look is calibrated with.
_LOOKS = (1, 3)
# Features that may only make it more likely that an answer is right, and less that there is none.
_LOOK_SIGNED = tuple(map(LOOK_FEATURES.index, ("span", "share")))
# Right answers that the threshold keeps, where it can: of these passages, so that 95 % are of other kinds of text.
_KEPT = 0.97
# The outcomes of a question.
_RIGHT, _ABSENT, _WRONG = range(3)
# Of the squares of weights: few questions must not lead to certainty.
_PENALTY = 1e-3


class Outcome(NamedTuple):
    """What a question's features were, what came of it, its group in `_SHARES`, and whether the quote was right."""

    features: NDArray[np.float32]
    outcome: int
    group: int
    quoted: bool = False


def calibrate(
    reader: Reader, passages: Sequence[Passage], progress: Progress = ignore_progress
) -> Calibration | None:
    """The calibration of a reader by passages that it was not trained on; None if they have too few questions.

    Changed questions (`attar.training.variants`) have no answer.
    """
    return calibration_of(_outcomes_of(reader, passages, 0, progress))


def calibrate_look(
    reader: Reader, passages: Sequence[Passage], progress: Progress = ignore_progress
) -> Calibration | None:
    """The same for a second look, at one and at three sentences."""
    rows = [row for look in _LOOKS for row in _outcomes_of(reader, passages, look, progress)]
    return calibration_of(rows, _LOOK_SIGNED)


def _outcomes_of(reader: Reader, passages: Sequence[Passage], look: int, progress: Progress) -> list[Outcome]:
    rows: list[Outcome] = []
    asked = _sample(passages)
    for first in range(0, len(asked), _CHUNK):
        progress("calibrating", first, len(asked))
        chunk = asked[first : first + _CHUNK]
        memories = reader.read_many([passage.text for passage, _ in chunk])
        for (passage, other), memory in zip(chunk, memories, strict=True):
            known = [question for question in passage.questions if question.labelled or question.changed]
            golds = [[passage.text[start:end] for start, end in question.answers] for question in known]
            texts = [question.text for question in known]
            if other.article != passage.article:
                texts += [question.text for question in other.questions if question.labelled][:1]
            features = reader.features(memory, texts, passage.text, look, passage.name)
            for number, answered in enumerate(features):
                if answered is not None:
                    right = golds[number] if number < len(golds) else []
                    outcome = _ABSENT if not right else _RIGHT if exact(answered.phrase, right) else _WRONG
                    group = 2 if number >= len(golds) else int(not right)
                    quoted = bool(holds(answered.sentence, right))
                    rows.append(Outcome(answered.values, outcome, group, quoted))
    return rows


def _sample(passages: Sequence[Passage]) -> list[tuple[Passage, Passage]]:
    """Passages with known questions; each comes with another of its kind, whose questions it is also asked.

    Half of them have questions without an answer, written to seem answered, which people seldom ask; half have none,
    and may be of another kind of text.
    """
    kinds: dict[bool, list[Passage]] = {True: [], False: []}
    for passage in passages:
        answered = {
            bool(question.answers) for question in passage.questions if question.labelled or question.changed
        }
        if answered:
            kinds[False in answered].append(passage)
    pairs = []
    for both, members in kinds.items():
        room = max(_PASSAGES // 2, _PASSAGES - len(kinds[not both]))
        chosen = members[:: max(1, -(-len(members) // room))]
        half = len(chosen) // 2
        pairs += [(passage, chosen[(at + half) % len(chosen)]) for at, passage in enumerate(chosen)]
    return pairs


def calibration_of(rows: Sequence[Outcome], signed: Sequence[int] = ()) -> Calibration | None:
    """The calibration by outcomes; None if these are too few."""
    groups = np.array([row.group for row in rows])
    answerable = groups == 0
    if answerable.sum() < FEWEST or not (~answerable).any():
        return None
    targets = np.zeros((len(rows), 3))
    targets[np.arange(len(rows)), [row.outcome for row in rows]] = 1
    weights = np.zeros(len(rows))
    for group, share in enumerate(_SHARES):
        weights[groups == group] = share / max(1, (groups == group).sum())
    features = np.array([row.features for row in rows], float)
    fitted = fit_calibration(features, targets, weights, signed)
    quoted = np.array([row.quoted for row in rows], float)
    # The same regression with two outcomes: the sentence is right, or not.
    of_quotes = fit_calibration(features, np.stack([quoted, 0 * quoted, 1 - quoted], 1), weights, signed)
    return replace(fitted, quote=of_quotes.right)


def fit_calibration(
    features: Floats, targets: Floats, weights: Floats, signed: Sequence[int] = ()
) -> Calibration:
    """The softmax regression of `targets` `[n, 3]` on `features` `[n, f]`, and the threshold.

    The threshold is 0.5, or as much higher as it must be to keep a share of the right answers. The features `signed`
    make "right" not less likely, and "absent" not more.
    """
    from scipy.optimize import Bounds, minimize

    means, spreads = features.mean(0), features.std(0) + 1e-9
    means[0], spreads[0] = 0.0, 1.0  # the bias
    x, weights = (features - means) / spreads, weights / weights.sum()
    free = np.array([False, *[True] * (x.shape[1] - 1)])
    lowest, highest = np.full((2, x.shape[1]), -np.inf), np.full((2, x.shape[1]), np.inf)
    lowest[0, list(signed)], highest[1, list(signed)] = 0.0, 0.0

    def loss(at: Floats) -> tuple[float, Floats]:
        both = at.reshape(2, -1)
        p = _outcomes(x, both)
        value = (
            -(weights * (targets * np.log(p + 1e-12)).sum(1)).sum()
            + _PENALTY / 2 * (both[:, free] ** 2).sum()
        )
        slope = ((p - targets)[:, :2] * weights[:, None]).T @ x + _PENALTY * both * free
        return float(value), slope.ravel()

    bounds = Bounds(lowest.ravel(), highest.ravel())
    start = np.zeros(2 * x.shape[1])
    both = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x.reshape(2, -1)
    absent, right = _outcomes(x, both)[:, _ABSENT], targets[:, _RIGHT] * weights
    threshold = max(0.5, _weighted_quantile(absent, right, _KEPT)) if right.any() else 0.5
    plain = both / spreads
    plain[:, 0] -= plain @ means
    right_weights, absent_weights = (tuple(round(float(value), 5) for value in row) for row in plain)
    return Calibration(right_weights, absent_weights, round(float(threshold), 4))


def _outcomes(x: Floats, weights: Floats) -> Floats:
    logits = np.concatenate([x @ weights.T, np.zeros((len(x), 1))], 1)
    values = np.exp(logits - logits.max(1, keepdims=True))
    outcomes: Floats = values / values.sum(1, keepdims=True)
    return outcomes


def _weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """The value up to which a share of the weight is.

    >>> _weighted_quantile(np.array([0.3, 0.1, 0.9]), np.array([1.0, 8.0, 1.0]), 0.9)
    0.3
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= share * weights.sum() - 1e-12
    return float(values[order][int(reached.argmax())])
