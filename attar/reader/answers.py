"""Scores into answers: the likeliest phrases of one document or of several, and their probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from msgspec import structs

from attar.memory.memory import Floats
from attar.memory.phrases import PhraseIndex
from attar.reader.confidence import Calibration, calibration_for, features_of, with_lead
from attar.reader.look_answers import found_sentences
from attar.reader.questions import Query
from attar.reader.second_look import FoundSentence
from attar.results import ABSENT, Answer
from attar.text.kinds import kind_of

# At least this many of the best phrases are compared, so that probabilities hardly depend on how many are asked for.
_RANKED = 24
# Characters before and after a phrase that tell its kind.
_AROUND = 40


@dataclass(slots=True)
class RankedPhrase:
    """A phrase's number and place; a phrase that overlaps a better one adds its probability to that."""

    phrase: int
    start: int
    end: int
    probability: float


class RankedPhrases(NamedTuple):
    """Phrases that do not overlap, the likeliest first, with the softmax of their scores; `absent` is "no answer"."""

    phrases: list[RankedPhrase]
    absent: float

    @property
    def probabilities(self) -> list[float]:
        return [phrase.probability for phrase in self.phrases]

    def features(self, query: Query, index: PhraseIndex) -> Floats:
        """What the calibration of the first phrase is computed from."""
        first = self.phrases[0]
        second = self.phrases[1].probability if len(self.phrases) > 1 else 0.0
        margin = _log_odds_of_any(self.absent)
        return features_of(query, index, first.phrase, first.probability, second, margin)


def rank_phrases(
    scores: Floats, null: float, index: PhraseIndex, top: int | None, total: float | None = None
) -> RankedPhrases:
    """The best phrases of a memory.

    `total` is the logarithm of the sum that probabilities are shares of, where phrases of other documents are
    candidates, too.
    """
    values = np.append(scores, np.float32(null)).astype(np.float64)
    probabilities = np.exp(values - (np.logaddexp.reduce(values) if total is None else total))
    limit = len(scores) if top is None else min(len(scores), max(4 * top + 12, _RANKED))
    order = np.argpartition(-scores, limit - 1)[:limit] if limit < len(scores) else np.arange(len(scores))
    order = order[np.argsort(-scores[order], kind="stable")]
    starts = index.starts[order].astype(np.int64)
    ends = starts + index.lengths[order]
    taken: list[RankedPhrase] = []
    for phrase, start, end, probability in zip(
        order.tolist(), starts.tolist(), ends.tolist(), probabilities[order].tolist(), strict=True
    ):
        for better in taken:
            if start < better.end and end > better.start:
                better.probability += probability
                break
        else:
            taken.append(RankedPhrase(phrase, start, end, probability))
    taken.sort(key=lambda ranked: -ranked.probability)
    return RankedPhrases(taken, float(probabilities[-1]))


def rank(
    scores: Floats,
    query: Query,
    index: PhraseIndex,
    top: int | None,
    text: str | None,
    calibration: Calibration | None = None,
) -> list[Answer]:
    """Answers by probability. "Not in this text" is one of them, and the first if the reader refuses to answer.

    It refuses if no phrase has a higher score, or if its probability is above the calibration's threshold.
    """
    ranked = rank_phrases(scores, query.null, index, top)
    probabilities, absent = ranked.probabilities, ranked.absent
    refused = not ranked.phrases or absent > probabilities[0]
    calibration, quote = calibration_for(query.question, calibration), None
    if calibration is not None and ranked.phrases:
        features = ranked.features(query, index)
        right, absent = calibration.probabilities(features)
        refused |= absent > calibration.threshold
        probabilities = _shared_out(probabilities, right, 1 - right - absent)
        quote = calibration.quote_probability(features)
    answers = _answers(ranked.phrases[:top], probabilities[:top], index, text)
    if answers:
        answers[0] = structs.replace(answers[0], quote_probability=quote)
    place = 0 if refused else max(1, sum(answer.probability > absent for answer in answers))
    return [*answers[:place], Answer("", absent, ABSENT), *answers[place:]][:top]


class Shares(NamedTuple):
    """The likeliest phrases of one document among those of several documents.

    `answers` have the shares of the softmax over all, `firsts` are the two largest, `mass` is the sum; `features` are
    there for the document with the largest share, without its lead over the second of all.
    """

    answers: list[Answer]
    firsts: list[float]
    mass: float
    features: Floats | None = None


@dataclass(frozen=True)
class ScoredPhrases:
    """A question and the scores of the phrases of several documents, which may be some of those that are asked."""

    query: Query
    scores: list[Floats]
    indexes: list[PhraseIndex]
    fitted: Calibration | None

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of answers to this question."""
        return calibration_for(self.query.question, self.fitted)

    def log_sums(self) -> list[float]:
        """The logarithm of the sum over each document's phrases."""
        return [float(np.logaddexp.reduce(scores.astype(np.float64))) for scores in self.scores]

    @property
    def total(self) -> float:
        """The logarithm of the sum over the phrases of these documents, and "no answer"."""
        return total_of(self.query.null, self.log_sums())

    def found_sentences(
        self, total: float, count: int, texts: Sequence[str | None]
    ) -> list[list[FoundSentence]]:
        """The best sentences of each document, to be read again; `total` as of `shares`.

        There are none of a text that is not kept, or that is not the one that was read.
        """
        return [
            found_sentences(self.query, index, scores, total, text, count)
            if text is not None and len(text) == index.characters
            else []
            for scores, index, text in zip(self.scores, self.indexes, texts, strict=True)
        ]

    def shares(self, total: float, top: int | None, texts: Sequence[str | None]) -> list[Shares]:
        """The likeliest phrases of each document; `total` is the logarithm of the sum over all documents."""
        ranked = [
            rank_phrases(scores, self.query.null, index, top, total)
            for scores, index in zip(self.scores, self.indexes, strict=True)
        ]
        shares = [
            Shares(
                _answers(document.phrases[:top], document.probabilities[:top], index, text),
                document.probabilities[:2],
                sum(document.probabilities),
            )
            for document, index, text in zip(ranked, self.indexes, texts, strict=True)
        ]
        at = _likeliest(shares)
        if at is not None and self.calibration is not None:
            margin = _log_odds_of_any(float(np.exp(self.query.null - total)))
            first = ranked[at].phrases[0]
            features = features_of(self.query, self.indexes[at], first.phrase, first.probability, 1.0, margin)
            shares[at] = shares[at]._replace(features=features)
        return shares


def _likeliest(shares: Sequence[Shares]) -> int | None:
    """The document that has the likeliest phrase, the last of equals."""
    with_phrases = [at for at, document in enumerate(shares) if document.firsts]
    return max(with_phrases, key=lambda at: (shares[at].firsts[0], at), default=None)


def total_of(null: float, log_sums: Sequence[float]) -> float:
    """The logarithm of the sum over the phrases of all documents, and "no answer"."""
    return float(np.logaddexp.reduce(np.array([null, *log_sums])))


class CombinedAnswers(NamedTuple):
    """The answers of each of several documents, the probability of no answer, and whether the reader refuses."""

    by_document: list[list[Answer]]
    absent: float
    refused: bool


def combined(shares: Sequence[Shares], absent: float, calibration: Calibration | None) -> CombinedAnswers:
    """The answers of several documents; `absent` is the share of "no answer" in the softmax over all."""
    answers = [document.answers for document in shares]
    best = _likeliest(shares)
    if best is None:
        return CombinedAnswers(answers, absent, False)
    first = shares[best].firsts[0]
    seconds = [
        document.firsts[1:] if at == best else document.firsts[:1] for at, document in enumerate(shares)
    ]
    second = max((probability for document in seconds for probability in document), default=0.0)
    refused = absent > first
    features = shares[best].features
    if calibration is None or features is None:
        return CombinedAnswers(answers, absent, refused)
    features = with_lead(features, first, second)
    right, absent = calibration.probabilities(features)
    refused |= absent > calibration.threshold
    rest = sum(document.mass for document in shares) - first
    factor = min(right / first, max(1 - right - absent, 0.0) / max(rest, 1e-30))
    answers = [
        [structs.replace(answer, probability=answer.probability * factor) for answer in document]
        for document in answers
    ]
    quote = calibration.quote_probability(features)
    answers[best][0] = structs.replace(answers[best][0], probability=right, quote_probability=quote)
    return CombinedAnswers(answers, absent, refused)


def _answers(
    ranked: Sequence[RankedPhrase], probabilities: Sequence[float], index: PhraseIndex, text: str | None
) -> list[Answer]:
    """Phrases as answers."""
    texts = index.texts_of(np.array([phrase.phrase for phrase in ranked], np.intp))
    answers = []
    for phrase, words, probability in zip(ranked, texts, probabilities, strict=True):
        start, end, quote, around = phrase.start, phrase.end, None, ("", "")
        if text is not None:
            quote = text[slice(*index.sentence_of(phrase.phrase))]
            around = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
        answers.append(Answer(words, probability, kind_of(words, *around), quote, start, end))
    return answers


def _shared_out(probabilities: list[float], right: float, others: float) -> list[float]:
    """Probabilities in the same proportions with the first `right`, the rest together at most `others`.

    >>> [round(share, 2) for share in _shared_out([0.5, 0.25, 0.25], 0.8, 0.1)]
    [0.8, 0.05, 0.05]
    """
    rest = [right * probability / max(probabilities[0], 1e-30) for probability in probabilities[1:]]
    factor = min(1.0, max(others, 0.0) / max(sum(rest), 1e-30))
    return [right, *(probability * factor for probability in rest)]


def _log_odds_of_any(absent: float) -> float:
    """The log-odds that any phrase answers, from the probability that none does."""
    bounded = min(max(absent, 1e-30), 1 - 1e-12)
    return float(np.log((1 - bounded) / bounded))
