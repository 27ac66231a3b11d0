"""Measure readers on question sets: SQuAD's exact match and F1, sentences, abstention, calibration; bytes and time."""

import re
import string
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.results import Answer, Certainty, certainty_of
from attar.training.data import Passage

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)
# Questions asked one by one to time them.
_TIMED = 100
# Questions asked together.
_QUESTIONS = 256
# Sentences that a second look reads.
_LOOKS = (0, 1, 3)
# Ask for this many answers: "not in this text" may be the first.
_TOP = 3


@dataclass(frozen=True)
class Given:
    """What was given to a question: the best phrase, its sentence, and what was said.

    `probability` is that of what was said: of the phrase, or, if it was refused, of "not in this text". It is None
    if none was given. `confidence` ranks answers by how likely the text has the answer at all.
    """

    text: str
    quote: str = ""
    refused: bool = False
    probability: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Scores:
    """Means over questions; None where it does not apply. `em`, `f1` and `sentence` are over answerable questions.

    `refused_other` is how often questions of other articles are refused, `kept` how many of the right answers are
    not, both as the reader does by itself; `refused_at_90` with the threshold at which 90 % are kept. Questions about
    the document that it does not answer: `refused_unanswerable`, and `tricks_at_95` where 95 % are kept.
    """

    questions: int
    em: float | None
    f1: float | None
    sentence: float | None
    refused_other: float | None = None
    kept: float | None = None
    refused_at_90: float | None = None
    refused_unanswerable: float | None = None
    tricks_at_95: float | None = None
    calibration_error: float | None = None
    by_certainty: dict[Certainty, "CertaintyScore"] = field(default_factory=dict)


@dataclass(frozen=True)
class CertaintyScore:
    """How many first answers are said with a word of certainty, and the share of them that is right."""

    answers: int
    right: float


def by_certainty(said: Iterable[tuple[float, bool]]) -> dict[Certainty, CertaintyScore]:
    """The score of each word that is used, from the probability of each first answer and whether it is right.

    >>> by_certainty([(0.99, True), (0.98, False), (0.01, False)])["likely"]
    CertaintyScore(answers=2, right=0.5)
    """
    rights: dict[Certainty, list[bool]] = {"likely": [], "possible": [], "unsure": []}
    for probability, is_right in said:
        rights[certainty_of(probability)].append(is_right)
    return {word: CertaintyScore(len(each), sum(each) / len(each)) for word, each in rights.items() if each}


def certainty_line(scores: dict[Certainty, CertaintyScore]) -> str:
    """The scores of words on one line.

    >>> certainty_line({"likely": CertaintyScore(3, 2 / 3)})
    'likely: 3, right 67%'
    """
    return "; ".join(f"{word}: {each.answers:,}, right {each.right:.0%}" for word, each in scores.items())


def normalized(text: str) -> str:
    """SQuAD's rule: lower case, no punctuation, no articles.

    >>> normalized("The  Eiffel Tower.")
    'eiffel tower'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_MARKS)).split())


def exact(given: str, golds: Sequence[str]) -> float:
    """1 if the answer is one of the correct ones, else 0.

    >>> exact("the Tower", ["tower", "a tower in Paris"]), exact("Paris", ["tower"])
    (1.0, 0.0)
    """
    return float(normalized(given) in {normalized(gold) for gold in golds})


def f1(given: str, golds: Sequence[str]) -> float:
    """The best overlap of words with a correct answer.

    >>> f1("in Paris, France", ["Paris"])
    0.5
    """
    best = 0.0
    words = normalized(given).split()
    for gold in golds:
        other = normalized(gold).split()
        common = sum((Counter(words) & Counter(other)).values())
        if common:
            best = max(best, 2 * common / (len(words) + len(other)))
    return best


def holds(sentence: str, golds: Sequence[str]) -> float:
    """1 if a sentence has a correct answer in it, as whole words.

    >>> holds("It stands in Paris, France.", ["Paris"]), holds("A parish.", ["Paris"])
    (1.0, 0.0)
    """
    words = f" {normalized(sentence)} "
    return float(any(f" {normalized(gold)} " in words for gold in golds))


def calibration_error(probabilities: Sequence[float], right: Sequence[float], bins: int = 10) -> float:
    """The expected calibration error: how far mean probability and accuracy are apart, over bins of equal width.

    >>> round(calibration_error([0.9, 0.9, 0.2, 0.2], [1, 1, 0, 1]), 3)
    0.2
    """
    p, y = np.asarray(probabilities, np.float64), np.asarray(right, np.float64)
    bin_of = np.minimum((p * bins).astype(int), bins - 1)
    error = 0.0
    for number in np.unique(bin_of):
        chosen = bin_of == number
        error += float(chosen.mean() * abs(p[chosen].mean() - y[chosen].mean()))
    return error


def score(given: Sequence[Given], golds: Sequence[Sequence[str]], other: Sequence[Given] = ()) -> Scores:
    """The scores of answers to questions, each with its correct answers, none if it has no answer in the text.

    `other` are the answers to questions that were asked about another article.
    """
    pairs = list(zip(given, golds, strict=True))
    answerable = [(answer, gold) for answer, gold in pairs if gold]
    ems = [exact(answer.text, gold) for answer, gold in answerable]
    said = [
        (answer.probability, float(not gold) if answer.refused else exact(answer.text, gold) if gold else 0.0)
        for answer, gold in pairs
        if answer.probability is not None
    ]
    right = [answer for (answer, _), em in zip(answerable, ems, strict=True) if em]
    unanswerable = [answer for answer, gold in pairs if not gold]
    scores = Scores(
        questions=len(pairs),
        em=_mean(ems),
        f1=_mean([f1(answer.text, gold) for answer, gold in answerable]),
        sentence=_mean([holds(answer.quote, gold) for answer, gold in answerable]),
        calibration_error=calibration_error([p for p, _ in said], [hit for _, hit in said]) if said else None,
        by_certainty=by_certainty(
            (answer.probability, bool(gold) and exact(answer.text, gold) == 1)
            for answer, gold in pairs
            if answer.probability is not None and not answer.refused
        ),
    )
    if all(answer.confidence is None for answer in given):  # of one who never refuses
        return scores
    return replace(
        scores,
        refused_other=_mean([answer.refused for answer in other]),
        kept=_mean([not answer.refused for answer in right]),
        refused_at_90=refused_at(right, other, 0.9),
        refused_unanswerable=_mean([answer.refused for answer in unanswerable]),
        tricks_at_95=refused_at(right, unanswerable, 0.95),
    )


def refused_at(right: Sequence[Given], other: Sequence[Given], kept: float) -> float | None:
    """The share of other questions below the confidence above which `kept` of the right answers are."""
    if not right or not other:
        return None
    floor = np.quantile(_confidences(right), 1 - kept, method="lower")
    return float((_confidences(other) < floor).mean())


def _confidences(given: Sequence[Given]) -> NDArray[np.float64]:
    return np.array([answer.confidence or 0.0 for answer in given])


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


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
    ("tricks at 95 %", lambda row: row.scores.tricks_at_95, ".3f"),
    ("refuses other", lambda row: row.scores.refused_other, ".3f"),
    ("right kept", lambda row: row.scores.kept, ".3f"),
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
