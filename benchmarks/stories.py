"""Small made-up news stories, seeded: texts for tests and benchmarks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple


class _Relation(NamedTuple):
    """The kinds of its two names, and sentences that state it."""

    subject: str
    object: str
    statements: list[str]


def _read_parts() -> Iterator[tuple[str, list[str]]]:
    """The parts of `stories.txt`: each has a title and lines."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    for part in text.split("\n\n")[1:]:
        title, *lines = part.splitlines()
        yield title, lines


_PARTS = dict(_read_parts())
FILLERS = _PARTS["fillers"]
# The title of a relation has the kinds of its names: "person, works for, company".
RELATIONS = {
    relation: _Relation(subject, object, lines)
    for (subject, relation, object), lines in (
        (title.split(", "), lines) for title, lines in _PARTS.items() if ", " in title
    )
}


@cache
def _words(title: str) -> list[str]:
    return " ".join(_PARTS[title]).split()


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation between two names."""

    relation: str
    subject: str
    object: str


class Story(NamedTuple):
    text: str


def _distinct(
    rng: Random, starts: Sequence[str], endings: Sequence[str], count: int, joint: str = ""
) -> list[str]:
    """Join parts into names; no two names share their first part."""
    return [f"{start}{joint}{rng.choice(endings)}" for start in rng.sample(starts, count)]


def _invent_facts(rng: Random) -> list[Fact]:
    """Facts about a few people, towns and companies; a name has at most one place in each relation."""
    first = rng.sample(_words("first names"), 6)
    last = _distinct(rng, _words("surname starts"), _words("surname endings"), 6)
    cast = {
        "person": [f"{a} {b}" for a, b in zip(first, last, strict=True)][: rng.randint(4, 6)],
        "town": _distinct(rng, _words("town starts"), _words("town endings"), 4),
        "company": _distinct(rng, _words("companies"), _words("company kinds"), 4, " "),
    }
    facts: list[Fact] = []
    for relation in rng.sample(sorted(RELATIONS), rng.randint(4, len(RELATIONS))):
        kinds = RELATIONS[relation].subject, RELATIONS[relation].object
        subjects = rng.sample(cast[kinds[0]], 2)
        objects = rng.sample([name for name in cast[kinds[1]] if name not in subjects], 2)
        facts += (Fact(relation, a, b) for a, b in zip(subjects, objects, strict=True))
    rng.shuffle(facts)
    return facts[: rng.randint(5, 9)]


class _Writer:
    """Writes a name in full at its first mention; later mentions of a person may use a part of the name."""

    def __init__(self, rng: Random, people: set[str]) -> None:
        self.rng = rng
        self.people = people
        self.mentioned: list[str] = []

    def mention(self, name: str) -> str:
        if name not in self.mentioned:
            self.mentioned.append(name)
        elif name in self.people and self.rng.random() < 0.4:
            return self.rng.choice(name.split())
        return name

    def write(self, templates: Sequence[str], subject: str = "", object: str = "") -> str:
        template = self.rng.choice(templates)
        order = sorted(("{a}", "{b}"), key=template.find)
        names = {"{a}": subject, "{b}": object}
        for slot in order:
            if slot in template:
                template = template.replace(slot, self.mention(names[slot]))
        return template


def tell_story(seed: int) -> Story:
    """A made-up story; equal seeds give equal stories.

    >>> story = tell_story(7)
    >>> story == tell_story(7), 8 <= len(story.text.split(". ")) <= 30
    (True, True)
    """
    rng = Random(seed)
    facts = _invent_facts(rng)
    people = {
        name
        for fact in facts
        for name, kind in zip((fact.subject, fact.object), RELATIONS[fact.relation][:2], strict=True)
        if kind == "person"
    }
    writer = _Writer(rng, people)
    lines = [rng.choice(_PARTS["openings"])]
    for fact in facts:
        lines.append(writer.write(RELATIONS[fact.relation].statements, fact.subject, fact.object))
        if rng.random() < 0.5:
            known = [name for name in writer.mentioned if name in people] or [fact.subject]
            lines.append(writer.write(_PARTS["remarks"], rng.choice(known)))
        if rng.random() < 0.35:
            lines.append(rng.choice(FILLERS))
    while len(lines) < 7:
        lines.append(rng.choice(FILLERS))
    lines.append(rng.choice(_PARTS["closings"]))
    return Story(" ".join(lines))


def tell_stories(seed: int, count: int) -> Iterator[Story]:
    """Many made-up stories."""
    rng = Random(seed)
    for _ in range(count):
        yield tell_story(rng.getrandbits(48))


def story_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of four stories each: about 750 tokens, the mean length in the paper."""
    stories = tell_stories(seed, 4 * count)
    return [" ".join(story.text for story in islice(stories, 4)) for _ in range(count)]
