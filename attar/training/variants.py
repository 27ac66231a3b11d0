"""Questions made from others: as a person might type them, and such that a passage does not answer them.

Unanswerable ones are known questions with a name, a number or a word changed, as SQuAD's own were made. A teacher
learns that they have no answer. Some have one all the same, and the reader learns what the teacher says about each.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attar.training.data import Passage, PassageQuestion

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
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
# Neighbours on a keyboard.
_NEAR = dict(zip("abcdefghijklmnopqrstuvwxyz", "snvfrdhjoklknmpowtdyibecux", strict=True))
# How likely each is: keywords, a preface, one typo, two typos; else only the question mark goes.
_TYPED_SHARES = (0.2, 0.2, 0.25, 0.1)
_FEWEST_KEYWORDS = 3


def as_typed(question: str, random: np.random.Generator) -> str:
    """The question in another form that a person might type.

    >>> as_typed("What is the capital of France?", np.random.default_rng(0))
    'What is the cappital of France?'
    """
    bare = question.rstrip("?! .")
    draw = random.random()
    keywords, preface, typo, typos = np.cumsum(_TYPED_SHARES)
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
    words = list(_LONG_WORD.finditer(text))
    if not words:
        return text
    word = words[random.integers(len(words))]
    at = word.start() + 1 + int(random.integers(len(word[0]) - 2))
    letter, after = text[at], text[at + 1]
    changed = (after, letter + letter + after, after + letter, _NEAR[letter.lower()] + after)
    return text[:at] + changed[random.integers(len(changed))] + text[at + 2 :]


_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
# Words with a capital that follow another word, joined: of the first word of a sentence nothing can be said.
_NAME = re.compile(r"(?<=[a-z,;] )(?:[A-Z][\w'’.-]*)(?: (?:of |the |de |von |van )?[A-Z][\w'’.-]*)*")
_AUXILIARY = re.compile(
    r"\b(did|does|do|was|were|is|are|can|could|will|would|has|have|had|should|must)\b(?! not)",
    re.IGNORECASE,
)
_PAIRS = (
    "first last, largest smallest, biggest tiniest, highest lowest, longest shortest, oldest youngest, most least, "
    "more fewer, before after, earlier later, north south, east west, northern southern, eastern western, "
    "increase decrease, increased decreased, increasing decreasing, rise fall, rose fell, gained forfeited, win lose, "
    "won lost, winner loser, begin end, began ended, start finish, started finished, open close, opened closed, "
    "inside outside, above below, over under, early late, old new, older newer, high low, higher lower, long short, "
    "longer shorter, large small, larger smaller, fast slow, faster slower, strong weak, stronger weaker, "
    "major minor, majority minority, maximum minimum, common rare, public private, accept reject, accepted rejected, "
    "allow prohibit, allowed prohibited, support oppose, supported opposed, include exclude, included excluded, "
    "join leave, joined left, buy sell, bought sold, arrive depart, arrived departed, create destroy, "
    "created destroyed, build demolish, built demolished, born buried, married divorced, male female, men women, "
    "father mother, son daughter, brother sister, husband wife, king queen, positive negative, always never, "
    "best worst, better worse, good bad, easy difficult, rich poor, hot cold, hotter colder, dry wet, day night, "
    "morning evening, winter summer, import export, imported exported, success failure, successful unsuccessful, "
    "legal illegal, possible impossible, known unknown, able unable, agree disagree, agreed disagreed, "
    "attack defend, attacked defended, ancient modern, rural urban, primary secondary, upper bottom, outer inner, "
    "domestic foreign, friend enemy, love hate, loved hated, like dislike, liked disliked, remember forget"
)
_ANTONYMS = {
    word: other for pair in _PAIRS.split(", ") for word, other in (pair.split(), reversed(pair.split()))
}
_WORD = re.compile(r"[A-Za-z]+")
# The share of questions that are changed.
_SHARE = 0.6


def with_swapped_questions(passages: Sequence[Passage], seed: int = 0) -> list[Passage]:
    """The passages with changed questions added, which are not labelled.

    Names and numbers come from the passage, or else from the one before it.
    """
    found, before = [], ""
    for at, passage in enumerate(passages):
        random = np.random.default_rng((seed, at))
        names, numbers = (_found(pattern, passage.text, before) for pattern in (_NAME, _NUMBER))
        added = []
        for question in passage.questions:
            if random.random() < _SHARE and (question.answers or not question.labelled):
                answers = {passage.text[start:end].lower() for start, end in question.answers}
                text = swapped(question.text, names, numbers, answers, random)
                if text is not None:
                    added.append(PassageQuestion(text, labelled=False, changed=True))
        found.append(replace(passage, questions=(*passage.questions, *added)))
        before = passage.text
    return found


def swapped(
    question: str,
    names: Sequence[str],
    numbers: Sequence[str],
    answers: set[str],
    random: np.random.Generator,
) -> str | None:
    """The question with one thing changed, or None if it has nothing to change.

    >>> swapped("Who left Paris in 1919?", ["Rome"], ["1921"], set(), np.random.default_rng(0))
    'Who left Paris in 1921?'
    """
    ways = [
        _replaced(question, _NAME.finditer(question), names, answers, random),
        _replaced(question, _NUMBER.finditer(question), numbers, answers, random),
        _with_antonym(question, random),
    ]
    possible = [text for text in ways if text is not None]
    # Any question can be negated: seldom, or "not" alone would decide.
    if not possible or random.random() < 0.1:
        negated = _AUXILIARY.sub(r"\1 not", question, count=1)
        possible = [negated] if negated != question and random.random() < 0.3 else possible
    return possible[random.integers(len(possible))] if possible else None


def _found(pattern: re.Pattern[str], *texts: str) -> list[str]:
    return list(dict.fromkeys(match for text in texts for match in pattern.findall(text)))


def _replaced(
    question: str,
    matches: Iterator[re.Match[str]],
    others: Sequence[str],
    answers: set[str],
    random: np.random.Generator,
) -> str | None:
    spans = [match.span() for match in matches]
    if not spans:
        return None
    start, end = spans[random.integers(len(spans))]
    own = question[start:end].rstrip("?.,")
    usable = [
        other
        for other in others
        if other.lower() not in answers and own not in other and other not in own and other not in question
    ]
    if not usable:
        return None
    return question[:start] + usable[random.integers(len(usable))] + question[start + len(own) :]


def _with_antonym(question: str, random: np.random.Generator) -> str | None:
    places = [match for match in _WORD.finditer(question) if match[0].lower() in _ANTONYMS]
    if not places:
        return None
    match = places[random.integers(len(places))]
    return question[: match.start()] + _ANTONYMS[match[0].lower()] + question[match.end() :]
