"""Measure readers on question sets: a document is one paragraph, several, or a whole article."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from attar.errors import FormatError
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.results import Answer
from attar.training.data import Passage
from attar.training.metrics import Given, Scores, score

# Questions asked one by one to time them.
_TIMED = 100
# Questions asked together.
_QUESTIONS = 256
# Sentences that a second look reads.
_LOOKS = (0, 1, 3)
# Ask for this many answers: "not in this text" may be the first.
_TOP = 3


@dataclass(frozen=True)
class AskedDocument:
    """A document, its article, and its questions with their correct answers, none if it has none."""

    text: str
    article: str
    questions: tuple[str, ...]
    golds: tuple[tuple[str, ...], ...]
    paragraphs: tuple[Passage, ...]


@dataclass(frozen=True)
class Measured:
    """A row of the table: the scores, bytes per document, and seconds per question, alone and in batches.

    A row per number of sentences that were read again, if the reader has a second look.
    """

    name: str
    scores: Scores
    document_bytes: float | None = None
    alone: float | None = None
    batched: float | None = None

    def to_json(self) -> dict[str, Any]:
        costs = {"document_bytes": self.document_bytes}
        costs |= {"seconds_alone": self.alone, "seconds_batched": self.batched}
        return {"name": self.name, **asdict(self.scores), **costs}


def group_documents(passages: Sequence[Passage], paragraphs: int | None) -> list[AskedDocument]:
    """Documents of some paragraphs of an article, or of all; questions whose answers are unknown are left out."""
    articles: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        articles[passage.article].append(passage)
    documents = []
    for name, members in articles.items():
        size = paragraphs or len(members)
        for first in range(0, len(members), size):
            part = members[first : first + size]
            pairs = [(p, q) for p in part for q in p.questions if q.labelled]
            golds = tuple(tuple(p.text[a:b] for a, b in q.answers) for p, q in pairs)
            text = "\n\n".join(p.text for p in part)
            documents.append(AskedDocument(text, name, tuple(q.text for _, q in pairs), golds, tuple(part)))
    if not any(document.questions for document in documents):
        raise FormatError("there are no questions whose answers are known")
    return documents


def evaluate_reader(
    reader: Reader,
    documents: Sequence[AskedDocument],
    *,
    name: str = "reader",
    progress: Progress = ignore_progress,
) -> list[Measured]:
    """Ask a reader all questions of its documents, and the same questions of other articles' documents."""
    memories: list[Memory] = []
    for at, document in enumerate(documents):
        progress("reading", at, len(documents))
        memories += reader.read_many([document.text])
    looks = _LOOKS if reader.second_look is not None else (0,)
    return [_measure(reader, look, documents, memories, name, progress) for look in looks]


def _measure(
    reader: Reader,
    look: int,
    documents: Sequence[AskedDocument],
    memories: Sequence[Memory],
    name: str,
    progress: Progress,
) -> Measured:
    pairs = [(at, q) for at, document in enumerate(documents) for q in document.questions]
    began = time.perf_counter()
    given = _ask(reader, look, documents, memories, pairs, progress)
    batched = (time.perf_counter() - began) / max(1, len(pairs))
    other = _ask(reader, look, documents, memories, _elsewhere(documents), progress)
    seconds = []
    for at, question in pairs[:: max(1, len(pairs) // _TIMED)]:
        began = time.perf_counter()
        reader.answer_many([memories[at]], [question], top=_TOP, texts=[documents[at].text], look=look)
        seconds.append(time.perf_counter() - began)
    alone = median(seconds) if seconds else 0.0
    size = sum(memory.nbytes for memory in memories) / max(1, len(memories))
    scores = score(given, [gold for document in documents for gold in document.golds], other)
    label = name if reader.second_look is None else f"{name}, look {look}"
    return Measured(label, scores, size, alone, batched)


def _elsewhere(documents: Sequence[AskedDocument]) -> list[tuple[int, str]]:
    """Each answerable question with a document of another article, a few articles away."""
    firsts: dict[str, list[int]] = defaultdict(list)
    for at, document in enumerate(documents):
        firsts[document.article].append(at)
    names = list(firsts)
    if len(names) < 2:
        return []
    number = {name: at for at, name in enumerate(names)}
    pairs = []
    for at, document in enumerate(documents):
        step = 7 if 7 % len(names) else 1
        members = firsts[names[(number[document.article] + step) % len(names)]]
        asked = [q for q, gold in zip(document.questions, document.golds, strict=True) if gold]
        pairs += [(members[at % len(members)], q) for q in asked]
    return pairs


def _ask(
    reader: Reader,
    look: int,
    documents: Sequence[AskedDocument],
    memories: Sequence[Memory],
    pairs: Sequence[tuple[int, str]],
    progress: Progress,
) -> list[Given]:
    given: list[Given] = []
    for first in range(0, len(pairs), _QUESTIONS):
        progress("asking", first, len(pairs))
        chunk = pairs[first : first + _QUESTIONS]
        answers = reader.answer_many(
            [memories[at] for at, _ in chunk],
            [question for _, question in chunk],
            top=_TOP,
            texts=[documents[at].text for at, _ in chunk],
            look=look,
        )
        given += map(to_given, answers)
    return given


def to_given(answers: Sequence[Answer]) -> Given:
    """What a reader said: the first answer, and the best phrase even if the first is "not in this text"."""
    phrase = next((answer for answer in answers if not answer.absent), None)
    absent = next((answer for answer in answers if answer.absent), None)
    confidence = 1 - absent.probability if absent else phrase.probability if phrase else 0.0
    said = answers[0].probability if answers else None
    if phrase is None:
        return Given("", "", True, said, confidence)
    return Given(phrase.text, phrase.quote or "", answers[0].absent, said, confidence)


Column = tuple[str, Callable[[Measured], float | None], str]
COLUMNS: tuple[Column, ...] = (
    ("EM", lambda row: row.scores.em, ".3f"),
    ("F1", lambda row: row.scores.f1, ".3f"),
    ("sentence", lambda row: row.scores.sentence, ".3f"),
    ("refuses tricks", lambda row: row.scores.refused_unanswerable, ".3f"),
    ("refuses other", lambda row: row.scores.refused_other, ".3f"),
    ("right kept", lambda row: row.scores.kept, ".3f"),
    ("tricks at 95 %", lambda row: row.scores.tricks_at_95, ".3f"),
    ("other at 90 %", lambda row: row.scores.refused_at_90, ".3f"),
    ("calibration error", lambda row: row.scores.calibration_error, ".3f"),
    ("bytes", lambda row: row.document_bytes, ",.0f"),
    ("ms alone", lambda row: None if row.alone is None else 1e3 * row.alone, ".2f"),
    ("ms batched", lambda row: None if row.batched is None else 1e3 * row.batched, ".2f"),
)


def question_table(rows: Sequence[Measured]) -> list[list[str]]:
    """The rows as cells, with a header; a dash where there is nothing to say."""
    cells = [["", *(name for name, _, _ in COLUMNS)]]
    for row in rows:
        values = [(read(row), form) for _, read, form in COLUMNS]
        cells.append([row.name, *("–" if value is None else format(value, form) for value, form in values)])
    return cells
