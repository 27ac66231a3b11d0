"""A question against the phrases of a memory: word overlap of sentences, ranking, probabilities."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attar.memory import Floats, PhraseIndex
from attar.results import ABSENT, Answer
from attar.text import COMMON, kind_of

# How much a phrase loses that only repeats words of the question, and among how many of the best phrases it is looked
# for. EM on 455 questions of SQuAD dev: .532 without, .545 with 3, .549 with 6 (docs/log.md).
_REPEATED, _REPEATED_AMONG = 4.0, 64
_WORD = re.compile(r"\w+")
# How many numbers the overlap of words computes at a time: 16 MB.
_NUMBERS = 2**22


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
        best = np.argpartition(-scores, most - 1)[:most]
        known = self.asked | COMMON
        for at, text in zip(best.tolist(), index.texts_of(best), strict=True):
            words = _WORD.findall(text.lower())
            if known.issuperset(words) and not COMMON.issuperset(words):
                scores[at] -= _REPEATED

    def overlap(self, index: PhraseIndex, neighbours: Floats) -> Floats:
        """How much each sentence shares words with the question, `[S]`."""
        starts = index.word_starts.astype(np.int64)
        # Each word of the text once: a table of all ids is faster than sorting them.
        present = np.zeros(len(self.table), np.bool_)
        present[index.words] = True
        distinct = np.flatnonzero(present)
        row = np.zeros(len(self.table), np.intp)
        row[distinct] = np.arange(len(distinct))
        alike = np.maximum(self.table[distinct] @ self.words.T, 0.0)
        own = np.zeros(len(starts) - 1, np.float32)
        filled = np.flatnonzero(starts[1:] > starts[:-1])
        # Some sentences at a time: a novel has 100,000 words, each with a number for every word of the question.
        bounds = np.append(starts[:-1][filled], starts[-1])
        first = 0
        while first < len(filled):
            limit = bounds[first] + _NUMBERS // max(1, len(self.words))
            last = max(first + 1, int(np.searchsorted(bounds, limit, "right")) - 1)
            by_word = alike[row[index.words[bounds[first] : bounds[last]]]]
            best = np.maximum.reduceat(by_word, bounds[first:last] - bounds[first], axis=0)
            own[filled[first:last]] = best @ self.weights
            first = last
        total: Floats = own.copy()
        total[1:] += neighbours[0] * own[:-1]
        total[:-1] += neighbours[1] * own[1:]
        return total

    def best_sentences(self, index: PhraseIndex, scores: Floats, count: int) -> list[tuple[int, int]]:
        """The characters of the sentences that fit best: by shared words, and by the score of their best phrase."""
        overlap = self.overlap(index, np.zeros(2, np.float32))
        highest = np.full(len(overlap), scores.min(initial=0.0), np.float32)
        np.maximum.at(highest, index.sentences, scores)
        order = np.argsort(-(overlap + highest), kind="stable")[:count]
        starts, lengths = index.sentence_starts[order].tolist(), index.sentence_lengths[order].tolist()
        return [(start, start + length) for start, length in zip(starts, lengths, strict=True)]


def rank_all(
    scores: Sequence[Floats],
    null: float,
    indexes: Sequence[PhraseIndex],
    top: int | None,
    texts: Sequence[str | None],
    calibration: tuple[float, float],
) -> tuple[list[list[Answer]], float]:
    """The answers of each of several documents, with probabilities over the phrases of all, and that of no answer."""
    total = float(np.logaddexp.reduce(np.concatenate([[null], *scores]).astype(np.float64)))
    ranked = [
        rank(own, null, index, top, text, calibration, total)
        for own, index, text in zip(scores, indexes, texts, strict=True)
    ]
    return [[answer for answer in own if not answer.absent] for own in ranked], float(np.exp(null - total))


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
    limit = len(scores) if top is None else min(len(scores), 4 * top + 12)
    order = np.argpartition(-scores, limit - 1)[:limit] if limit < len(scores) else np.arange(len(scores))
    order = order[np.argsort(-scores[order], kind="stable")]
    starts = index.starts[order].astype(np.int64)
    ends = starts + index.lengths[order]
    taken: list[list[Any]] = []  # start, end, phrase, probability
    for at, start, end, probability in zip(
        order.tolist(), starts.tolist(), ends.tolist(), probabilities[order].tolist(), strict=True
    ):
        for better in taken:
            if start < better[1] and end > better[0]:
                better[3] += probability
                break
        else:
            taken.append([start, end, at, probability])
    taken = sorted(taken, key=lambda each: -each[3])[:top]
    answers: list[Answer] = []
    for (start, end, at, probability), phrase in zip(
        taken, index.texts_of(np.array([each[2] for each in taken], np.intp)), strict=True
    ):
        quote = None
        if text is not None:
            a, b = index.sentence_of(at)
            quote = text[a:b]
        answers.append(
            Answer(phrase, calibrated(probability, calibration), kind_of(phrase), quote, start, end)
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
    odds = calibration[0] * math.log(bounded / (1 - bounded)) + calibration[1]
    return 1 / (1 + math.exp(-max(odds, -700.0)))
