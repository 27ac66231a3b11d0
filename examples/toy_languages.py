"""Two made-up languages for `translation.py`: sentences of one and their translations into the other.

"the old bars see a don" is "BARS OLD-o THE-o DON A-o SEES". The verb comes last and agrees with its subject, some
words before it. Adjective and article follow their noun and take its gender, which the source does not show.
"""

from random import Random

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

ARTICLES = ["the", "a"]
ADJECTIVES = ["red", "old", "big", "wet", "sad", "new"]
NOUNS = [start + end for start in ("ba", "do", "ki", "lu") for end in "nrt"]
VERBS = ["see", "find", "like", "take", "call", "lead"]
GENDERS = {noun: "eo"[place % 2] for place, noun in enumerate(NOUNS)}

SOURCE = ["", "and", *ARTICLES, *ADJECTIVES, *VERBS, *NOUNS, *(noun + "s" for noun in NOUNS)]
TARGET = ["", "ET", *(word.upper() + ending for word in NOUNS + VERBS for ending in ("", "S"))]
TARGET += [f"{word.upper()}-{gender}" for word in ARTICLES + ADJECTIVES for gender in "eo"]


def noun_phrase(rng: Random) -> tuple[list[str], list[str], str]:
    """A phrase, its translation, and its plural ending or nothing."""
    noun, number = rng.choice(NOUNS), rng.choice(["", "s"])
    before = [rng.choice(ARTICLES), *rng.sample(ADJECTIVES, rng.randint(0, 1))]
    after = [f"{word.upper()}-{GENDERS[noun]}" for word in reversed(before)]
    return [*before, noun + number], [(noun + number).upper(), *after], number


def sentence(rng: Random, clauses: int) -> tuple[list[str], list[str]]:
    """Clauses joined by "and", and their translation."""
    source: list[str] = []
    target: list[str] = []
    for clause in range(clauses):
        (subject, its_subject, number), (thing, its_thing, _) = noun_phrase(rng), noun_phrase(rng)
        verb = rng.choice(VERBS)
        source += [*(["and"] if clause else []), *subject, verb, *thing]
        target += [*(["ET"] if clause else []), *its_subject, *its_thing, (verb + number).upper()]
    return source, target


def sentences(rng: Random, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources `[B, n]` of one or two clauses, their lengths, and translations `[B, m]`.

    Words are indices into SOURCE and TARGET. A translation ends with the empty word and is padded with −1.
    """
    pairs = [sentence(rng, rng.randint(1, 2)) for _ in range(count)]
    sources = [torch.tensor([SOURCE.index(word) for word in source]) for source, _ in pairs]
    targets = [torch.tensor([TARGET.index(word) for word in [*target, ""]]) for _, target in pairs]
    lengths = torch.tensor([len(source) for source in sources])
    return pad_sequence(sources, True), lengths, pad_sequence(targets, True, -1)
