"""Questions drawn from documents: sentences held out, with one name blanked that the rest still contains.

From one document when a set is built, and from a whole encoded split, on arrays, for every epoch of training.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.cloze.documents import ClozeDocument, Question, entity_number
from attar.cloze.encoded import EncodedSplit, Offsets
from attar.text.tokens import PLACEHOLDER

# Shorter sentences say too little about the name ("said @placeholder ."), longer ones are rarely sentences.
_SHORTEST, _LONGEST = 6, 80
# At most one sentence in four is held out, so that a short document keeps its facts.
_ONE_IN = 4


def _choose_blanks(
    mentions: Sequence[Sequence[int]],
    totals: Sequence[int],
    askable: Sequence[int],
    rng: np.random.Generator,
    count: int,
) -> list[tuple[int, int]]:
    """Choose at most `count` sentences to hold out, and which mention of each to blank.

    A held-out sentence removes its mentions, so each choice is checked against those before it.
    """
    left = list(totals)
    count = min(count, max(1, len(mentions) // _ONE_IN))
    chosen: list[tuple[int, int]] = []
    answers: set[int] = set()
    draws = rng.random(2 * len(askable)).tolist()
    order = sorted(range(len(askable)), key=draws.__getitem__)
    for at in order:
        if len(chosen) == count:
            break
        names = mentions[askable[at]]
        for name in names:
            left[name] -= 1
        blanks = [place for place, name in enumerate(names) if left[name] > 0 and names.count(name) == 1]
        if blanks and all(left[name] > 0 for name in answers.intersection(names)):
            place = blanks[int(draws[len(askable) + at] * len(blanks))]
            answers.add(names[place])
            chosen.append((askable[at], place))
        else:
            for name in names:
                left[name] += 1
    return chosen


def draw_questions(document: ClozeDocument, rng: np.random.Generator, count: int) -> ClozeDocument:
    """Hold sentences out of a document as its questions; the same generator state gives the same questions."""
    places = [
        [(at, entity) for at, token in enumerate(sentence) if (entity := entity_number(token)) is not None]
        for sentence in document.sentences
    ]
    mentions = [[entity for _, entity in found] for found in places]
    counts = Counter(entity for found in mentions for entity in found)
    totals = [counts[entity] for entity in range(max(counts, default=-1) + 1)]
    askable = [
        at
        for at, (names, sentence) in enumerate(zip(mentions, document.sentences, strict=True))
        if _SHORTEST <= len(sentence) <= _LONGEST
        and any(totals[name] > 1 and names.count(name) == 1 for name in names)
    ]
    chosen = _choose_blanks(mentions, totals, askable, rng, count)
    questions = []
    for sentence, place in chosen:
        at, answer = places[sentence][place]
        tokens = document.sentences[sentence]
        questions.append(Question((*tokens[:at], PLACEHOLDER, *tokens[at + 1 :]), answer))
    held = {sentence for sentence, _ in chosen}
    kept = [tokens for at, tokens in enumerate(document.sentences) if at not in held]
    return ClozeDocument(document.name, document.source, kept, document.names, questions)


@dataclass(frozen=True)
class DrawnQuestions:
    """The held-out sentences of a split, in order, and the blanked token of each."""

    sentences: Offsets  # [Q]
    blanks: Offsets  # [Q], the token
    document_questions: Offsets  # [D + 1], in questions


class QuestionDrawer:
    """Draws questions from all documents of a split at once, by the rule of `draw_questions`."""

    def __init__(self, split: EncodedSplit) -> None:
        self.split = split

    @cached_property
    def _mentions(self) -> tuple[Offsets, Offsets, NDArray[np.bool_], Offsets]:
        """Mentions: token, name, whether the only one of its name in its sentence; and each sentence's first."""
        split = self.split
        token = np.flatnonzero(split.names >= 0)
        sentence = np.searchsorted(split.sentence_starts, token, "right") - 1
        document = np.searchsorted(split.document_starts, token, "right") - 1
        name = split.name_starts[document] + split.names[token]
        _, which, times = np.unique(sentence * (len(split.numbers) + 1) + name, False, True, True)
        starts = np.searchsorted(sentence, np.arange(len(split.sentence_starts)))
        return token, name, times[which] == 1, starts

    @cached_property
    def _totals(self) -> Offsets:
        """How often each name occurs in its document."""
        return np.bincount(self._mentions[1], minlength=len(self.split.numbers))

    @cached_property
    def _askable(self) -> Offsets:
        """The sentences with a name to blank: it occurs in the sentence once, and elsewhere too."""
        _, name, alone, starts = self._mentions
        lengths = np.diff(self.split.sentence_starts)
        possible = np.concatenate(([0], np.cumsum(alone & (self._totals[name] > 1))))
        fits = (lengths >= _SHORTEST) & (lengths <= _LONGEST) & (possible[starts[1:]] > possible[starts[:-1]])
        return np.flatnonzero(fits)

    def draw(self, rng: np.random.Generator, count: int) -> DrawnQuestions:
        """Choose at most `count` sentences per document, and which mention of each to blank.

        Every document tries its sentences in a random order; in each round all documents try their next one.
        A held-out sentence removes its mentions, so each try is checked against those before it.
        """
        split, askable = self.split, self._askable
        token, name, alone, starts = self._mentions
        document = np.searchsorted(split.document_sentences, askable, "right") - 1
        order = askable[np.lexsort((rng.random(len(askable)), document))]
        bounds = np.searchsorted(document, np.arange(len(split) + 1))
        at, last = bounds[:-1].copy(), bounds[1:]
        room = np.minimum(count, np.maximum(1, np.diff(split.document_sentences) // _ONE_IN))
        left, answers = self._totals.copy(), np.zeros(len(self._totals), np.bool_)
        chosen, blanked = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        trying = np.flatnonzero((at < last) & (room > 0))
        while len(trying):
            sentence = order[at[trying]]
            first, stop = starts[sentence], starts[sentence + 1]
            mention = concatenate_ranges(first, stop)
            row = np.repeat(np.arange(len(trying)), stop - first)
            np.subtract.at(left, name[mention], 1)
            remains = left[name[mention]] > 0
            # The blanked name must remain elsewhere, and so must the answers to questions drawn before.
            draws = np.where(remains & alone[mention], rng.random(len(mention)), -1.0)
            best = np.maximum.reduceat(draws, _offsets(stop - first))
            blocked = np.zeros(len(trying), np.bool_)
            blocked[row[answers[name[mention]] & ~remains]] = True
            taken = (best >= 0) & ~blocked
            blank = mention[(draws == best[row]) & taken[row]]
            np.add.at(left, name[mention[~taken[row]]], 1)
            answers[name[blank]] = True
            chosen.append(sentence[taken])
            blanked.append(token[blank])
            room[trying[taken]] -= 1
            at[trying] += 1
            trying = trying[(at[trying] < last[trying]) & (room[trying] > 0)]
        sentences, blanks = np.concatenate(chosen), np.concatenate(blanked)
        by_place = np.argsort(sentences)
        sentences, blanks = sentences[by_place], blanks[by_place]
        return DrawnQuestions(sentences, blanks, np.searchsorted(sentences, split.document_sentences))


def concatenate_ranges(starts: Offsets, stops: Offsets) -> Offsets:
    """Concatenate the ranges from each start to its stop.

    >>> concatenate_ranges(np.array([3, 9]), np.array([5, 12])).tolist()
    [3, 4, 9, 10, 11]
    """
    lengths = stops - starts
    return np.arange(int(lengths.sum())) + np.repeat(starts - _offsets(lengths), lengths)


def _offsets(lengths: Offsets) -> Offsets:
    """Return where each of some concatenated ranges begins."""
    return np.cumsum(lengths) - lengths
