"""Small made-up news stories with facts and questions about them, seeded: texts for tests and benchmarks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import NamedTuple

from attar.paper.cloze import ClozeDocument, Question
from attar.paper.words import PLACEHOLDER_TOKEN, NameTable, mark_names
from attar.text.sentences import iterate_sentences


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
    """The kinds of its two names, sentences that state it, and questions that ask for it in other words."""

    subject: str
    object: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]


RELATIONS = {
    "married": _Relation(
        "person",
        "person",
        (
            "{a} and {b} were wed in a small chapel on the hill.",
            "After ten years of friendship {a} said yes to {b} before a cheering crowd.",
            "The wedding of {a} and {b} drew guests from far away.",
        ),
        ("{a} married {b}.", "{a} is the wife or husband of {b}."),
    ),
    "works for": _Relation(
        "person",
        "company",
        (
            "Every morning {a} takes the early bus to the office of {b}.",
            "{a} has a desk and a good salary at {b}.",
            "For years {a} has kept the books at {b}.",
        ),
        ("{a} works for {b}.", "{b} is the employer of {a}."),
    ),
    "lives in": _Relation(
        "person",
        "town",
        (
            "{a} rents a blue house near the market of {b}.",
            "The neighbours in {b} know {a} as a quiet tenant.",
            "{a} has kept a flat with a garden in {b} since spring.",
        ),
        ("{a} lives in {b}.", "{b} is the home of {a}."),
    ),
    "bought": _Relation(
        "company",
        "company",
        (
            "{a} paid a large sum and took over {b} on the last day of the year.",
            "The shares of {b} now belong to {a} after a long deal.",
            "In a surprise deal {b} was swallowed by {a} for cash.",
        ),
        ("{a} bought {b}.", "{a} is the new owner of {b}."),
    ),
    "founded": _Relation(
        "person",
        "company",
        (
            "{a} started {b} in a garage with two friends and a loan.",
            "It was {a} who set up {b} with borrowed money.",
            "{b} began as a dream of {a} on a kitchen table.",
        ),
        ("{a} founded {b}.", "{a} is the founder of {b}."),
    ),
    "visited": _Relation(
        "person",
        "town",
        (
            "Last week {a} spent three days as a guest in {b}.",
            "{a} took the train to {b} for a short holiday.",
            "Tourists in {b} were glad to see {a} among them.",
        ),
        ("{a} visited {b}.", "{a} made a trip to {b}."),
    ),
    "taught": _Relation(
        "person",
        "person",
        (
            "{a} gave {b} lessons in the evening without pay.",
            "As a pupil {b} learned everything from {a} at the village school.",
            "{a} showed {b} how to play the violin years ago.",
        ),
        ("{a} taught {b}.", "{a} was the teacher of {b}."),
    ),
    "sued": _Relation(
        "company",
        "person",
        (
            "Lawyers of {a} dragged {b} before a judge over a broken promise.",
            "A court must now decide what {b} owes {a} in damages.",
            "{a} filed a complaint against {b} about stolen plans.",
        ),
        ("{a} sued {b}.", "{a} went to court against {b}."),
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


@dataclass(frozen=True, slots=True)
class Story:
    """A text, its names and facts, and pairs of a question with `___` and the name that fills the blank."""

    text: str
    names: tuple[str, ...]
    facts: tuple[Fact, ...]
    questions: tuple[tuple[str, str], ...]


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
    questions = []
    for fact in facts:
        template = rng.choice(RELATIONS[fact.relation].questions)
        blank, answer = rng.choice((("a", fact.subject), ("b", fact.object)))
        names = {"a": fact.subject, "b": fact.object} | {blank: "___"}
        questions.append((template.format(**names), answer))
    return Story(" ".join(lines), tuple(writer.mentioned), tuple(facts), tuple(questions))


def tell_stories(seed: int, count: int) -> Iterator[Story]:
    """Many made-up stories."""
    rng = Random(seed)
    for _ in range(count):
        yield tell_story(rng.getrandbits(48))


def story_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of four stories each: about 750 tokens, the mean length in the paper."""
    stories = tell_stories(seed, 4 * count)
    return [" ".join(story.text for story in islice(stories, 4)) for _ in range(count)]


# Stands for the blank of a question until its words are found: a word of no story.
_BLANK = "BLANK"


class _KnownNames:
    """A name finder that knows the names of a story."""

    def __init__(self, names: Sequence[str]) -> None:
        whole = [name.split() for name in names]
        self.names = whole + [[part] for name in whole if name[0] in FIRST_NAMES for part in name]

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """The spans (start, stop) of names; the longest one where two begin."""
        spans: list[tuple[int, int]] = []
        for at in range(len(sentence)):
            lengths = [len(name) for name in self.names if list(sentence[at : at + len(name)]) == name]
            if lengths and (not spans or at >= spans[-1][1]):
                spans.append((at, at + max(lengths)))
        return spans


def story_document(story: Story, name: str, seed: int = 0) -> ClozeDocument:
    """The story as a cloze document, its names numbered in random order."""
    table, finder = NameTable(), _KnownNames(story.names)
    order = list(range(len(story.names)))
    Random(f"{seed} {name}").shuffle(order)
    numbers = {f"@entity{old}": f"@entity{new}" for old, new in enumerate(order)} | {
        _BLANK: PLACEHOLDER_TOKEN
    }

    def tokens(text: str) -> list[list[str]]:
        marked = mark_names(iterate_sentences(text.replace("___", _BLANK)), table, finder.find)
        return [[numbers.get(token, token.lower()) for token in sentence] for sentence in marked]

    sentences = tokens(story.text)
    questions = []
    for asked, answer in story.questions:
        words = tuple(word for sentence in tokens(asked) for word in sentence)
        questions.append(Question(words, order[table.ids[answer.lower()]]))
    names = dict(sorted(zip(order, table.names, strict=False)))
    return ClozeDocument(name, "stories", sentences, names, questions)
