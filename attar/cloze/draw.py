"""Questions drawn from a document: sentences held out, one name of each blanked that the rest still holds."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from attar.cloze.document import ClozeDocument, Question, entity_of
from attar.text import PLACEHOLDER

# Shorter sentences say too little about the name ("said @placeholder ."), longer ones are seldom sentences.
SHORTEST, LONGEST = 6, 80
# At most one sentence in so many is held out, so that a short document keeps its facts.
ONE_IN = 4


def askable_sentences(
    mentions: Sequence[Sequence[int]], lengths: Sequence[int], totals: Sequence[int]
) -> list[int]:
    """Give the sentences of which a name could be blanked: it occurs there once, and elsewhere too.

    >>> askable_sentences([[0, 1], [0], [2]], [7, 7, 7], [2, 1, 1])
    [0, 1]
    """
    return [
        at
        for at, (names, length) in enumerate(zip(mentions, lengths, strict=True))
        if SHORTEST <= length <= LONGEST
        and any(totals[name] > 1 and names.count(name) == 1 for name in names)
    ]


def choose_blanks(
    mentions: Sequence[Sequence[int]],
    totals: Sequence[int],
    askable: Sequence[int],
    rng: np.random.Generator,
    count: int,
) -> list[tuple[int, int]]:
    """Choose up to `count` sentences to hold out, and which mention of each to blank, by the rule above.

    What is held out takes its mentions with it, so each choice is checked against those before it.
    """
    left = list(totals)
    count = min(count, max(1, len(mentions) // ONE_IN))
    chosen: list[tuple[int, int]] = []
    answers: set[int] = set()
    luck = rng.random(2 * len(askable)).tolist()
    order = sorted(range(len(askable)), key=luck.__getitem__)
    for at in order:
        if len(chosen) == count:
            break
        names = mentions[askable[at]]
        for name in names:
            left[name] -= 1
        blanks = [place for place, name in enumerate(names) if left[name] > 0 and names.count(name) == 1]
        if blanks and all(left[name] > 0 for name in answers.intersection(names)):
            place = blanks[int(luck[len(askable) + at] * len(blanks))]
            answers.add(names[place])
            chosen.append((askable[at], place))
        else:
            for name in names:
                left[name] += 1
    return chosen


def draw_questions(document: ClozeDocument, rng: np.random.Generator, count: int) -> ClozeDocument:
    """Hold sentences out of a document and make them its questions, the same for the same generator."""
    places = [
        [(at, entity) for at, token in enumerate(sentence) if (entity := entity_of(token)) is not None]
        for sentence in document.sentences
    ]
    mentions = [[entity for _, entity in found] for found in places]
    counts = Counter(entity for found in mentions for entity in found)
    totals = [counts[entity] for entity in range(max(counts, default=-1) + 1)]
    askable = askable_sentences(mentions, [len(sentence) for sentence in document.sentences], totals)
    chosen = choose_blanks(mentions, totals, askable, rng, count)
    questions = []
    for sentence, place in chosen:
        at, answer = places[sentence][place]
        tokens = document.sentences[sentence]
        questions.append(Question((*tokens[:at], PLACEHOLDER, *tokens[at + 1 :]), answer))
    held = {sentence for sentence, _ in chosen}
    kept = [tokens for at, tokens in enumerate(document.sentences) if at not in held]
    return ClozeDocument(document.name, document.source, kept, document.names, questions)
