"""New questions for a whole split at once: the rule of `draw`, on arrays, for every epoch of training."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.cloze.draw import LONGEST, ONE_IN, SHORTEST
from attar.cloze.encoded import EncodedSplit, Places


@dataclass(frozen=True)
class DrawnQuestions:
    """Sentences that are held out of their documents, in the documents' order, and which token is blanked."""

    sentences: Places  # [Q]
    blanks: Places  # [Q], the token
    document_questions: Places  # [D + 1], in questions


class QuestionDrawer:
    """Draws questions on all documents of a split; what does not change from draw to draw is found once."""

    def __init__(self, split: EncodedSplit) -> None:
        self.split = split

    @cached_property
    def _mentions(self) -> tuple[Places, Places, NDArray[np.bool_], Places]:
        """Where names stand, which of all names they are, if alone in their sentence; sentences' first ones."""
        split = self.split
        token = np.flatnonzero(split.names >= 0)
        sentence = np.searchsorted(split.sentence_starts, token, "right") - 1
        document = np.searchsorted(split.document_starts, token, "right") - 1
        name = split.name_starts[document] + split.names[token]
        _, which, times = np.unique(sentence * (len(split.numbers) + 1) + name, False, True, True)
        starts = np.searchsorted(sentence, np.arange(len(split.sentence_starts)))
        return token, name, times[which] == 1, starts

    @cached_property
    def _totals(self) -> Places:
        """How often each name occurs in its document."""
        return np.bincount(self._mentions[1], minlength=len(self.split.numbers))

    @cached_property
    def _askable(self) -> Places:
        """The sentences of which a name could be blanked: it occurs there once, and elsewhere too."""
        _, name, alone, starts = self._mentions
        lengths = np.diff(self.split.sentence_starts)
        possible = np.concatenate(([0], np.cumsum(alone & (self._totals[name] > 1))))
        fits = (lengths >= SHORTEST) & (lengths <= LONGEST) & (possible[starts[1:]] > possible[starts[:-1]])
        return np.flatnonzero(fits)

    def draw(self, rng: np.random.Generator, count: int) -> DrawnQuestions:
        """Choose up to `count` sentences of each document and which mention of each to blank.

        Every document takes its sentences in a random order; in each round all documents try their next one.
        What is held out takes its mentions with it, so each try is checked against those before it.
        """
        split, askable = self.split, self._askable
        token, name, alone, starts = self._mentions
        document = np.searchsorted(split.document_sentences, askable, "right") - 1
        order = askable[np.lexsort((rng.random(len(askable)), document))]
        bounds = np.searchsorted(document, np.arange(len(split) + 1))
        at, last = bounds[:-1].copy(), bounds[1:]
        room = np.minimum(count, np.maximum(1, np.diff(split.document_sentences) // ONE_IN))
        left, answers = self._totals.copy(), np.zeros(len(self._totals), np.bool_)
        chosen, blanked = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        trying = np.flatnonzero((at < last) & (room > 0))
        while len(trying):
            sentence = order[at[trying]]
            first, stop = starts[sentence], starts[sentence + 1]
            mention = spans(first, stop)
            row = np.repeat(np.arange(len(trying)), stop - first)
            np.subtract.at(left, name[mention], 1)
            remains = left[name[mention]] > 0
            # The blank's name must be left elsewhere, and so must the answers to questions drawn before.
            luck = np.where(remains & alone[mention], rng.random(len(mention)), -1.0)
            best = np.maximum.reduceat(luck, _offsets(stop - first))
            spoilt = np.zeros(len(trying), np.bool_)
            spoilt[row[answers[name[mention]] & ~remains]] = True
            taken = (best >= 0) & ~spoilt
            blank = mention[(luck == best[row]) & taken[row]]
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


def spans(starts: Places, stops: Places) -> Places:
    """All numbers from each start to its stop, one span behind the other.

    >>> spans(np.array([3, 9]), np.array([5, 12])).tolist()
    [3, 4, 9, 10, 11]
    """
    lengths = stops - starts
    return np.arange(int(lengths.sum())) + np.repeat(starts - _offsets(lengths), lengths)


def _offsets(lengths: Places) -> Places:
    """Where each span begins when they are put one behind the other."""
    return np.cumsum(lengths) - lengths
