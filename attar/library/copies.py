"""Copies: a text that a library has several times is one answer with several places, not several rare answers.

Documents of equal texts are asked once. Equal sentences of different documents are read again once. Equal answers with
equal sentences, or nearly equal ones, are merged, and their probabilities added.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from attar.results import Answer, AnswerGroup, OtherPlace
from attar.search.ranking import RankedDocument
from attar.text.quotes import normalised

if TYPE_CHECKING:
    from attar.reader.second_look import FoundSentence

_ARTICLES = frozenset(("a", "an", "the"))
# Sentences that share this much of their words say the same, if they give the same answer.
_ALIKE = 0.8


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
    if absent is None:
        return merged
    refused = bool(answers) and answers[0].absent
    place = 0 if refused else max(1, sum(answer.probability > absent.probability for answer in merged))
    return [*merged[:place], absent, *merged[place:]]


def grouped(places: Sequence[Answer], copies: Mapping[str, Sequence[str]]) -> list[AnswerGroup]:
    """Places by their answer, the likeliest first; a copy of a document is another place.

    >>> said = [Answer("the Tiber", 0.5, "place"), Answer("Rome", 0.2, "place"), Answer("Tiber,", 0.25, "place")]
    >>> [(group.text, group.count, group.probability) for group in grouped(said, {})]
    [('the Tiber', 2, 0.75), ('Rome', 1, 0.2)]
    """
    groups: dict[str, list[Answer]] = {}
    for place in places:
        words = normalised(place.text)
        key = " ".join(word for word in words.split() if word not in _ARTICLES) or words or place.text
        groups.setdefault(key, []).append(place)
    made = []
    for group in groups.values():
        first, probability = group[0], min(sum(place.probability for place in group), 1.0)
        # Copies of a document were asked once: they are as likely as it is.
        with_copies = [
            msgspec.structs.replace(place, document=name)
            for place in group
            for name in (place.document, *copies.get(place.document or "", ()))
        ]
        made.append(AnswerGroup(first.text, probability, first.kind, len(with_copies), with_copies))
    return sorted(made, key=lambda group: -group.probability)


def distinct_places(answers: Sequence[Answer]) -> list[Answer]:
    """Answers with those at the same place as one, which is as likely as all of them."""
    kept: dict[tuple[object, ...], Answer] = {}
    for answer in answers:
        place = (answer.absent, answer.document, answer.start, answer.end, answer.text)
        known = kept.get(place)
        probability = answer.probability + (0.0 if known is None else known.probability)
        kept[place] = msgspec.structs.replace(known or answer, probability=min(probability, 1.0))
    return list(kept.values())


def _say_the_same(one: Answer, other: Answer) -> bool:
    """Whether two equal answers of different documents stand in sentences that are alike."""
    if one.quote is None or other.quote is None or one.document == other.document:
        return False
    words, others = set(normalised(one.quote).split()), set(normalised(other.quote).split())
    return len(words & others) >= _ALIKE * len(words | others)


def _joined(one: Answer, other: Answer) -> Answer:
    probability = min(one.probability + other.probability, 1.0)
    return msgspec.structs.replace(one, probability=probability, also=(*one.also, _place_of(other)))


def _with_copies(answer: Answer, copies: Mapping[str, Sequence[str]]) -> Answer:
    """An answer with its places in the copies of its documents, which are the same as in these."""
    places = [_place_of(answer), *answer.also]
    more = [
        msgspec.structs.replace(place, document=name)
        for place in places
        for name in copies.get(place.document, ())
    ]
    return msgspec.structs.replace(answer, also=(*answer.also, *more)) if more else answer


def _place_of(answer: Answer) -> OtherPlace:
    return OtherPlace(answer.document or "", answer.start, answer.end, answer.place)
