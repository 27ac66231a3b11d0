"""Scores into answers: the likeliest phrases of one document or of several, what a second look found, probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.memory.phrases import PhraseIndex
from attar.reader.folders import Calibration
from attar.reader.questions import Query, ScoredMemory
from attar.reader.second_look import FoundSentence, FoundSpan, Look, headings_above
from attar.results import ABSENT, Answer
from attar.text.kinds import is_english, is_other_kind, kind_of, wanted_kind

# At least this many of the best phrases are compared, so that probabilities hardly depend on how many are asked for.
_RANKED = 24
# Characters before and after an answer that tell its kind.
_AROUND = 40
# Logarithms are kept this far from 0.
_FARTHEST = 12.0
# Probabilities of features are kept this far from 0 and 1.
_LEAST = 1e-6
# How much the memory's share counts in the choice between sentences: chosen on 2,251 questions of SQuAD 1.1, exact
# match .765 without, .767 with .15, .771 with .5.
_SHARE = 0.5
# How likely a phrase is that was not read again, compared with its share.
_UNREAD = 0.3


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

    def answers(self, index: PhraseIndex, text: str | None, top: int | None) -> list[Answer]:
        """The first phrases as answers, as likely as the softmax says."""
        return _answers(self.phrases[:top], self.probabilities[:top], index, text)

    def features(self, query: Query, index: PhraseIndex) -> Floats:
        """What the calibration of the first phrase is computed from."""
        first = self.phrases[0]
        second = self.phrases[1].probability if len(self.phrases) > 1 else 0.0
        # The log-odds that any phrase answers, from the probability that none does.
        absent = min(max(self.absent, 1e-30), 1 - 1e-12)
        margin = float(np.log((1 - absent) / absent))
        return features_of(query, index, first.phrase, first.probability, second, margin)


def rank_phrases(
    scores: Floats, null: float, index: PhraseIndex, top: int | None, total: float | None = None
) -> RankedPhrases:
    """The best phrases of a memory.

    Probabilities are shares of the sum whose logarithm is `total`: it may have phrases of other documents.
    """
    values = np.append(scores, np.float32(null)).astype(np.float64)
    probabilities = np.exp(values - (log_sum(values) if total is None else total))
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
        quote = calibration.quote_probability(features, right)
    answers = _answers(ranked.phrases[:top], probabilities[:top], index, text)
    if answers:
        answers[0] = structs.replace(answers[0], quote_probability=quote)
    return _with_absent(answers, absent, refused, top)


def _with_absent(answers: list[Answer], absent: float, refused: bool, top: int | None) -> list[Answer]:
    """Answers with "not in this text" among them: first if it was refused to answer, else by its probability."""
    place = 0 if refused else max(1, sum(answer.probability > absent for answer in answers))
    return [*answers[:place], Answer("", absent, ABSENT), *answers[place:]][:top]


@dataclass(frozen=True)
class ScoredPhrases:
    """A question and the scores of the phrases of several documents, which may be some of those that are asked."""

    query: Query
    documents: list[ScoredMemory]

    def log_sums(self) -> list[float]:
        """The logarithm of the sum over each document's phrases."""
        return [log_sum(document.scores) for document in self.documents]

    def matches(self) -> list[float]:
        """How well each document fits the question, comparable between them: the logarithm of the sum over its phrases.

        "No answer" is part of the sum, so that documents without an answer fit alike: of a query that phrases do not
        answer, they say nothing about the order.
        """
        null = np.float32(self.query.null)
        return [log_sum(np.append(document.scores, null)) for document in self.documents]

    @cached_property
    def total(self) -> float:
        """The logarithm of the sum over the phrases of these documents, and "no answer"."""
        return total_of(self.query.null, self.log_sums())

    def found_sentences(
        self, total: float, count: int, texts: Sequence[str | None], names: Sequence[str]
    ) -> list[list[FoundSentence]]:
        """The best sentences of each document, to be read again; `total` as for `shares`.

        There are none of a text that is not kept, or that is not the one that was read.
        """
        return [
            _found_sentences(document, total, text, count, name)
            if text is not None and len(text) == document.index.characters
            else []
            for document, text, name in zip(self.documents, texts, names, strict=True)
        ]

    def shares(self, total: float, top: int | None, texts: Sequence[str | None]) -> list[list[Answer]]:
        """The likeliest phrases of each document; `total` is the logarithm of the sum over all documents."""
        return [
            rank_phrases(document.scores, self.query.null, document.index, top, total).answers(
                document.index, text, top
            )
            for document, text in zip(self.documents, texts, strict=True)
        ]


def _found_sentences(
    document: ScoredMemory, total: float, text: str, count: int, name: str
) -> list[FoundSentence]:
    """The best sentences of a document; `total` is the logarithm of the sum over all phrases and "no answer"."""
    index, found = document.index, []
    for sentence in document.best_sentences(count):
        start = end = sentence.start
        share = -_FARTHEST
        if sentence.phrase is not None:
            start = int(index.starts[sentence.phrase])
            end = start + int(index.lengths[sentence.phrase])
            share = max(float(document.scores[sentence.phrase]) - total, -_FARTHEST)
        words = text[sentence.start : sentence.end]
        context = "\n".join(headings_above(text, sentence.start, name))
        found.append(FoundSentence(sentence.start, words, sentence.score, share, start, end, context=context))
    return found


def total_of(null: float, log_sums: Sequence[float]) -> float:
    """The logarithm of the sum over the phrases of all documents, and "no answer"."""
    return log_sum(np.array([null, *log_sums]))


def log_sum(values: NDArray[np.floating[Any]]) -> float:
    """The logarithm of the sum of what these are logarithms of: `np.logaddexp.reduce` takes twenty times as long.

    >>> round(log_sum(np.log([1.0, 3.0])), 4), log_sum(np.zeros(0))
    (1.3863, -inf)
    """
    if not len(values):
        return -np.inf
    highest, exact = values.max(), values.astype(np.float64)
    return float(highest + np.log(np.exp(exact - highest).sum()))


def _answers(
    ranked: Sequence[RankedPhrase], probabilities: Sequence[float], index: PhraseIndex, text: str | None
) -> list[Answer]:
    """Phrases as answers."""
    texts = index.texts_of(np.array([phrase.phrase for phrase in ranked], np.intp))
    answers = []
    for phrase, words, probability in zip(ranked, texts, probabilities, strict=True):
        start, end = phrase.start, phrase.end
        quote = None if text is None else text[slice(*index.sentence_of(phrase.phrase))]
        answers.append(Answer(words, probability, _kind_in(text or "", words, start, end), quote, start, end))
    return answers


def _kind_in(text: str, words: str, start: int, end: int) -> str:
    """The kind of words that stand in a text from `start` to `end`."""
    return kind_of(words, text[max(0, start - _AROUND) : start], text[end : end + _AROUND])


def _shared_out(probabilities: list[float], right: float, others: float) -> list[float]:
    """Probabilities in the same proportions with the first `right`, the rest together at most `others`.

    >>> [round(share, 2) for share in _shared_out([0.5, 0.25, 0.25], 0.8, 0.1)]
    [0.8, 0.05, 0.05]
    """
    rest = [right * probability / max(probabilities[0], 1e-30) for probability in probabilities[1:]]
    factor = min(1.0, max(others, 0.0) / max(sum(rest), 1e-30))
    return [right, *(probability * factor for probability in rest)]


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


def features_of(
    query: Query, index: PhraseIndex, phrase: int, probability: float, second: float, margin: float
) -> Floats:
    """The values of `FEATURES` for the best phrase; `second` is the probability of the next one."""
    bounded = min(max(probability, _LEAST), 1 - _LEAST)
    sentence, weights = int(index.sentences[phrase]), query.weights[:-1]
    nearby, inside = _matches(query, index, sentence)
    lost, lost_inside = weights * (1 - nearby), weights * (1 - inside)
    text, wanted = index.text_of(phrase), wanted_kind(query.question)
    values = (
        1.0,
        np.log(bounded / (1 - bounded)),
        margin,
        np.log(bounded / max(second, 1e-9)),
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


def _matches(query: Query, index: PhraseIndex, sentence: int) -> tuple[Floats, Floats]:
    """How well a sentence and its neighbours, and it alone, have each piece of the question, but for [SEP]: 0 to 1."""
    starts = index.word_starts
    last = len(starts) - 2
    first, stop = int(starts[max(sentence - 1, 0)]), int(starts[min(sentence + 1, last) + 1])
    inside = slice(int(starts[sentence]) - first, int(starts[sentence + 1]) - first)
    alike = query.words[:-1] @ query.table[index.words[first:stop]].T
    nearby, alone = (np.clip(part.max(1, initial=0.0), 0.0, 1.0) for part in (alike, alike[:, inside]))
    return nearby, alone


def chosen_first(look: Look) -> list[FoundSpan]:
    """The spans in the order in which they answer: by the second look, and by the memory."""
    return sorted(look.spans, key=lambda span: -(span.score + _SHARE * span.sentence.share))


def look_features(question: str, look: Look, first: FoundSpan) -> Floats:
    """The values of `LOOK_FEATURES` for the first span."""
    wanted = wanted_kind(question)
    values = (
        1.0,
        max(first.score, -_FARTHEST),
        look.present,
        len(look.spans) == 1,
        first.sentence.share,
        is_other_kind(wanted, first.text),
        not wanted,
        float(np.log1p(len(first.text.split()))),
    )
    return np.array(values, np.float32)


def rank_looked(
    question: str,
    look: Look,
    phrases: Sequence[Answer],
    calibration: Calibration | None,
    top: int | None,
) -> list[Answer]:
    """Answers by probability: the spans that were found, then phrases of the memory that overlap none of them.

    `phrases` have their shares of the softmax over all phrases.
    """
    spans = chosen_first(look)
    calibration, quote = calibration_for(question, calibration), None
    if calibration is None:
        absent, threshold = float(1 / (1 + np.exp(look.present))), 0.5
        right = float(np.exp(spans[0].score)) * (1 - absent)
    else:
        features = look_features(question, look, spans[0])
        right, absent = calibration.probabilities(features)
        quote, threshold = calibration.quote_probability(features, right), calibration.threshold
    first, *others = map(_looked_answer, spans)
    weights = [float(np.exp(span.score)) for span in spans[1:]]
    for phrase in phrases:
        if not any(_overlap(phrase, other) for other in (first, *others[: len(spans) - 1])):
            others.append(phrase)
            weights.append(_UNREAD * phrase.probability)
    # Together at most what is left, and none more likely than the first.
    factor = min(max(1 - right - absent, 0.0) / max(sum(weights), 1e-30), right / max((*weights, 1e-30)), 1.0)
    rest = [
        structs.replace(answer, probability=weight * factor)
        for answer, weight in zip(others, weights, strict=True)
    ]
    rest.sort(key=lambda answer: -answer.probability)
    answers = [structs.replace(first, probability=right, quote_probability=quote), *rest]
    return _with_absent(answers, absent, absent > threshold, top)


def _looked_answer(span: FoundSpan) -> Answer:
    sentence, words = span.sentence, span.text
    kind = _kind_in(sentence.text, words, span.start - sentence.start, span.end - sentence.start)
    where = sentence.document, sentence.place
    return Answer(words, 0.0, kind, sentence.text, span.start, span.end, *where)


def _overlap(one: Answer, other: Answer) -> bool:
    if one.document != other.document or one.start is None or other.start is None:
        return False
    return one.start < (other.end or 0) and other.start < (one.end or 0)
