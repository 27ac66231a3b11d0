"""Measure readers on question sets: a document is one paragraph, several, or a whole article; and baselines."""

import json
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from attar.errors import AttarError, FormatError
from attar.memory.memory import Memory
from attar.options import TransformerShape
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.results import Answer
from attar.text.pieces import PieceTokenizer
from attar.text.tokens import sentence_spans
from attar.training.questions.baselines import BASELINES
from attar.training.questions.data import Passage, Question
from attar.training.questions.encoded import Encoded
from attar.training.questions.metrics import Given, Scores, score
from attar.training.questions.run import SHAPE, TOKENIZER
from attar.training.questions.stage import load_weights, make_loader
from attar.training.questions.teacher import PairBatches, Teacher, label

# Questions asked one by one to time them.
_TIMED = 100
_QUESTIONS = 256
# The longest paragraph that the teacher reads, in pieces, and the pieces per batch.
_LONGEST, _TOKENS = 440, 60_000
# Ask for this many answers: "not in this text" may be the first.
_TOP = 3


@dataclass(frozen=True)
class Asked:
    """A document, its article, and its questions with their correct answers, none if it has none."""

    text: str
    article: str
    questions: tuple[str, ...]
    golds: tuple[tuple[str, ...], ...]
    paragraphs: tuple[Passage, ...]


@dataclass(frozen=True)
class Measured:
    """A row of the table: the scores, bytes per document, and seconds per question, alone and in batches."""

    name: str
    scores: Scores
    document_bytes: float | None = None
    alone: float | None = None
    batched: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON."""
        own = {
            "document_bytes": self.document_bytes,
            "seconds_alone": self.alone,
            "seconds_batched": self.batched,
        }
        return {"name": self.name, **asdict(self.scores), **own}


def group_documents(passages: Sequence[Passage], paragraphs: int | None) -> list[Asked]:
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
            documents.append(Asked(text, name, tuple(q.text for _, q in pairs), golds, tuple(part)))
    return documents


def evaluate_reader(
    reader: Reader, documents: Sequence[Asked], *, name: str = "reader", progress: Progress = ignore_progress
) -> Measured:
    """Ask a reader all questions of its documents, and the same questions of other articles' documents."""
    memories: list[Memory] = []
    for at, document in enumerate(documents):
        progress("reading", at, len(documents))
        memories += reader.read_many([document.text])
    pairs = [(at, q) for at, document in enumerate(documents) for q in document.questions]
    began = time.perf_counter()
    given = _ask(reader, documents, memories, pairs, progress)
    batched = (time.perf_counter() - began) / max(1, len(pairs))
    other = _ask(reader, documents, memories, _elsewhere(documents), progress)
    timed = pairs[:: max(1, len(pairs) // _TIMED)]
    began = time.perf_counter()
    for at, question in timed:
        _answers(reader, [memories[at]], [question])
    alone = (time.perf_counter() - began) / max(1, len(timed))
    size = sum(memory.nbytes for memory in memories) / max(1, len(memories))
    scores = score(given, [gold for document in documents for gold in document.golds], other)
    return Measured(name, scores, size, alone, batched)


def evaluate_baselines(documents: Sequence[Asked]) -> list[Measured]:
    """The baselines on the same questions; they never refuse."""
    golds = [gold for document in documents for gold in document.golds]
    rows = []
    for name, baseline in BASELINES.items():
        given = [baseline(document.text, q) for document in documents for q in document.questions]
        rows.append(Measured(name, score(given, golds)))
    return rows


def evaluate_teacher(file: str | Path, documents: Sequence[Asked]) -> Measured:
    """The teacher of a run, which reads each paragraph again for every question: the ceiling."""
    file = Path(file)
    shape_file = file.parent / SHAPE
    try:
        shape = TransformerShape(**json.loads(shape_file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as fault:
        remedy = "give teacher.safetensors in the folder of its run"
        raise FormatError.expected(
            str(shape_file), "the shape of the teacher's encoder", str(fault), remedy
        ) from fault
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher = Teacher(shape)
    load_weights(file, teacher)
    tokenizer = PieceTokenizer.load(file.parent / TOKENIZER)
    # Every question of every paragraph of its document.
    passages = [
        replace(part, questions=tuple(map(Question, document.questions)), spans=())
        for document in documents
        for part in document.paragraphs
    ]
    encoded = Encoded.of(passages, tokenizer, _LONGEST)
    every = range(len(encoded.questions))
    pairs = PairBatches(encoded, every, tokens=_TOKENS, epochs=1, seed=0, shuffle=False)
    found = label(teacher.to(device), encoded, make_loader(pairs, 0), device)
    given, passage = [], 0
    for document in documents:
        parts = range(passage, passage + len(document.paragraphs))
        passage += len(document.paragraphs)
        for number in range(len(document.questions)):
            asked = [encoded.of_passage[at][number] for at in parts]
            best = max(asked, key=lambda q: _best_score(encoded, found, q))
            first, last = found[best, :2].astype(int)
            at = encoded.owners[best]
            text = encoded.texts[at]
            start, end = text.sentence_spans[text.sentences[first]]
            given.append(Given(encoded.span_text(at, first, last), encoded.passages[at].text[start:end]))
    golds = [gold for document in documents for gold in document.golds]
    return Measured("teacher, which reads the text again", score(given, golds))


def _best_score(encoded: Encoded, found: Any, question: int) -> float:
    scores = encoded.soft[question]
    first, last = found[question, :2].astype(int)
    return -1e9 if scores is None else float(scores[0, first]) + float(scores[1, last])


def _elsewhere(documents: Sequence[Asked]) -> list[tuple[int, str]]:
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
    documents: Sequence[Asked],
    memories: Sequence[Memory],
    pairs: Sequence[tuple[int, str]],
    progress: Progress,
) -> list[Given]:
    given = []
    for first in range(0, len(pairs), _QUESTIONS):
        progress("asking", first, len(pairs))
        chunk = pairs[first : first + _QUESTIONS]
        answers = _answers(reader, [memories[at] for at, _ in chunk], [question for _, question in chunk])
        texts = [documents[at].text for at, _ in chunk]
        given += [to_given(*each) for each in zip(answers, texts, strict=True)]
    return given


def _answers(reader: Reader, memories: list[Memory], questions: list[str]) -> list[list[Answer]]:
    """The answers; a question that the reader refuses for its grammar has none."""
    try:
        return reader.answer_many(memories, questions, top=_TOP)
    except AttarError:
        if len(questions) == 1:
            return [[]]
        each = zip(memories, questions, strict=True)
        return [_answers(reader, [memory], [question])[0] for memory, question in each]


def to_given(answers: Sequence[Answer], text: str, *, refuses: bool = True) -> Given:
    """What a reader said: the first answer, and the best phrase even if the first is "not in this text".

    Readers that never refuse have no confidence that the text has the answer at all.
    """
    best = next((each for each in answers if not each.absent), None)
    absent = next((each for each in answers if each.absent), None)
    confidence = None
    if refuses:
        confidence = 1 - absent.probability if absent else best.probability if best else 0.0
    said = answers[0].probability if answers else None
    if best is None:
        return Given("", "", refuses, said, confidence)
    return Given(best.text, _sentence_of(best, text), answers[0].absent, said, confidence)


@lru_cache(maxsize=_QUESTIONS)
def _spans(text: str) -> list[tuple[int, int]]:
    return list(sentence_spans(text))


def _sentence_of(answer: Answer, text: str) -> str:
    """The sentence of an answer: its quote, or the one at its place, or the first that has its words."""
    if answer.quote:
        return answer.quote
    start = text.find(answer.text) if answer.start is None else answer.start
    spans = _spans(text)
    if start < 0 or not spans:
        return ""
    at = max(0, bisect_right([first for first, _ in spans], start) - 1)
    return text[slice(*spans[at])]


def evaluate_questions(
    reader: Reader,
    passages: Sequence[Passage],
    paragraphs: int | None = 1,
    *,
    teacher: str | Path | None = None,
    progress: Progress = ignore_progress,
) -> list[Measured]:
    """The rows of the table: the reader, the baselines, and the teacher if its file is given."""
    documents = group_documents(passages, paragraphs)
    if not any(document.questions for document in documents):
        raise FormatError.expected("questions", "some whose answers are known", "none")
    rows = [evaluate_reader(reader, documents, progress=progress), *evaluate_baselines(documents)]
    return rows if teacher is None else [*rows, evaluate_teacher(teacher, documents)]


Column = tuple[str, Callable[[Measured], float | None], str]
COLUMNS: tuple[Column, ...] = (
    ("EM", lambda row: row.scores.em, ".3f"),
    ("F1", lambda row: row.scores.f1, ".3f"),
    ("sentence", lambda row: row.scores.sentence, ".3f"),
    ("refuses other", lambda row: row.scores.refused_other, ".3f"),
    ("right kept", lambda row: row.scores.kept, ".3f"),
    ("refuses other at 90 %", lambda row: row.scores.refused_at_90, ".3f"),
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
