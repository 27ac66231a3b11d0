"""Answers after a second look: from the spans that it found, how likely they are, and what the memory said before."""

from collections.abc import Sequence

import numpy as np
from msgspec import structs

from attar.memory.memory import Floats
from attar.memory.phrases import PhraseIndex
from attar.reader.confidence import LOOK_FEATURES, LookCalibration, is_other_kind, wanted_kind
from attar.reader.questions import Query
from attar.reader.second_look import FoundSentence, FoundSpan, Look
from attar.results import ABSENT, Answer
from attar.text.kinds import is_english, kind_of

# Logarithms are kept this far from 0.
_FARTHEST = 12.0
# How much the memory's share counts in the choice between sentences: chosen on 2,251 questions of SQuAD 1.1, exact
# match .765 without, .767 with .15, .771 with .5.
_SHARE = 0.5
# How likely a phrase is that was not read again, compared with its share.
_UNREAD = 0.3
# Characters before and after a span that tell its kind.
_AROUND = 40


# For a question in another language, as by `confidence.calibration_for`: it is always refused.
_REST = (0.0,) * (len(LOOK_FEATURES) - 1)
_OTHER_LANGUAGE = LookCalibration((float(np.log(2)), *_REST), (float(np.log(7)), *_REST), 0.0)


def found_sentences(
    query: Query,
    index: PhraseIndex,
    scores: Floats,
    total: float,
    text: str,
    count: int,
) -> list[FoundSentence]:
    """The best sentences of a document; `total` is the logarithm of the sum over all phrases and "no answer"."""
    found = []
    for sentence in query.best_sentences(index, scores, count):
        start = end = sentence.start
        share = -_FARTHEST
        if sentence.phrase is not None:
            start = int(index.starts[sentence.phrase])
            end = start + int(index.lengths[sentence.phrase])
            share = max(float(scores[sentence.phrase]) - total, -_FARTHEST)
        words = text[sentence.start : sentence.end]
        found.append(FoundSentence(sentence.start, words, sentence.score, share, start, end))
    return found


def chosen_first(look: Look) -> list[FoundSpan]:
    """The spans in the order in which they answer: by the second look, and by the memory."""
    return sorted(look.spans, key=lambda span: -(span.score + _SHARE * span.sentence.share))


def look_features(question: str, look: Look) -> Floats:
    """The values of `LOOK_FEATURES` for the first span."""
    first = chosen_first(look)[0]
    values = (
        1.0,
        max(first.score, -_FARTHEST),
        look.present,
        len(look.spans) == 1,
        first.sentence.share,
        is_other_kind(question, first.text),
        not wanted_kind(question),
        float(np.log1p(len(first.text.split()))),
    )
    return np.array(values, np.float32)


def rank_looked(
    question: str,
    look: Look,
    phrases: Sequence[Answer],
    calibration: LookCalibration | None,
    top: int | None,
) -> list[Answer]:
    """Answers by probability: the spans that were found, then phrases of the memory that overlap none of them.

    `phrases` have their shares of the softmax over all phrases.
    """
    spans = chosen_first(look)
    if calibration is not None and not is_english(question):
        calibration = _OTHER_LANGUAGE
    quote = None
    if calibration is None:
        absent, threshold = float(1 / (1 + np.exp(look.present))), 0.5
        right = float(np.exp(spans[0].score)) * (1 - absent)
    else:
        features = look_features(question, look)
        right, absent = calibration.probabilities(features)
        quote, threshold = calibration.quote_probability(features), calibration.threshold
    first, *others = map(_answer, spans)
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
    place = 0 if absent > threshold else max(1, sum(answer.probability > absent for answer in answers))
    return [*answers[:place], Answer("", absent, ABSENT), *answers[place:]][:top]


def _answer(span: FoundSpan) -> Answer:
    sentence, words = span.sentence, span.text
    start, end = span.start - sentence.start, span.end - sentence.start
    around = sentence.text[max(0, start - _AROUND) : start], sentence.text[end : end + _AROUND]
    kind, where = kind_of(words, *around), (sentence.document, sentence.place)
    return Answer(words, 0.0, kind, sentence.text, span.start, span.end, *where)


def _overlap(one: Answer, other: Answer) -> bool:
    if one.document != other.document or one.start is None or other.start is None:
        return False
    return one.start < (other.end or 0) and other.start < (one.end or 0)
