"""Asking all documents: candidates → the answers of the best, each asked alone → one list.

All places that answer are found by the phrases of more documents: scores → shares → second look → groups.

At each step, every shard says what its own documents do (`OpenedShard`), given what the steps before found out about
all documents; then the replies are merged. So scores, probabilities and their order do not depend on how a library is
split, and documents and memories stay where they are. A library in one store is its own only shard.

A text that a library has several times is one answer with several places, not several rare answers: documents of equal
texts are asked once, equal sentences are read again once, and equal answers in sentences that are alike are merged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from attar.library.documents import distinct_places
from attar.library.finding import find_candidates, joined
from attar.library.shard import EachShard, LikeliestPhrases, PhraseScores
from attar.results import ABSENT, Answer, AnswerGroup, OtherPlace, Subset, check_asked, check_top
from attar.search.ranking import RankedDocument
from attar.text.kinds import is_yes_no, normalised, without_preface

if TYPE_CHECKING:
    from attar.reader.second_look import FoundSentence, FoundSpan

# Documents that answer a question to all,
ASKED = 2
# how much the log-odds of their answers lose per standard deviation that they rank behind the first,
_BEHIND = 1.0
# those that are looked through for all places that answer it,
_LISTED = 30
# and how many times as many are ranked, as some may be copies of others.
_COPIES = 3
# The most phrases of a document that are listed,
_PHRASES = 50
# and how likely they must be, compared with the best.
_AS_LIKELY = 0.05
# How much a document's score adds to those of its phrases. Both were chosen on questions of SQuAD's training set.
_BIAS = 0.8
# How much the logarithm of its length takes away from them,
_LENGTH = 0.5
# above this many tokens, about a page.
_PAGE = 300
# Questions that are asked together: the scores of all documents are kept for each until its last step.
TOGETHER = 16
_ARTICLES = frozenset(("a", "an", "the"))
# Sentences that share this much of their words say the same, if they give the same answer.
_ALIKE = 0.8


def ask_all_many(
    ask_shards: Callable[[Callable[[EachShard], list[list[Answer]]]], list[list[Answer]]],
    questions: Sequence[str],
    top: int | None,
    look: int | None,
    within: Subset | None,
) -> list[list[Answer]]:
    """`ask_all` for many questions, some at a time: no state of a library is kept open for all of them."""
    answers: list[list[Answer]] = []
    for first in range(0, len(questions), TOGETHER):
        some = questions[first : first + TOGETHER]
        answers += ask_shards(partial(ask_all, questions=some, top=top, look=look, within=within))
    return answers


def ask_all(
    each_shard: EachShard,
    questions: Sequence[str],
    top: int | None,
    look: int | None = None,
    within: Subset | None = None,
) -> list[list[Answer]]:
    """The best answers of the best documents to each question; "not in this library" is one of them.

    Each of these documents answers as if it were asked alone.
    """
    check_top(top)
    for question in questions:
        check_asked("question", question)
    plain = [without_preface(question) for question in questions]
    found = find_candidates(each_shard, plain, _COPIES * (ASKED + 1), within)
    distinct = [without_copies(documents, 2 * ASKED) for documents in found]
    answers = _ask_documents(each_shard, questions, [one.documents for one in distinct], top, look)
    return [
        merged_answers(_likeliest_first(one.documents, by_document), one.copies)[:top]
        for one, by_document in zip(distinct, answers, strict=True)
    ]


def _ask_documents(
    each_shard: EachShard,
    questions: Sequence[str],
    candidates: list[list[RankedDocument]],
    top: int | None,
    look: int | None,
) -> list[dict[str, list[Answer]]]:
    """What the first documents answer to each question; the next one takes the place of a damaged one."""
    names = [[document.name for document in documents[:ASKED]] for documents in candidates]
    answers = joined(each_shard(lambda shard: shard.answers(questions, names, top, look)))
    sound = [
        [document for document in documents if document.name in by_name or document.name not in asked]
        for documents, asked, by_name in zip(candidates, names, answers, strict=True)
    ]
    return answers if sound == candidates else _ask_documents(each_shard, questions, sound, top, look)


def _likeliest_first(
    documents: Sequence[RankedDocument], answers: Mapping[str, Sequence[Answer]]
) -> list[Answer]:
    """The answers of several documents as one list.

    Those of a document are less likely, the further it ranks behind the first. The document of the likeliest answer
    says how likely there is none; answers of the others share what is left.
    """
    lists: list[list[Answer]] = []
    for document in documents:
        behind = _BEHIND * (documents[0].score - document.score)
        lists.append(
            [
                answer
                if answer.absent
                else replace(answer, document=document.name, probability=_lowered(answer.probability, behind))
                for answer in answers.get(document.name, ())
            ]
        )
    phrases = [[answer for answer in of_document if not answer.absent] for of_document in lists]
    if not any(phrases):
        return next((of_document for of_document in lists if of_document), [Answer("", 1.0, ABSENT)])
    best = max(range(len(phrases)), key=lambda at: phrases[at][0].probability if phrases[at] else -1.0)
    left = 1 - phrases[best][0].probability
    ranked = [
        answer
        if at == best
        else replace(answer, probability=answer.probability * left, quote_probability=None)
        for at, of_document in enumerate(phrases)
        for answer in of_document
    ]
    ranked.sort(key=lambda answer: -answer.probability)
    absent = next((answer for answer in lists[best] if answer.absent), None)
    return _with_absent(ranked, absent, lists[best][0].absent)


def _with_absent(answers: list[Answer], absent: Answer | None, refused: bool) -> list[Answer]:
    """Answers with "not in this library" among them: first if it was refused to answer, else by its probability."""
    if absent is None:
        return answers
    place = 0 if refused else max(1, sum(answer.probability > absent.probability for answer in answers))
    return [*answers[:place], absent, *answers[place:]]


def _lowered(probability: float, by: float) -> float:
    """A probability with its log-odds lowered.

    >>> round(_lowered(0.5, math.log(3)), 2), _lowered(1.0, 2.0)
    (0.25, 1.0)
    """
    return probability / (probability + (1 - probability) * math.exp(by)) if by else probability


def list_answers(
    each_shard: EachShard,
    question: str,
    top: int | None,
    look: int | None = None,
    within: Subset | None = None,
) -> list[AnswerGroup]:
    """All places that answer a question about as likely as the best one, grouped by answer; none if it is refused."""
    check_top(top)
    ((first,),) = ask_all(each_shard, [question], 1, look, within)
    if first.absent:
        return []
    places, copies = _likely_places(each_shard, without_preface(question), first.probability, look, within)
    if is_yes_no(question):
        places = _sentences_of(each_shard, places)
    return grouped(places, copies)[:top]


def _likely_places(
    each_shard: EachShard, question: str, probability: float, look: int | None, within: Subset | None
) -> tuple[list[Answer], dict[str, list[str]]]:
    """The phrases of the best documents that are about as likely as the likeliest, and the copies of the documents.

    Each is as likely, compared with the first answer, whose probability is given, as its share of the softmax over all
    phrases. What says the same in another document is as likely, although that document ranks behind: it may be a copy
    with a few changes. Words of a sentence that was read again are those that the second look found.
    """
    (found,) = find_candidates(each_shard, [question], _COPIES * _LISTED, within)
    distinct = without_copies(found, _LISTED)
    biases, score = _score_phrases(each_shard, question, distinct.documents)
    total = score.total
    said = _all_phrases(each_shard(lambda shard: shard.phrases(question, biases, total, _PHRASES, look)))
    seen = next(filter(None, each_shard(lambda shard: shard.read_again(question, said.sentences))), None)
    phrases = [replace(answer, document=name) for name in biases for answer in said.shares.get(name, ())]
    best = max((phrase.probability for phrase in phrases), default=0.0)
    least = max(float(np.exp(score.null - total)), _AS_LIKELY * best)
    spans = [] if seen is None else seen.spans
    kept: dict[str, list[Answer]] = {}
    for phrase in sorted(phrases, key=lambda phrase: -phrase.probability):
        place = _looked(phrase, spans)
        group = kept.setdefault(normalised(place.text) or place.text, [])
        same = next((earlier for earlier in group if _say_the_same(earlier, place)), None)
        if same is not None:
            group.append(replace(place, probability=same.probability))
        elif phrase.probability >= least:
            group.append(replace(place, probability=probability * phrase.probability / best))
    places = sorted(
        (place for group in kept.values() for place in group), key=lambda place: -place.probability
    )
    # Several phrases may be words of the one span that a second look found.
    return distinct_places(places), distinct.copies


def _score_phrases(
    each_shard: EachShard, question: str, candidates: list[RankedDocument]
) -> tuple[dict[str, float], PhraseScores]:
    """What is added to the phrases of each document that answers, without damaged ones, and the scores of these."""
    biases = _biases(candidates)
    shards = each_shard(lambda shard: shard.scores(question, biases))
    (log_sums,) = joined([shard.log_sums] for shard in shards)
    sound = [document for document in candidates if document.name in log_sums]
    if sound != candidates:
        # Biases are measured from the best document: without it they are others.
        return _score_phrases(each_shard, question, sound)
    # The score of "no answer" depends on the question only.
    null = next((shard for shard in shards if shard.log_sums), shards[0]).null
    # In the order of ranks, whichever the shards are: the sum depends on the order.
    return biases, PhraseScores({name: log_sums[name] for name in biases}, null)


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


def _all_phrases(shards: Sequence[LikeliestPhrases]) -> LikeliestPhrases:
    """The phrases of all documents, and of their sentences those that are read again."""
    (shares,) = joined([shard.shares] for shard in shards)
    sentences = [sentence for shard in shards for sentence in shard.sentences]
    sentences.sort(key=lambda sentence: -sentence.score)
    count = shards[0].count
    return LikeliestPhrases(shares, distinct_sentences(sentences)[:count], count)


def _looked(phrase: Answer, spans: "Sequence[FoundSpan]") -> Answer:
    """A phrase, or the span that a second look found in its place."""
    for span in spans:
        is_there = span.sentence.document == phrase.document and phrase.start is not None
        if is_there and span.start < (phrase.end or 0) and (phrase.start or 0) < span.end:
            return replace(phrase, text=span.text, start=span.start, end=span.end)
    return phrase


def _sentences_of(each_shard: EachShard, answers: Sequence[Answer]) -> list[Answer]:
    """Answers as the sentences that they stand in, each once."""
    (found,) = joined(each_shard(lambda shard: [shard.whole_sentences(answers)]))
    return distinct_places([found.get(str(at), answer) for at, answer in enumerate(answers)])


class DistinctDocuments(NamedTuple):
    """Documents of different texts, and the names of the copies of each."""

    documents: list[RankedDocument]
    copies: dict[str, list[str]]


def without_copies(candidates: Sequence[RankedDocument], count: int) -> DistinctDocuments:
    """The first `count` documents that differ; a text whose digest is not known is no copy.

    >>> ranked = [RankedDocument(3.0, b"a", "a", b"1"), RankedDocument(2.0, b"b", "b", b"1")]
    >>> without_copies([*ranked, RankedDocument(1.0, b"c", "c", b"2")], 2).copies
    {'a': ['b'], 'c': []}
    """
    first_of: dict[bytes, str] = {}
    copies: dict[str, list[str]] = {}
    documents: list[RankedDocument] = []
    for document in candidates:
        original = first_of.setdefault(document.digest or document.key, document.name)
        if original != document.name:
            copies[original].append(document.name)
        elif len(documents) < count:
            documents.append(document)
            copies[document.name] = []
        else:
            break
    return DistinctDocuments(documents, copies)


def distinct_sentences(sentences: "Sequence[FoundSentence]") -> "list[FoundSentence]":
    """Sentences in their order, of equal ones the first, with the share of all."""
    kept: dict[str, FoundSentence] = {}
    for sentence in sentences:
        words = normalised(sentence.text)
        known = kept.get(words)
        # The phrases of one document are shares of one softmax already.
        if known is None:
            kept[words] = sentence
        elif known.document != sentence.document:
            kept[words] = known._replace(share=float(np.logaddexp(known.share, sentence.share)))
    return list(kept.values())


def merged_answers(answers: Sequence[Answer], copies: Mapping[str, Sequence[str]]) -> list[Answer]:
    """Answers with those that say the same merged, and the places of copies.

    "Not in this library" stays the first if it was.
    """
    groups: dict[str, list[Answer]] = {}
    absent: Answer | None = None
    for answer in answers:
        if answer.absent:
            absent = answer
        else:
            group = groups.setdefault(normalised(answer.text) or answer.text, [])
            for at, earlier in enumerate(group):
                if _say_the_same(earlier, answer):
                    group[at] = _joined(earlier, answer)
                    break
            else:
                group.append(answer)
    merged = [_with_copies(answer, copies) for group in groups.values() for answer in group]
    merged.sort(key=lambda answer: -answer.probability)
    return _with_absent(merged, absent, refused=answers[:1] == [absent])


def grouped(places: Sequence[Answer], copies: Mapping[str, Sequence[str]]) -> list[AnswerGroup]:
    """Places by their answer, the likeliest first; a copy of a document is another place.

    >>> said = [Answer("the Tiber", 0.5, "place"), Answer("Rome", 0.2, "place"), Answer("Tiber,", 0.25, "place")]
    >>> [(group.text, group.count, group.probability) for group in grouped(said, {})]
    [('the Tiber', 2, 0.5), ('Rome', 1, 0.2)]
    """
    groups: dict[str, list[Answer]] = {}
    for place in places:
        words = normalised(place.text)
        key = " ".join(word for word in words.split() if word not in _ARTICLES) or words or place.text
        groups.setdefault(key, []).append(place)
    made = []
    for group in groups.values():
        first, probability = group[0], max(place.probability for place in group)
        # Copies of a document were asked once: they are as likely as it is.
        with_copies = [
            replace(place, document=name)
            for place in group
            for name in (place.document, *copies.get(place.document or "", ()))
        ]
        made.append(AnswerGroup(first.text, probability, first.kind, len(with_copies), with_copies))
    return sorted(made, key=lambda group: -group.probability)


def _say_the_same(one: Answer, other: Answer) -> bool:
    """Whether two equal answers of different documents stand in sentences that are alike."""
    if one.quote is None or other.quote is None or one.document == other.document:
        return False
    words, others = set(normalised(one.quote).split()), set(normalised(other.quote).split())
    return len(words & others) >= _ALIKE * len(words | others)


def _joined(one: Answer, other: Answer) -> Answer:
    """The likelier one, also at the other's place: what is written twice is no more likely."""
    return replace(one, also=(*one.also, _place_of(other)))


def _with_copies(answer: Answer, copies: Mapping[str, Sequence[str]]) -> Answer:
    """An answer with its places in the copies of its documents, which are the same as in these."""
    places = [_place_of(answer), *answer.also]
    more = [replace(place, document=name) for place in places for name in copies.get(place.document, ())]
    return replace(answer, also=(*answer.also, *more)) if more else answer


def _place_of(answer: Answer) -> OtherPlace:
    return OtherPlace(answer.document or "", answer.start, answer.end, answer.place)
