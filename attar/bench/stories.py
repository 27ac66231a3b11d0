"""Small made-up news stories with facts and questions about them, seeded: text for demos and tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from attar.bench.story_words import (
    CLOSINGS,
    COMPANIES,
    COMPANY_KINDS,
    FILLERS,
    FIRST_NAMES,
    OPENINGS,
    RELATIONS,
    REMARKS,
    SURNAME_ENDINGS,
    SURNAME_STARTS,
    TOWN_ENDINGS,
    TOWN_STARTS,
)
from attar.cloze import ClozeDocument, Question, renumber_names
from attar.text import PLACEHOLDER, NameTable, iterate_sentences, mark_names


@dataclass(frozen=True, slots=True)
class Fact:
    """Who stands in which relation to whom or what."""

    relation: str
    subject: str
    object: str


@dataclass(frozen=True, slots=True)
class Story:
    """A text, the names and facts in it, and questions with `___` and the name that belongs there."""

    text: str
    names: tuple[str, ...]
    facts: tuple[Fact, ...]
    questions: tuple[tuple[str, str], ...]


def _distinct(
    rng: Random, starts: Sequence[str], endings: Sequence[str], count: int, joint: str = ""
) -> list[str]:
    """Put names together from parts; no two share their first part."""
    return [f"{start}{joint}{rng.choice(endings)}" for start in rng.sample(starts, count)]


def _invent_facts(rng: Random) -> list[Fact]:
    """Let a few people marry, work and travel; everybody and everything is in each relation once at most."""
    first, last = rng.sample(FIRST_NAMES, 6), _distinct(rng, SURNAME_STARTS, SURNAME_ENDINGS, 6)
    cast = {
        "person": [f"{a} {b}" for a, b in zip(first, last, strict=True)][: rng.randint(4, 6)],
        "town": _distinct(rng, TOWN_STARTS, TOWN_ENDINGS, 4),
        "company": _distinct(rng, COMPANIES, COMPANY_KINDS, 4, " "),
    }
    facts: list[Fact] = []
    for relation in rng.sample(sorted(RELATIONS), rng.randint(4, len(RELATIONS))):
        kinds = RELATIONS[relation].subject, RELATIONS[relation].object
        subjects = rng.sample(cast[kinds[0]], 2)
        objects = rng.sample([name for name in cast[kinds[1]] if name not in subjects], 2)
        facts += (Fact(relation, a, b) for a, b in zip(subjects, objects, strict=True))
    rng.shuffle(facts)
    return facts[: rng.randint(5, 9)]


class _Teller:
    """Writes names in full when they are new, and people by a part of their name now and then later."""

    def __init__(self, rng: Random, people: set[str]) -> None:
        self.rng = rng
        self.people = people
        self.told: list[str] = []

    def call(self, name: str) -> str:
        if name not in self.told:
            self.told.append(name)
        elif name in self.people and self.rng.random() < 0.4:
            return self.rng.choice(name.split())
        return name

    def say(self, templates: Sequence[str], subject: str = "", object: str = "") -> str:
        template = self.rng.choice(templates)
        order = sorted(("{a}", "{b}"), key=template.find)
        names = {"{a}": subject, "{b}": object}
        for slot in order:
            if slot in template:
                template = template.replace(slot, self.call(names[slot]))
        return template


def tell_story(seed: int) -> Story:
    """Make up a story; the same seed, the same story.

    >>> story = tell_story(7)
    >>> story == tell_story(7), 8 <= len(story.text.split(". ")) <= 30
    (True, True)
    """
    rng = Random(seed)
    facts = _invent_facts(rng)
    people = {
        name
        for fact in facts
        for name, kind in (
            (fact.subject, RELATIONS[fact.relation].subject),
            (fact.object, RELATIONS[fact.relation].object),
        )
        if kind == "person"
    }
    teller = _Teller(rng, people)
    lines = [rng.choice(OPENINGS)]
    for fact in facts:
        lines.append(teller.say(RELATIONS[fact.relation].told, fact.subject, fact.object))
        if rng.random() < 0.5:
            lines.append(
                teller.say(
                    REMARKS, rng.choice([name for name in teller.told if name in people] or [fact.subject])
                )
            )
        if rng.random() < 0.35:
            lines.append(rng.choice(FILLERS))
    while len(lines) < 7:
        lines.append(rng.choice(FILLERS))
    lines.append(rng.choice(CLOSINGS))
    questions = []
    for fact in facts:
        template = rng.choice(RELATIONS[fact.relation].asked)
        blank, answer = rng.choice((("a", fact.subject), ("b", fact.object)))
        names = {"a": fact.subject, "b": fact.object} | {blank: "___"}
        questions.append((template.format(**names), answer))
    return Story(" ".join(lines), tuple(teller.told), tuple(facts), tuple(questions))


def tell_stories(seed: int, count: int) -> Iterator[Story]:
    """Make up many stories."""
    rng = Random(seed)
    for _ in range(count):
        yield tell_story(rng.getrandbits(48))


class _Cast:
    """Finds the names of a story, which are known."""

    def __init__(self, names: Sequence[str]) -> None:
        whole = [name.split() for name in names]
        self.names = whole + [[part] for name in whole if name[0] in FIRST_NAMES for part in name]

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Give the names' places as (start, stop), the longest first where two begin."""
        found: list[tuple[int, int]] = []
        for at in range(len(sentence)):
            lengths = [len(name) for name in self.names if list(sentence[at : at + len(name)]) == name]
            if lengths and (not found or at >= found[-1][1]):
                found.append((at, at + max(lengths)))
        return found


def story_document(story: Story, name: str, seed: int = 0) -> ClozeDocument:
    """Turn a story into a cloze document, its names numbered in a random order."""
    table, cast = NameTable(), _Cast(story.names)
    order = list(range(len(story.names)))
    Random(f"{seed} {name}").shuffle(order)

    def tokens(text: str) -> list[list[str]]:
        marked = mark_names(iterate_sentences(text.replace("___", PLACEHOLDER), marked=True), table, cast)
        return renumber_names(list(marked), table, order)[0]

    sentences = tokens(story.text)
    questions = []
    for asked, answer in story.questions:
        words = tuple(word for sentence in tokens(asked) for word in sentence)
        questions.append(Question(words, order[table.ids[answer.lower()]]))
    return ClozeDocument(name, "stories", sentences, renumber_names([], table, order)[1], questions)
