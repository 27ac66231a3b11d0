"""A question against the phrases of a memory: word overlap of sentences, ranking, probabilities."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from attar.memory.forms import Floats
from attar.memory.phrases import PhraseIndex
from attar.reader.confidence import Calibration, calibration_for, features_of, with_lead
from attar.results import ABSENT, Answer
from attar.text.kinds import COMMON, kind_of
from attar.text.sentences import sentence_spans

# How much a phrase loses that only repeats words of the question, and among how many of the best phrases it is looked
# for. EM on 455 questions of SQuAD dev: .532 without, .545 with 3, .549 with 6 (docs/log.md).
_REPEATED, _REPEATED_AMONG = 4.0, 64
# At least this many of the best phrases are compared, so that probabilities hardly depend on how many are asked for.
_RANKED = 24
# Characters before and after a phrase that tell its kind.
_AROUND = 40
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
    # The ids of its pieces that are numbers.
    numbers: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))
    question: str = ""

    def lower_repeated(self, scores: Floats, index: PhraseIndex) -> None:
        """Lower the scores of phrases that only repeat words of the question: few of them are answers."""
        most = min(_REPEATED_AMONG, len(scores))
        best = np.argpartition(-scores, most - 1)[:most]
        known = self.asked | COMMON
        for at, text in zip(best.tolist(), index.texts_of(best), strict=True):
            first = _WORD.search(text)
            if first is None or first[0].lower() not in known:  # nearly all: the rest takes most of the time
                continue
            words = _WORD.findall(text.lower())
            if known.issuperset(words) and not COMMON.issuperset(words):
                scores[at] -= _REPEATED

    def overlap(self, index: PhraseIndex, neighbours: Floats) -> Floats:
        """How much each sentence shares words with the question, `[S]`."""
        starts = index.word_starts.astype(np.int64)
        distinct, row = index.distinct_words
        alike = np.maximum(self.table[distinct] @ self.words.T, 0.0)
        own = np.zeros(len(starts) - 1, np.float32)
        filled = np.flatnonzero(starts[1:] > starts[:-1])
        # Some sentences at a time: a novel has 100,000 words, each with a number for every word of the question.
        bounds = np.append(starts[:-1][filled], starts[-1])
        first = 0
        while first < len(filled):
            limit = bounds[first] + _NUMBERS // max(1, len(self.words))
            last = max(first + 1, int(np.searchsorted(bounds, limit, "right")) - 1)
            by_word = alike[row[bounds[first] : bounds[last]]]
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
        known = np.flatnonzero(index.known_sentences)
        order = known[np.argsort(-(overlap + highest)[known], kind="stable")][:count]
        starts, lengths = index.sentence_starts[order].tolist(), index.sentence_lengths[order].tolist()
        return [(start, start + length) for start, length in zip(starts, lengths, strict=True)]

    def sentence_weights(self, index: PhraseIndex, scores: Floats) -> Floats:
        """The score of each sentence's best phrase, above that of the worst sentence, `[S]`.

        Scores have all parts: phrase vector, prior, and the overlap of words, that of neighbouring sentences included.
        A phrase counts with those that it overlaps, as in the ranking: the sentence of the first answer weighs most.
        """
        best = np.full(len(index.sentence_starts), scores.min(initial=np.inf), np.float64)
        if not len(scores):
            return np.zeros_like(best, np.float32)
        np.maximum.at(best, index.sentences, scores)
        highest = float(scores.max())
        ranked = rank_phrases(scores, self.null, index, 1, total=highest)
        sums = highest + np.log(np.maximum(ranked.probabilities, 1e-300))
        np.maximum.at(best, index.sentences[ranked.phrases], sums)
        weights: Floats = (best - best.min()).astype(np.float32)
        return weights

    def word_weights(self, text: str, index: PhraseIndex, scores: Floats) -> tuple[list[str], list[float]]:
        """The words of a text, and the weight of each for the question: that of its sentence."""
        by_sentence = self.sentence_weights(index, scores)
        tokens, weights = [], []
        for start, end in sentence_spans(text):
            words = text[start:end].split()
            tokens += words
            # Found by its place: a budget may have left out sentences.
            at = np.searchsorted(index.sentence_starts, start, side="right") - 1
            weights += [float(by_sentence[at])] * len(words)
        return tokens, weights


class Ranked(NamedTuple):
    """Phrases that do not overlap, the likeliest first: numbers, places, and the softmax of their scores.

    A phrase that overlaps a better one adds its probability to that. `absent` is the softmax of "no answer".
    """

    phrases: list[int]
    places: list[tuple[int, int]]
    probabilities: list[float]
    absent: float

    def features(self, query: Query, index: PhraseIndex) -> Floats:
        """What the calibration of the first phrase is computed from."""
        second = self.probabilities[1] if len(self.phrases) > 1 else 0.0
        margin = _log_odds_of_any(self.absent)
        return features_of(query, index, self.phrases[0], self.probabilities[0], second, margin)


def rank_phrases(
    scores: Floats, null: float, index: PhraseIndex, top: int | None, total: float | None = None
) -> Ranked:
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
    taken.sort(key=lambda each: -each[3])
    places = [(start, end) for start, end, _, _ in taken]
    sums = [probability for *_, probability in taken]
    return Ranked([at for _, _, at, _ in taken], places, sums, float(probabilities[-1]))


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
        return [float(np.logaddexp.reduce(own.astype(np.float64))) for own in self.scores]

    def shares(self, total: float, top: int | None, texts: Sequence[str | None]) -> list[Shares]:
        """The likeliest phrases of each document; `total` is the logarithm of the sum over all documents."""
        ranked = [
            rank_phrases(own, self.query.null, index, top, total)
            for own, index in zip(self.scores, self.indexes, strict=True)
        ]
        shares = [
            Shares(
                _answers(each, each.probabilities[:top], index, text),
                each.probabilities[:2],
                sum(each.probabilities),
            )
            for each, index, text in zip(ranked, self.indexes, texts, strict=True)
        ]
        at = _likeliest(shares)
        if at is not None and self.calibration is not None:
            margin = _log_odds_of_any(float(np.exp(self.query.null - total)))
            first = (ranked[at].phrases[0], ranked[at].probabilities[0], 1.0, margin)
            features = features_of(self.query, self.indexes[at], *first)
            shares[at] = shares[at]._replace(features=features)
        return shares


def _likeliest(shares: Sequence[Shares]) -> int | None:
    """The document that has the likeliest phrase."""
    return max(((each.firsts[0], at) for at, each in enumerate(shares) if each.firsts), default=(0.0, None))[
        1
    ]


def total_of(null: float, log_sums: Sequence[float]) -> float:
    """The logarithm of the sum over the phrases of all documents, and "no answer"."""
    return float(np.logaddexp.reduce(np.array([null, *log_sums])))


def combined(
    shares: Sequence[Shares], absent: float, calibration: Calibration | None
) -> tuple[list[list[Answer]], float, bool]:
    """The answers of each of several documents, the probability of no answer, and whether the reader refuses."""
    at = _likeliest(shares)
    if at is None:
        return [each.answers for each in shares], absent, False
    first = shares[at].firsts[0]
    others = [each.firsts[1:] if own == at else each.firsts[:1] for own, each in enumerate(shares)]
    second = max((probability for each in others for probability in each), default=0.0)
    refused = absent > first
    features = shares[at].features
    if calibration is None or features is None:
        return [each.answers for each in shares], absent, refused
    right, absent = calibration.probabilities(with_lead(features, first, second))
    refused |= absent > calibration.threshold
    rest = sum(each.mass for each in shares) - first
    factor = min(right / first, max(1 - right - absent, 0.0) / max(rest, 1e-30))
    lists = [
        [structs.replace(answer, probability=answer.probability * factor) for answer in each.answers]
        for each in shares
    ]
    lists[at][0] = structs.replace(lists[at][0], probability=right)
    return lists, absent, refused


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
    calibration = calibration_for(query.question, calibration)
    if calibration is not None and ranked.phrases:
        right, absent = calibration.probabilities(ranked.features(query, index))
        refused |= absent > calibration.threshold
        probabilities = _shared_out(probabilities, right, 1 - right - absent)
    answers = _answers(ranked, probabilities[:top], index, text)
    place = 0 if refused else max(1, sum(answer.probability > absent for answer in answers))
    return [*answers[:place], Answer("", absent, ABSENT), *answers[place:]][:top]


def _answers(
    ranked: Ranked, probabilities: list[float], index: PhraseIndex, text: str | None
) -> list[Answer]:
    """The first phrases as answers, as many as there are probabilities."""
    phrases = ranked.phrases[: len(probabilities)]
    texts = index.texts_of(np.array(phrases, np.intp))
    answers = []
    for at, phrase, (start, end), probability in zip(
        phrases, texts, ranked.places, probabilities, strict=False
    ):
        quote = None if text is None else text[slice(*index.sentence_of(at))]
        around = (
            ("", "") if text is None else (text[max(0, start - _AROUND) : start], text[end : end + _AROUND])
        )
        answers.append(Answer(phrase, probability, kind_of(phrase, *around), quote, start, end))
    return answers


def _shared_out(probabilities: list[float], right: float, others: float) -> list[float]:
    """Probabilities in the same proportions with the first `right`, the rest together at most `others`.

    >>> [round(each, 2) for each in _shared_out([0.5, 0.25, 0.25], 0.8, 0.1)]
    [0.8, 0.05, 0.05]
    """
    rest = [right * each / max(probabilities[0], 1e-30) for each in probabilities[1:]]
    factor = min(1.0, max(others, 0.0) / max(sum(rest), 1e-30))
    return [right, *(each * factor for each in rest)]


def _log_odds_of_any(absent: float) -> float:
    """The log-odds that any phrase answers, from the probability that none does."""
    bounded = min(max(absent, 1e-30), 1 - 1e-12)
    return float(np.log((1 - bounded) / bounded))
