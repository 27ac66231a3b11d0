"""The teacher's labels: scores of all pieces, pseudo-labels of unlabelled questions, and what the student learns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attar.training.question_set import Array, QuestionSet, token_spans

Golds = dict[int, NDArray[np.int32]]
# How sure the teacher must be of a pseudo-label that the second teacher is trained on,
TEACHER_FLOOR = 0.35
# and of one that the student is trained on.
STUDENT_FLOOR = 0.15
# Questions that the teacher gives a lower probability of having an answer are taken to have none.
UNANSWERED = 0.15


@dataclass(frozen=True)
class TeacherLabels:
    """What a teacher says about each question; -1 and no scores for questions that it was not asked.

    The first and last piece of its best span, the probability of that span, and of there being an answer at all.
    """

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    probability: NDArray[np.float32]
    present: NDArray[np.float32]
    scores: list[NDArray[np.float16] | None]  # [2, n] of starts and ends

    @classmethod
    def empty(cls, count: int) -> Self:
        """No labels yet, for `count` questions."""
        unknown = np.full((4, count), -1.0, np.float32)
        first, last = unknown[:2].astype(np.int32)
        return cls(first, last, unknown[2], unknown[3], [None] * count)

    def to_arrays(self) -> dict[str, Array]:
        """Few arrays, for a file."""
        rows = [np.zeros((2, 0), np.float16) if scores is None else scores for scores in self.scores]
        lengths = np.array([row.shape[1] for row in rows], np.int32)
        arrays: dict[str, Any] = vars(self) | {"scores": np.concatenate(rows, 1), "lengths": lengths}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """The labels of a file."""
        parts = np.split(arrays["scores"], np.cumsum(arrays["lengths"])[:-1], axis=1)
        scores = [part if part.shape[1] else None for part in parts]
        return cls(arrays["first"], arrays["last"], arrays["probability"], arrays["present"], scores)


def pseudo_labels(questions: QuestionSet, labels: TeacherLabels, floor: float) -> Golds:
    """The spans of unlabelled questions of which the teacher is sure, in agreement with a marked span."""
    golds: Golds = {}
    for q, source in enumerate(questions.sources):
        if source.labelled or labels.probability[q] < floor:
            continue
        at, first, last = questions.owners[q], labels.first[q], labels.last[q]
        marked = token_spans(questions.texts[at], questions.passages[at].spans)
        if len(marked) and bool(((marked[:, 0] <= last) & (marked[:, 1] >= first)).any()):
            golds[q] = np.array([[first, last]], np.int32)
    return golds


def with_golds(questions: QuestionSet, golds: Golds) -> QuestionSet:
    """The set with more answers known; the given one stays as it is."""
    return replace(questions, golds=[golds.get(q, gold) for q, gold in enumerate(questions.golds)])


def student_set(questions: QuestionSet, labels: TeacherLabels) -> tuple[QuestionSet, NDArray[np.float32]]:
    """The questions that the student learns from, with the teacher's scores, and the weight of each question.

    Unlabelled questions count as much as the teacher is sure of its span, or of there being no answer; the others
    are left out.
    """
    golds = pseudo_labels(questions, labels, STUDENT_FLOOR)
    known = set(questions.labelled())
    doubtful = {
        q: 1 - labels.present[q]
        for q, source in enumerate(questions.sources)
        if not source.labelled and q not in golds and 0 <= labels.present[q] < UNANSWERED
    }
    absent = questions.absent | doubtful.keys()
    learned = known | golds.keys() | absent
    scored = learned - absent
    soft = [scores if q in scored else None for q, scores in enumerate(labels.scores)]
    sure = dict.fromkeys(known | questions.absent, 1.0) | {q: labels.probability[q] for q in golds} | doubtful
    weights = np.array([sure.get(q, 0.0) for q in range(len(questions.questions))], np.float32)
    chosen = replace(with_golds(questions, golds), soft=soft, absent=absent)
    chosen.keep_questions(learned)
    return chosen, weights
