"""The teacher's labels: scores of all pieces, pseudo-labels of unlabelled questions, and what the student learns."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attar.training.questions.data import Question
from attar.training.questions.encoded import Array, Encoded, token_spans

Golds = dict[int, NDArray[np.int32]]
# How sure the teacher must be of a pseudo-label that the second teacher, or the student, is trained on.
TEACHER_FLOOR, STUDENT_FLOOR = 0.35, 0.15
# Questions that the teacher gives a lower probability of having an answer are taken to have none.
_PRESENT = 0.15


def pseudo_labels(encoded: Encoded, found: Array, floor: float) -> Golds:
    """The spans of unlabelled questions of which the teacher is sure, in agreement with a marked span.

    `found` is `[Q, 4]`: first and last piece of the teacher's best span, its probability, and that of any answer.
    """
    golds: Golds = {}
    for q, source in enumerate(encoded.sources):
        if source.labelled or found[q, 2] < floor:
            continue
        at = encoded.owners[q]
        first, last = found[q, :2].astype(int)
        marked = token_spans(encoded.texts[at], encoded.passages[at].spans)
        if len(marked) and bool(((marked[:, 0] <= last) & (marked[:, 1] >= first)).any()):
            golds[q] = np.array([[first, last]], np.int32)
    return golds


def with_golds(encoded: Encoded, golds: Golds) -> Encoded:
    """The set with more answers known; the given one stays as it is."""
    return replace(encoded, golds=[golds.get(q, gold) for q, gold in enumerate(encoded.golds)])


def with_marked_golds(encoded: Encoded) -> Encoded:
    """The set with each marked span as the answer to some question: what was marked was asked about."""
    golds: Golds = {}
    for at, passage in enumerate(encoded.passages):
        if passage.spans:
            spans = token_spans(encoded.texts[at], passage.spans)
            for place, q in enumerate(encoded.of_passage[at]):
                golds[q] = spans[place : place + 1]
    return with_golds(encoded, golds)


def flat_scores(encoded: Encoded, found: Array) -> dict[str, Array]:
    """The teacher's best spans and scores as few arrays."""
    rows = [np.zeros((2, 0), np.float16) if each is None else each for each in encoded.soft]
    lengths = np.array([row.shape[1] for row in rows], np.int32)
    return {"found": found, "lengths": lengths, "scores": np.concatenate(rows, 1)}


def split_scores(arrays: dict[str, Array]) -> list[NDArray[np.float16] | None]:
    """The teacher's scores by question."""
    parts = np.split(arrays["scores"], np.cumsum(arrays["lengths"])[:-1], axis=1)
    return [part if part.shape[1] else None for part in parts]


def student_set(encoded: Encoded, labels: dict[str, Array]) -> tuple[Encoded, NDArray[np.float32]]:
    """The questions that the student learns from, with the teacher's scores, and the weight of each question.

    Unlabelled questions count as much as the teacher is sure of its span, or of there being no answer; the others
    are left out.
    """
    found = labels["found"]
    golds = pseudo_labels(encoded, found, STUDENT_FLOOR)
    known = set(encoded.labelled())
    doubtful = {
        q: 1 - found[q, 3]
        for q, source in enumerate(encoded.sources)
        if not source.labelled and q not in golds and 0 <= found[q, 3] < _PRESENT
    }
    absent = encoded.absent | doubtful.keys()
    kept = known | golds.keys() | absent
    soft = [each if q in kept and q not in absent else None for q, each in enumerate(split_scores(labels))]
    sure = dict.fromkeys(known | encoded.absent, 1.0) | {q: found[q, 2] for q in golds} | doubtful
    weights = np.array([sure.get(q, 0.0) for q in range(len(encoded.questions))], np.float32)
    # Lists of its own: generated questions are added to them.
    own = {
        name: list(getattr(encoded, name)) for name in ("passages", "texts", "questions", "owners", "sources")
    }
    of_passage = list(encoded.of_passage)
    chosen = replace(with_golds(encoded, golds), soft=soft, of_passage=of_passage, absent=absent, **own)
    chosen.keep_questions(kept)
    return chosen, weights


def add_generated(encoded: Encoded, paragraphs: Encoded, generated: dict[str, Array]) -> NDArray[np.float32]:
    """Add generated questions with their paragraphs; returns how sure the teacher is of each."""
    first = encoded.add_passages(paragraphs)
    ends = np.cumsum(generated["lengths"], 0)
    ids = np.split(generated["ids"], ends[:-1, 0])
    soft = np.split(generated["scores"], ends[:-1, 1], axis=1)
    for at, row in enumerate(generated["passages"]):
        span = generated["spans"][at]
        gold = span[None, :2].astype(np.int32)
        encoded.add_question(first + int(row), ids[at], gold, Question(""), soft[at])
    sure: NDArray[np.float32] = generated["spans"][:, 2].astype(np.float32)
    return sure
