"""How sure an answer is: features of a question and its best phrase → P(the phrase is right), P(not in this text).

A score says which phrase fits best, not that any fits: "Who left in 1991?" matches "Ann left in 1919" well. A softmax
over three outcomes (right, absent, another phrase) weighs the score with what the question has and the text lacks.
Its weights are fitted to questions that the reader was not trained on (`attar train-questions`).
"""

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from attar.memory.memory import Floats
from attar.memory.phrases import PhraseIndex
from attar.text.kinds import coarse_kind, is_english

if TYPE_CHECKING:
    from attar.reader.questions import Query

FEATURES = (
    "bias",
    "log_odds",  # of the phrase, with those that overlap it, against all others and "not in this text"
    "margin",  # log-odds of all phrases against "not in this text"
    "lead",  # log-ratio to the second phrase
    "prior",  # of the phrase, before any question
    "unmatched",  # weight of the question's words that the sentence and its neighbours lack
    "unmatched_share",
    "largest_unmatched",  # the largest weight of a word that the sentence itself lacks
    "other_kind",  # the question wants a date, a number or a name, and the phrase is none
    "any_kind",  # it wants none of these
    "words",  # of the phrase
    "pieces",  # of the question
)
# The same for the best span of a second look (`attar.reader.answers.look_features`).
LOOK_FEATURES = (
    "bias",
    "span",  # logarithm of its probability among the pieces that were read
    "present",  # log-odds that the sentences have the answer
    "alone",  # only one sentence was read
    "share",  # logarithm of the probability of its sentence's likeliest phrase
    "other_kind",  # the question wants a date, a number or a name, and the span is none
    "any_kind",  # it wants none of these
    "words",  # of the span
)
_WANTED = {
    "date": re.compile(r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|decade|century)"),
    "number": re.compile(
        r"\bhow (?:many|much|old|long|far|tall|big|large)\b|\bwhat (?:percent|number|amount)|population"
    ),
    "name": re.compile(
        r"\bwho(?:m|se)?\b|\bwhere\b|\b(?:what|which) (?:city|country|state|town|person|river|island)"
    ),
}
_FITTING = {
    "date": frozenset(("date", "time", "number")),
    "number": frozenset(("number", "money", "date", "time")),
    "name": frozenset(("name", "phrase")),
}
# Probabilities are kept this far from 0 and 1.
_LEAST = 1e-6


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features for "right" and for "absent"; above `threshold`, "absent" is the answer.

    `quote` are the weights for the sentence of the answer to be right, whichever of its words are; empty if not fitted.

    >>> rest = (0.0,) * (len(FEATURES) - 1)
    >>> Calibration((0.0, *rest), (0.0, *rest), 0.5).probabilities(np.ones(len(FEATURES), np.float32))
    (0.3333333333333333, 0.3333333333333333)
    """

    right: tuple[float, ...]
    absent: tuple[float, ...]
    threshold: float
    quote: tuple[float, ...] = ()

    def probabilities(self, features: Floats) -> tuple[float, float]:
        """That the best answer is right, and that the text has none; the rest is for other answers."""
        logits = np.array([np.dot(self.right, features), np.dot(self.absent, features), 0.0])
        values = np.exp(logits - logits.max())
        right, absent, _ = (values / values.sum()).tolist()
        return right, absent

    def quote_probability(self, features: Floats, right: float) -> float | None:
        """That the sentence of the best answer is right; at least as likely as the answer itself, `right`."""
        if not self.quote:
            return None
        return max(float(1 / (1 + np.exp(-np.dot(self.quote, features)))), right)


def calibration_for(question: str, fitted: Calibration | None) -> Calibration | None:
    """The fitted calibration, or for a question in another language, to which nothing was fitted, a constant one.

    Of 72 questions in six other languages, about a text in the same language or in English, the best phrase answered
    16. The reader always refuses them.
    """
    if fitted is None or is_english(question):
        return fitted
    rest = (0.0,) * (len(fitted.right) - 1)
    # Right with probability 0.2, absent with 0.7, whatever the scores.
    return Calibration((float(np.log(2)), *rest), (float(np.log(7)), *rest), 0.0)


def wanted_kind(question: str) -> str:
    """The kind of answer that a question asks for, if its words say so.

    >>> [wanted_kind(text) for text in ("In which year did it end?", "How many came?", "Who came?", "Why?")]
    ['date', 'number', 'name', '']
    """
    lower = question.lower()
    return next((kind for kind, pattern in _WANTED.items() if pattern.search(lower)), "")


def is_other_kind(wanted: str, text: str) -> bool:
    """Whether a date, a number or a name is wanted, and the text is none.

    >>> is_other_kind("number", "by boat"), is_other_kind("number", "twelve"), is_other_kind("", "twelve")
    (True, False, False)
    """
    return bool(wanted) and coarse_kind(text) not in _FITTING[wanted]


def features_of(
    query: "Query", index: PhraseIndex, phrase: int, probability: float, second: float, margin: float
) -> Floats:
    """The values of `FEATURES` for the best phrase; `second` is the probability of the next one."""
    bounded = _bounded(probability)
    sentence, weights = int(index.sentences[phrase]), query.weights[:-1]
    nearby, inside = _matches(query, index, sentence)
    lost, lost_inside = weights * (1 - nearby), weights * (1 - inside)
    text, wanted = index.text_of(phrase), wanted_kind(query.question)
    values = (
        1.0,
        np.log(bounded / (1 - bounded)),
        margin,
        _lead(probability, second),
        index.priors[phrase],
        lost.sum(),
        lost.sum() / max(float(weights.sum()), 1e-6),
        lost_inside.max(initial=0.0),
        is_other_kind(wanted, text),
        not wanted,
        len(text.split()),
        len(lost),
    )
    return np.array(values, np.float32)


def _bounded(probability: float) -> float:
    return min(max(probability, _LEAST), 1 - _LEAST)


def _lead(probability: float, second: float) -> float:
    return float(np.log(_bounded(probability) / max(second, 1e-9)))


def _matches(query: "Query", index: PhraseIndex, sentence: int) -> tuple[Floats, Floats]:
    """How well a sentence and its neighbours, and it alone, have each piece of the question, but for [SEP]: 0 to 1."""
    starts = index.word_starts
    last = len(starts) - 2
    first, stop = int(starts[max(sentence - 1, 0)]), int(starts[min(sentence + 1, last) + 1])
    inside = slice(int(starts[sentence]) - first, int(starts[sentence + 1]) - first)
    alike = query.words[:-1] @ query.table[index.words[first:stop]].T
    nearby, alone = (np.clip(part.max(1, initial=0.0), 0.0, 1.0) for part in (alike, alike[:, inside]))
    return nearby, alone
