"""Passages that are in a data set twice, the second time back-translated, with the questions of both.

SQuAD's training set is known in part with its answers; its back-translation has all questions, also those without an
answer, but does not say which span answers which.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attar.training.questions.data import Passage, Question

_WORD = re.compile(r"\w+")
# Words of more passages than this say nothing of a passage.
_COMMON = 400
# Cosine of the words' weights, how far the best is before the second, and the ratio of lengths.
_ALIKE, _AHEAD, _LENGTHS = 0.45, 0.12, (0.75, 1.35)
# Passages that are compared with all others at a time.
_ROWS = 512
# The share of words that a question and its back-translation have in common, by the letters words begin with.
_SHARED, _LETTERS = 0.3, 5


def with_translated_questions(passages: Sequence[Passage]) -> list[Passage]:
    """The passages; those whose back-translation is among them get its questions, too, if their answers are known.

    These are the questions without an answer, and those that are known ones in other words. Both passages name the
    other's article as their twin, so that they are not on two sides of a split.
    """
    found = list(passages)
    marked = [at for at, passage in enumerate(passages) if passage.spans]
    others = [at for at, passage in enumerate(passages) if passage.questions and not passage.spans]
    if not marked or not others:
        return found
    pairs = _pairs([passages[at].text for at in others], [passages[at].text for at in marked])
    pairs = [(others[place], marked[match]) for place, match in pairs]
    # Most passages of an article are in the same other one; a pair that is not is a mistake, which would join both.
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for place, match in pairs:
        counts[passages[place].article][passages[match].article] += 1
    for place, match in pairs:
        original, translated = passages[place], passages[match]
        if counts[original.article].most_common(1)[0][0] != translated.article:
            continue
        absent = tuple(question for question in translated.questions if question.labelled)
        questions = (*original.questions, *_reworded(original, translated), *absent)
        found[place] = replace(original, questions=questions, twin=translated.article)
        found[match] = replace(translated, twin=original.article)
    return found


def _reworded(original: Passage, translated: Passage) -> list[Question]:
    """The back-translations of questions, with the answers of these."""
    left = [question.text for question in translated.questions if not question.labelled]
    found = []
    for question in original.questions:
        if not question.answers or not left:
            continue
        words = _beginnings(question.text)
        shares = [len(words & other) / max(1, len(words | other)) for other in map(_beginnings, left)]
        best = int(np.argmax(shares))
        if shares[best] > _SHARED:
            text = left.pop(best)
            if text != question.text:
                found.append(replace(question, text=text))
    return found


def _beginnings(text: str) -> set[str]:
    return {word.lower()[:_LETTERS] for word in _WORD.findall(text)}


def _pairs(texts: Sequence[str], candidates: Sequence[str]) -> list[tuple[int, int]]:
    """Each text with the candidate that is the same in other words, if there is one.

    >>> same = "Ann Lee sold her red boat to 3 sailors of Dover in 1931."
    >>> _pairs([same], ["The mill burned down.", "In 1931 Ann Lee sold the red boat to 3 sailors from Dover."])
    [(0, 1)]
    """
    from scipy.sparse import csr_array

    sets = [[_words(text) for text in group] for group in (texts, candidates)]
    holding = Counter(word for words in sets[1] for word in words)
    rare = [word for word, count in holding.items() if count < _COMMON]
    number = {word: at for at, word in enumerate(rare)}
    weights = np.log(max(2, len(candidates) + 1) / np.array([holding[word] for word in rare]))
    matrices = []
    for group in sets:
        rows = [[number[word] for word in words if word in number] for words in group]
        columns = np.array([column for row in rows for column in row], np.int64)
        starts = np.cumsum([0, *map(len, rows)])
        matrix = csr_array((weights[columns], columns, starts), shape=(len(rows), len(number)))
        norms = np.sqrt((matrix**2).sum(1))
        matrices.append(matrix.multiply(1 / np.maximum(norms, 1e-9)[:, None]).tocsr())
    pairs = []
    for start in range(0, len(texts), _ROWS):
        alike = (matrices[0][start : start + _ROWS] @ matrices[1].T).tocsr()
        for place, text in enumerate(texts[start : start + _ROWS]):
            row = slice(alike.indptr[place], alike.indptr[place + 1])
            values, columns = alike.data[row], alike.indices[row]
            if not len(values):
                continue
            best = int(values.argmax())
            second = np.delete(values, best).max(initial=0.0)
            ratio = len(text) / len(candidates[columns[best]])
            if values[best] > _ALIKE and values[best] - second > _AHEAD and _LENGTHS[0] < ratio < _LENGTHS[1]:
                pairs.append((start + place, int(columns[best])))
    return pairs


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text) if len(word) > 2 or word.isdigit()}
