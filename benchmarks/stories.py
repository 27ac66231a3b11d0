"""Small made-up news stories, seeded: texts for tests and benchmarks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import NamedTuple


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Marin Elias Jonah Katrin Torben Belinda Renata Silas Davina Alaric Corin Odette Fabian Gisela Hollis "
    "Isolde Jorin Leona Magnus Nadia Orson Petra Quentin Rosalind Stefan Thora Ulric Verena Wilma Yannick"
)
SURNAME_STARTS = _words("Ash Bram Cald Dun Fair Gold Hart Kel Lang Mor Nor Pem Rook Stan Thorn Wex Whit Brad")
SURNAME_ENDINGS = _words("by croft dale field man sen son well wick worth")
TOWN_STARTS = _words("Oak Lin Kes Brae Mill Sand Pine Clay Elm Fox Glen Heath Iron Lark")
TOWN_ENDINGS = _words("bury haven mouth stead mere ville port bridge")
COMPANIES = _words("Veltra Kordex Solvane Mirano Tandrel Quivera Bexon Lumora Parvex Zentra")
COMPANY_KINDS = _words("Motors Mills Foods Works Lines Labs")


class _Relation(NamedTuple):
    """The kinds of its two names, and sentences that state it."""

    subject: str
    object: str
    statements: tuple[str, ...]


RELATIONS = {
    "married": _Relation(
        "person",
        "person",
        (
            "{a} and {b} were wed in a small chapel on the hill.",
            "After ten years of friendship {a} said yes to {b} before a cheering crowd.",
            "The wedding of {a} and {b} drew guests from far away.",
        ),
    ),
    "works for": _Relation(
        "person",
        "company",
        (
            "Every morning {a} takes the early bus to the office of {b}.",
            "{a} has a desk and a good salary at {b}.",
            "For years {a} has kept the books at {b}.",
        ),
    ),
    "lives in": _Relation(
        "person",
        "town",
        (
            "{a} rents a blue house near the market of {b}.",
            "The neighbours in {b} know {a} as a quiet tenant.",
            "{a} has kept a flat with a garden in {b} since spring.",
        ),
    ),
    "bought": _Relation(
        "company",
        "company",
        (
            "{a} paid a large sum and took over {b} on the last day of the year.",
            "The shares of {b} now belong to {a} after a long deal.",
            "In a surprise deal {b} was swallowed by {a} for cash.",
        ),
    ),
    "founded": _Relation(
        "person",
        "company",
        (
            "{a} started {b} in a garage with two friends and a loan.",
            "It was {a} who set up {b} with borrowed money.",
            "{b} began as a dream of {a} on a kitchen table.",
        ),
    ),
    "visited": _Relation(
        "person",
        "town",
        (
            "Last week {a} spent three days as a guest in {b}.",
            "{a} took the train to {b} for a short holiday.",
            "Tourists in {b} were glad to see {a} among them.",
        ),
    ),
    "taught": _Relation(
        "person",
        "person",
        (
            "{a} gave {b} lessons in the evening without pay.",
            "As a pupil {b} learned everything from {a} at the village school.",
            "{a} showed {b} how to play the violin years ago.",
        ),
    ),
    "sued": _Relation(
        "company",
        "person",
        (
            "Lawyers of {a} dragged {b} before a judge over a broken promise.",
            "A court must now decide what {b} owes {a} in damages.",
            "{a} filed a complaint against {b} about stolen plans.",
        ),
    ),
}
OPENINGS = (
    "It was a busy week for the local paper.",
    "There is much news from the valley today.",
    "Our reporter has spoken with many people this week.",
    "Some stories of this autumn are worth telling.",
)
REMARKS = (
    "{a} would not say more about it.",
    "Friends say that {a} is happy with how things went.",
    "When asked by our reporter {a} only smiled.",
    "Nobody was more surprised than {a} by the news.",
    "A letter from {a} reached this paper a day later.",
)
FILLERS = (
    "The weather stayed cold and dry.",
    "Prices at the market rose a little.",
    "The old bridge will be closed for repairs.",
    "Many readers wrote to ask for more.",
    "The harvest was better than last year.",
    "Nothing else was heard for some days.",
)
CLOSINGS = (
    "More will follow in the next issue.",
    "That is all for this week.",
    "We shall write again when we know more.",
)


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
        for name, kind in (
            (fact.subject, RELATIONS[fact.relation].subject),
            (fact.object, RELATIONS[fact.relation].object),
        )
        if kind == "person"
    }
    writer = _Writer(rng, people)
    lines = [rng.choice(OPENINGS)]
    for fact in facts:
        lines.append(writer.write(RELATIONS[fact.relation].statements, fact.subject, fact.object))
        if rng.random() < 0.5:
            lines.append(
                writer.write(
                    REMARKS,
                    rng.choice([name for name in writer.mentioned if name in people] or [fact.subject]),
                )
            )
        if rng.random() < 0.35:
            lines.append(rng.choice(FILLERS))
    while len(lines) < 7:
        lines.append(rng.choice(FILLERS))
    lines.append(rng.choice(CLOSINGS))
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
