"""Made-up cloze documents: facts about people and towns in simple sentences, and questions in other words."""

from pathlib import Path
from random import Random

from attar.errors import writing_to
from attar.paper.cloze import ClozeDocument, Question, document_writer

# How a fact is told, and how it is asked.
_RELATIONS = (
    ("{a} and {b} were wed in a small chapel .", "{a} married {b} ."),
    ("every morning {a} takes the bus to {b} .", "{a} works in {b} ."),
    ("{a} rents a blue house near the market of {b} .", "{a} lives in {b} ."),
    ("{a} gave {b} lessons without pay .", "{a} taught {b} ."),
    ("a court must decide what {b} owes {a} .", "{a} sued {b} ."),
    ("last week {a} spent three days in {b} .", "{a} visited {b} ."),
    ("the shop of {b} now belongs to {a} .", "{a} bought out {b} ."),
    ("{a} wrote a long letter to {b} .", "{a} has news for {b} ."),
)
_REMARKS = (
    "the weather stayed cold and dry .",
    "many readers wrote to ask for more .",
    "nobody was more surprised than {a} .",
    "friends say that {a} is happy .",
    "the old bridge will be closed for repairs .",
)
# Names in all stories; each story has a few of them, under numbers of its own.
NAMES = 12
# With these options of a comparison, an epoch of all of its runs takes about a minute on two cores.
SMALL = {"hidden_size": 48, "embedding_size": 48, "batch_size": 32, "lr": 1e-2}
_COUNTS = {"training": 3_000, "validation": 200, "test": 500}


def tell_story(rng: Random, name: str, facts: int) -> ClozeDocument:
    """A story with a question about each fact; two facts never answer the same question.

    >>> story = tell_story(Random(1), "a", facts=2)
    >>> " ".join(story.sentences[0]), " ".join(story.questions[0].tokens), story.questions[0].answer
    ('@entity10 gave @entity2 lessons without pay .', '@placeholder taught @entity2 .', 10)
    """
    cast = rng.sample(range(NAMES), NAMES // 2 + 2)
    asked = {(relation, subject) for relation in _RELATIONS for subject in cast}
    sentences, questions = [], []
    objects = {relation: rng.sample(cast, len(cast)) for relation in _RELATIONS}
    for relation, subject in rng.sample(sorted(asked), facts):
        # A name is the object of a relation once, so that the question for the subject has one answer, too.
        choice = next(each for each in objects[relation] if each != subject)
        objects[relation].remove(choice)
        marks = {"a": f"@entity{subject}", "b": f"@entity{choice}"}
        sentences.append(relation[0].format(**marks).split())
        if rng.random() < 0.4:
            sentences.append(rng.choice(_REMARKS).format(a=f"@entity{rng.choice(cast)}").split())
        blank = rng.choice("ab")
        answer = subject if blank == "a" else choice
        tokens = relation[1].format(**marks | {blank: "@placeholder"}).split()
        questions.append(Question(tuple(tokens), answer))
    return ClozeDocument(name, "stories", sentences, {n: f"name {n}" for n in cast}, questions)


def write_stories(folder: Path) -> None:
    """Write a set of stories, always the same one."""
    with writing_to(folder, "choose another --out"):
        folder.mkdir(parents=True, exist_ok=True)
    rng = Random(0)
    for split, count in _COUNTS.items():
        with document_writer(folder / f"{split}.parquet") as write:
            for number in range(count):
                write(tell_story(rng, f"{split} {number}", facts=8))
