"""A question against the phrases of a memory: word overlap of sentences, ranking, probabilities."""

import re
from dataclasses import dataclass

import numpy as np

from attar.memory import Floats, PhraseIndex
from attar.results import ABSENT, Answer
from attar.text import COMMON, kind_of

# How much a phrase loses that only repeats words of the question, and among how many of the best phrases it is looked
# for. EM on 455 questions of SQuAD dev: .532 without, .545 with 3, .549 with 6 (docs/log.md).
_REPEATED, _REPEATED_AMONG = 4.0, 64
_WORD = re.compile(r"\w+")


def content_words(text: str) -> frozenset[str]:
    """The words of a text in lower case, but for the most common ones.

    >>> sorted(content_words("Who wrote to the Finches?"))
    ['finches', 'who', 'wrote']
    """
    return frozenset(_WORD.findall(text.lower())) - COMMON


@dataclass(frozen=True)
class Query:
    """A question: its vector `[k]`, the score of "no answer", the weights `[l]` and vectors `[l, w]` of its words.

    `table` has the vectors of all word pieces `[V, w]`, `asked` the words of the question.
    """

    vector: Floats
    null: float
    weights: Floats
    words: Floats
    table: Floats
    asked: frozenset[str]

    def lower_repeated(self, scores: Floats, index: PhraseIndex) -> None:
        """Lower the scores of phrases that only repeat words of the question: few of them are answers."""
        most = min(_REPEATED_AMONG, len(scores))
        for at in np.argpartition(-scores, most - 1)[:most].tolist():
            words = content_words(index.text_of(at))
            if words and words <= self.asked:
                scores[at] -= _REPEATED

    def overlap(self, index: PhraseIndex, neighbours: Floats) -> Floats:
        """How much each sentence shares words with the question, `[S]`."""
        starts = index.word_starts.astype(np.int64)
        filled = np.flatnonzero(starts[1:] > starts[:-1])
        best = np.zeros((len(self.words), len(starts) - 1), np.float32)
        if len(filled):
            distinct, where = np.unique(index.words, return_inverse=True)
            alike = self.words @ self.table[distinct].T
            by_word = alike[:, where]
            best[:, filled] = np.maximum.reduceat(by_word, starts[:-1][filled], axis=1)
        own = self.weights @ np.maximum(best, 0.0)
        total: Floats = own.copy()
        total[1:] += neighbours[0] * own[:-1]
        total[:-1] += neighbours[1] * own[1:]
        return total


def rank(
    scores: Floats,
    null: float,
    index: PhraseIndex,
    top: int | None,
    text: str | None,
    calibration: tuple[float, float] = (1.0, 0.0),
    total: float | None = None,
) -> list[Answer]:
    """Answers by probability; a phrase that overlaps a better one adds its probability to that.

    "Not in this text" is one of them, with the probability that no phrase is the answer. `total` is the logarithm of
    the sum that probabilities are shares of, where phrases of other documents are candidates, too.
    """
    values = np.append(scores, np.float32(null)).astype(np.float64)
    probabilities = np.exp(values - (np.logaddexp.reduce(values) if total is None else total))
    answers: list[Answer] = []
    taken: list[tuple[int, int, int]] = []
    sums: list[float] = []
    limit = len(scores) if top is None else min(len(scores), 4 * top + 12)
    order = np.argpartition(-scores, limit - 1)[:limit] if limit < len(scores) else np.arange(len(scores))
    for at in order[np.argsort(-scores[order], kind="stable")].tolist():
        start = int(index.starts[at])
        end = start + int(index.lengths[at])
        for place, (first, last, _) in enumerate(taken):
            if start < last and end > first:
                sums[place] += float(probabilities[at])
                break
        else:
            taken.append((start, end, at))
            sums.append(float(probabilities[at]))
    for place in sorted(range(len(taken)), key=lambda each: -sums[each])[:top]:
        start, end, at = taken[place]
        phrase = index.text_of(at)
        quote = None
        if text is not None:
            a, b = index.sentence_of(at)
            quote = text[a:b]
        answers.append(
            Answer(phrase, calibrated(sums[place], calibration), kind_of(phrase), quote, start, end)
        )
    absent = Answer("", float(probabilities[-1]), ABSENT)
    place = sum(answer.probability > absent.probability for answer in answers)
    return [*answers[:place], absent, *answers[place:]][:top]


def calibrated(probability: float, calibration: tuple[float, float]) -> float:
    """A probability whose log-odds are scaled and moved.

    >>> calibrated(0.5, (1.0, 0.0)), round(calibrated(0.9, (0.5, 0.0)), 2)
    (0.5, 0.75)
    """
    bounded = min(max(probability, 1e-9), 1 - 1e-9)
    odds = calibration[0] * np.log(bounded / (1 - bounded)) + calibration[1]
    return float(1 / (1 + np.exp(-odds)))
