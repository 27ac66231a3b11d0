"""Asking and searching all documents: candidates → scores of phrases → shares → second look → answers.

At each step, every shard says what its own documents do (`OpenedShard`), given what the steps before found out about
all documents; then the replies are merged. So scores, probabilities and their order do not depend on how a library is
split, and documents and memories stay where they are. A library in one store is its own only shard.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import numpy as np

from attar.errors import FormatError, OptionError
from attar.library.copies import (
    distinct_places,
    distinct_sentences,
    grouped,
    merged_answers,
    without_copies,
)
from attar.library.documents import nothing_in
from attar.library.shard import AskedDocuments, OpenedShard, PhraseScores, ReadAgain, ShardCorpus
from attar.library.spelling import unknown_words
from attar.results import (
    ABSENT,
    Answer,
    AnswerGroup,
    Hit,
    QuotedPlace,
    Subset,
    Verdict,
    Verified,
    check_asked,
    check_top,
)
from attar.search.ranking import (
    PHRASES_WEIGHT,
    RERANKED,
    TOPIC_WEIGHT,
    CorpusQuery,
    RankedDocument,
    best_of,
    refined,
    rerank,
)
from attar.search.spelling import doubtful_words
from attar.search.table import Corpus
from attar.text.kinds import is_question, is_yes_no
from attar.text.quotes import MOST_WORDS, words_of

if TYPE_CHECKING:
    from attar.reader.answers import Shares
    from attar.reader.confidence import Calibration
    from attar.reader.second_look import FoundSpan

# Documents whose phrases answer a question to all,
_ASKED = 10
# those that are looked through for all places that answer it,
_LISTED = 30
# and how many times as many are ranked, as some may be copies of others.
_COPIES = 3
# The most phrases of a document that are listed,
_PHRASES = 50
# and how likely they must be, compared with the best.
_AS_LIKELY = 0.05
# Documents whose texts are compared with a quote.
_VERIFIED = 20
# How much a document's score adds to those of its phrases. Both were chosen on questions of SQuAD's training set.
_BIAS = 0.8
# How much the logarithm of its length takes away from them,
_LENGTH = 0.5
# above this many tokens, about a page.
_PAGE = 300
# Questions that are asked together: the scores of all documents are kept for each until its last step.
TOGETHER = 16

Result = TypeVar("Result")
Value = TypeVar("Value")


class EachShard(Protocol):
    """Calls every shard with a step, and returns the results in the order of shards."""

    def __call__(self, step: Callable[[OpenedShard], Result]) -> list[Result]: ...


def ask_all(
    each_shard: EachShard,
    questions: Sequence[str],
    top: int | None,
    look: int | None = None,
    within: Subset | None = None,
) -> list[list[Answer]]:
    """The best answers of the best documents to each question; "not in this library" is one of them.

    The best sentences of all these documents are read again together, a few more than `look`.
    """
    answers = []
    for found in _find_phrases(each_shard, questions, top, look, within, _ASKED):
        ranked = found.answers()
        if is_yes_no(found.question):
            ranked = _sentences_of(each_shard, ranked)
        answers.append(merged_answers(ranked, found.copies)[:top])
    return answers


def list_answers(
    each_shard: EachShard,
    question: str,
    top: int | None,
    look: int | None = None,
    within: Subset | None = None,
) -> list[AnswerGroup]:
    """All places that answer a question about as likely as the best one, grouped by answer; none if it is refused."""
    check_top(top)
    (found,) = _find_phrases(each_shard, [question], _PHRASES, look, within, _LISTED)
    first = found.answers()[0]
    if first.absent:
        return []
    places = found.places(first.probability)
    if is_yes_no(question):
        places = _sentences_of(each_shard, places)
    return grouped(places, found.copies)[:top]


@dataclass(frozen=True)
class _FoundPhrases:
    """What the best documents say to a question: their phrases' shares of the softmax over all, and the second look.

    `absent` is the share of "no answer".
    """

    question: str
    shares: "dict[str, Shares]"
    absent: float
    calibration: "Calibration | None"
    seen: ReadAgain | None
    copies: dict[str, list[str]]

    def answers(self) -> list[Answer]:
        """The answers of all documents as one list."""
        return _answers(self.question, self.shares, self.absent, self.calibration, self.seen)

    def places(self, probability: float) -> list[Answer]:
        """The phrases that are about as likely as the best, whose probability is given, in proportion to their shares.

        Words of a sentence that was read again are those that the second look found.
        """
        phrases = [
            msgspec.structs.replace(answer, document=name)
            for name, share in self.shares.items()
            for answer in share.answers
        ]
        best = max((phrase.probability for phrase in phrases), default=0.0)
        least = max(self.absent, _AS_LIKELY * best)
        likely = [phrase for phrase in phrases if phrase.probability >= least]
        spans = [] if self.seen is None else self.seen.look.spans
        return [
            msgspec.structs.replace(
                _looked(phrase, spans), probability=probability * phrase.probability / best
            )
            for phrase in sorted(likely, key=lambda phrase: -phrase.probability)
        ]


def _looked(phrase: Answer, spans: "Sequence[FoundSpan]") -> Answer:
    """A phrase, or the span that a second look found in its place."""
    for span in spans:
        is_there = span.sentence.document == phrase.document and phrase.start is not None
        if is_there and span.start < (phrase.end or 0) and (phrase.start or 0) < span.end:
            return msgspec.structs.replace(phrase, text=span.text, start=span.start, end=span.end)
    return phrase


def _find_phrases(
    each_shard: EachShard,
    questions: Sequence[str],
    top: int | None,
    look: int | None,
    within: Subset | None,
    count: int,
) -> list[_FoundPhrases]:
    """What the best `count` documents say to each question, each with `top` phrases at most."""
    check_top(top)
    for question in questions:
        check_asked("question", question)
    found = find_candidates(each_shard, questions, _COPIES * count, within)
    distinct = [without_copies(documents, count) for documents in found]
    asked, scores = _score_phrases(each_shard, questions, [one.documents for one in distinct])
    totals = [_total(documents, score) for documents, score in zip(asked, scores, strict=True)]
    shares = _joined(each_shard(lambda shard: shard.shares(asked, totals, top)))
    looks = _look_again(each_shard, asked, totals, look)
    return [
        _FoundPhrases(
            documents.question,
            {name: share[name] for name in documents.biases if name in share},
            float(np.exp(score.null - total)),
            score.calibration,
            seen,
            of_question.copies,
        )
        for documents, score, total, share, seen, of_question in zip(
            asked, scores, totals, shares, looks, distinct, strict=True
        )
    ]


def _sentences_of(each_shard: EachShard, answers: Sequence[Answer]) -> list[Answer]:
    """Answers as the sentences that they stand in, each once."""
    (found,) = _joined(each_shard(lambda shard: [shard.whole_sentences(answers)]))
    return distinct_places([found.get(str(at), answer) for at, answer in enumerate(answers)])


def _look_again(
    each_shard: EachShard, asked: Sequence[AskedDocuments], totals: Sequence[float], look: int | None
) -> list[ReadAgain | None]:
    """What a second look finds in the best sentences of all documents."""
    found = each_shard(lambda shard: shard.found_sentences(asked, totals, look))
    sentences = []
    for shards in zip(*found, strict=True):
        all_found = [sentence for shard in shards for sentence in shard.sentences]
        all_found.sort(key=lambda sentence: -sentence.score)
        sentences.append(distinct_sentences(all_found)[: shards[0].count])
    if not any(sentences):
        return [None] * len(asked)
    replies = each_shard(lambda shard: shard.read_again(asked, sentences))
    return [
        next((reply for reply in shards if reply is not None), None) for shards in zip(*replies, strict=True)
    ]


def search(
    each_shard: EachShard, query: str, top: int, within: Subset | None = None, passages: bool = False
) -> list[Hit]:
    """The best documents with their best sentences: the first of them ranked again by how well their phrases fit."""
    check_top(top)
    check_asked("query", query)
    (candidates,) = find_candidates(each_shard, [query], max(top, RERANKED), within)
    first = [document.name for document in candidates[:RERANKED]]
    (matches,) = _joined(each_shard(lambda shard: [shard.match(query, first)]))
    sound = [document for document in candidates[:RERANKED] if document.name in matches]
    candidates = sound + candidates[RERANKED:]
    order = rerank(
        [document.score for document in candidates],
        [matches[document.name] for document in sound],
        PHRASES_WEIGHT if is_question(query) else TOPIC_WEIGHT,
    )
    names = [candidates[at].name for at, _ in order[:top]]
    (shown,) = _joined(each_shard(lambda shard: [shard.sentences(query, names, passages)]))
    return [
        Hit(name, shown[name].title, score, shown[name].sentences, shown[name].passages)
        for name, (_, score) in zip(names, order, strict=False)
        if name in shown
    ]


def verify(each_shard: EachShard, quote: str, within: Subset | None = None) -> Verified:
    """Whether documents say a quote: of the best ones by words and by signatures, the texts are compared with it."""
    check_asked("quote", quote)
    count = len(words_of(quote))
    if not 0 < count <= MOST_WORDS:
        raise FormatError.expected("quote", f"1 to {MOST_WORDS:,} words", f"{count:,}", "verify a part of it")
    (candidates,) = find_candidates(each_shard, [quote], _VERIFIED, within)
    names = [document.name for document in candidates]
    (found,) = _joined(each_shard(lambda shard: [shard.quotes(quote, names)]))
    in_order = [found[name] for name in names if name in found]
    passages = [passage for of_document in in_order for passage in of_document or ()]
    passages.sort(key=_changed_words)
    verdict: Verdict = "absent" if not passages else "nearly" if passages[0].differences else "found"
    nearest = [passage for passage in passages if verdict == "nearly" or not passage.differences]
    return Verified(verdict, nearest, sum(of_document is None for of_document in in_order))


def _changed_words(passage: QuotedPlace) -> int:
    return sum(
        max(len(difference.quote.split()), len(difference.text.split())) for difference in passage.differences
    )


def find_candidates(
    each_shard: EachShard, texts: Sequence[str], count: int, within: Subset | None = None
) -> list[list[RankedDocument]]:
    """The best documents for each text, best first, by words and by signatures; all are of the subset."""
    if within and not any(each_shard(lambda shard: shard.has_any(within))):
        raise nothing_in(within)
    corpora = each_shard(lambda shard: shard.corpora(texts))
    also = _other_spellings(each_shard, texts, corpora)
    if any(also):
        corpora = each_shard(lambda shard: shard.corpora(texts, also))
    asked = [
        CorpusQuery(text, _whole_corpus(shards))
        for text, shards in zip(texts, zip(*corpora, strict=True), strict=True)
    ]
    moments = each_shard(lambda shard: shard.moments(asked))
    standards = [reduce(add, shards) for shards in zip(*moments, strict=True)]
    rounded = [at for at, standard in enumerate(standards) if standard.rounded]
    if rounded:
        again, before = [asked[at] for at in rounded], [standards[at] for at in rounded]
        nearest = each_shard(lambda shard: shard.nearest(again, before))
        for at, shards in zip(rounded, zip(*nearest, strict=True), strict=True):
            standards[at] = refined(standards[at], shards)
    best = each_shard(lambda shard: shard.best(asked, standards, count, within))
    return [best_of(shards, count) for shards in zip(*best, strict=True)]


def _other_spellings(
    each_shard: EachShard, texts: Sequence[str], corpora: Sequence[Sequence[ShardCorpus]]
) -> list[list[str]]:
    """How documents spell words of each text that none of them has: "1,610" for "1610", "Raman" for "Ramen"."""
    unknown = [
        unknown_words(doubtful_words(text), [shard.known for shard in shards])
        for text, shards in zip(texts, zip(*corpora, strict=True), strict=True)
    ]
    words = list(dict.fromkeys(word for of_text in unknown for word in of_text))
    if not words:
        return [[] for _ in texts]
    found = each_shard(lambda shard: shard.neighbours(words))
    return [
        sorted({near for word in of_text for shard in found for near in shard[word]}) for of_text in unknown
    ]


def _whole_corpus(shards: Sequence[ShardCorpus]) -> Corpus:
    if len({shard.statistics for shard in shards}) > 1:
        remedy = "fit them together: attar store refit FOLDER, of all shards"
        raise OptionError("the shards of the library have different statistics for search", remedy)
    return reduce(add, (shard.corpus for shard in shards))


def _score_phrases(
    each_shard: EachShard, questions: Sequence[str], candidates: list[list[RankedDocument]]
) -> tuple[list[AskedDocuments], list[PhraseScores]]:
    """The documents that answer each question, without damaged ones, and the scores of their phrases."""
    asked = [
        AskedDocuments(question, _biases(documents))
        for question, documents in zip(questions, candidates, strict=True)
    ]
    replies = each_shard(lambda shard: shard.scores(asked))
    scores = [_whole_scores(shards) for shards in zip(*replies, strict=True)]
    sound = [
        [document for document in documents if document.name in score.log_sums]
        for documents, score in zip(candidates, scores, strict=True)
    ]
    if sound == candidates:
        return asked, scores
    # Biases are measured from the best document: without it they are others.
    return _score_phrases(each_shard, questions, sound)


def _biases(documents: Sequence[RankedDocument]) -> dict[str, float]:
    """What is added to the scores of each document's phrases: for its rank, and for its length.

    The best of ten thousand phrases fits any question better than the best of forty. Lengths are compared with the
    shortest document: where all are long, there is nothing to make up for.

    >>> letter, novel = RankedDocument(2.0, b"", "letter"), RankedDocument(1.0, b"", "novel", tokens=40_000)
    >>> {name: round(bias, 2) for name, bias in _biases([letter, novel]).items()}
    {'letter': 0.0, 'novel': -3.25}
    >>> _biases([novel])
    {'novel': 0.0}
    """
    shortest = max(_PAGE, min((document.tokens for document in documents), default=0))
    return {
        document.name: _BIAS * (document.score - documents[0].score)
        - _LENGTH * math.log(max(document.tokens, shortest) / shortest)
        for document in documents
    }


def _whole_scores(shards: Sequence[PhraseScores]) -> PhraseScores:
    log_sums = {name: log_sum for shard in shards for name, log_sum in shard.log_sums.items()}
    # The score of "no answer" and the calibration depend on the question only.
    known = next((shard for shard in shards if shard.log_sums), shards[0])
    return PhraseScores(log_sums, known.null, known.calibration)


def _total(asked: AskedDocuments, scores: PhraseScores) -> float:
    from attar.reader.answers import total_of

    return total_of(scores.null, [scores.log_sums[name] for name in asked.biases])


def _answers(
    question: str,
    shares: "dict[str, Shares]",
    absent: float,
    calibration: "Calibration | None",
    seen: ReadAgain | None,
) -> list[Answer]:
    """The answers of documents, in the order of their ranks, as one list."""
    from attar.reader.answers import combined, rank_looked

    if seen is not None:
        phrases = [
            msgspec.structs.replace(answer, document=name)
            for name, share in shares.items()
            for answer in share.answers
        ]
        return rank_looked(question, seen.look, phrases, seen.calibration, None)
    lists, absent, refused = combined(list(shares.values()), absent, calibration)
    answers = [
        msgspec.structs.replace(answer, document=name)
        for name, of_document in zip(shares, lists, strict=True)
        for answer in of_document
    ]
    answers.sort(key=lambda answer: -answer.probability)
    place = sum(answer.probability > absent for answer in answers)
    answers.insert(0 if refused else max(place, min(1, len(answers))), Answer("", absent, ABSENT))
    return answers


def _joined(shards: Iterable[Sequence[dict[str, Value]]]) -> list[dict[str, Value]]:
    """What shards say about their own documents by name, for each question, as one."""
    return [reduce(lambda one, other: one | other, replies) for replies in zip(*shards, strict=True)]
