"""Questions as people type them: keywords, typos, polite prefaces, no question mark. Only training uses them.

Case needs no variant: word pieces have none.
"""

import re

import numpy as np

_PREFACES = (
    "could you please tell me ",
    "can you tell me ",
    "please tell me ",
    "do you know ",
    "i would like to know ",
    "i want to know ",
    "tell me ",
    "hi, ",
    "quick question: ",
    "according to the text, ",
)
# Words that a person leaves out who types keywords into a search box.
_DROPPED = re.compile(
    r"\b(?:what|which|who|whom|is|are|was|were|did|does|do|has|have|had|the|a|an|of|in|to|for|that|this)\b ?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z]{4,}")
# Neighbours on a keyboard.
_NEAR = dict(zip("abcdefghijklmnopqrstuvwxyz", "snvfrdhjoklknmpowtdyibecux", strict=True))
# How likely each is: keywords, a preface, one typo, two typos; else only the question mark goes.
_SHARES = (0.2, 0.2, 0.25, 0.1)
_FEWEST_KEYWORDS = 3


def as_typed(question: str, random: np.random.Generator) -> str:
    """The question in another form that a person might type.

    >>> as_typed("What is the capital of France?", np.random.default_rng(0))
    'What is the cappital of France?'
    """
    bare = question.rstrip("?! .")
    draw = random.random()
    keywords, preface, typo, typos = np.cumsum(_SHARES)
    if draw < keywords:
        kept = " ".join(_DROPPED.sub("", bare).split())
        return kept if len(kept.split()) >= _FEWEST_KEYWORDS else bare
    if draw < preface:
        before = _PREFACES[random.integers(len(_PREFACES))]
        return before + bare[:1].lower() + bare[1:] + ("?" if random.random() < 0.5 else "")
    if draw < typos:
        for _ in range(1 if draw < typo else 2):
            bare = with_typo(bare, random)
        return bare + ("?" if random.random() < 0.5 else "")
    return bare


def with_typo(text: str, random: np.random.Generator) -> str:
    """A letter of a longer word left out, doubled, exchanged with the next one, or with its neighbour on a keyboard."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = words[random.integers(len(words))]
    at = word.start() + 1 + int(random.integers(len(word[0]) - 2))
    letter, after = text[at], text[at + 1]
    changed = (after, letter + letter + after, after + letter, _NEAR[letter.lower()] + after)
    return text[:at] + changed[random.integers(len(changed))] + text[at + 2 :]
