"""The teacher reads question and passage together, again for every question; its labels train the reader."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.nn.spans import SpanNetwork
from attar.training.batches import Array, Batch, LengthBatches, half_precision, paired_batch
from benchmarks.new_reader.questions import QuestionSet, token_spans

Golds = dict[int, NDArray[np.int32]]
# The longest answer, in pieces: a clause.
LONGEST_ANSWER = 32
# How sure the teacher must be of a pseudo-label that the second teacher is trained on,
TEACHER_FLOOR = 0.35
# and of one that the student is trained on.
STUDENT_FLOOR = 0.15


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
        unknown = np.full((4, count), -1.0, np.float32)
        first, last = unknown[:2].astype(np.int32)
        return cls(first, last, unknown[2], unknown[3], [None] * count)

    def to_arrays(self) -> dict[str, Array]:
        rows = [np.zeros((2, 0), np.float16) if scores is None else scores for scores in self.scores]
        lengths = np.array([row.shape[1] for row in rows], np.int32)
        arrays: dict[str, Any] = vars(self) | {"scores": np.concatenate(rows, 1), "lengths": lengths}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        parts = np.split(arrays["scores"], np.cumsum(arrays["lengths"])[:-1], axis=1)
        scores = [part if part.shape[1] else None for part in parts]
        return cls(arrays["first"], arrays["last"], arrays["probability"], arrays["present"], scores)


def pseudo_labels(questions: QuestionSet, labels: TeacherLabels, floor: float) -> Golds:
    """Spans for unlabelled questions: the teacher is sure of them, and they overlap a marked span."""
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


class PairBatches(LengthBatches):
    """Step → batch of questions with their passages, of similar length."""

    def __init__(
        self,
        data: QuestionSet,
        chosen: Sequence[int],
        *,
        tokens: int,
        epochs: int,
        seed: int,
        shuffle: bool = True,
    ) -> None:
        self.data, self.chosen = data, chosen
        lengths = np.array([len(data.questions[q]) + len(data.texts[data.owners[q]]) + 1 for q in chosen])
        super().__init__(lengths, tokens=tokens, epochs=epochs, seed=seed, shuffle=shuffle)

    def __getitem__(self, step: int) -> Batch:
        data, rows = self.data, [self.chosen[at] for at in self.steps[step]]
        texts = [data.texts[data.owners[q]].ids for q in rows]
        batch = paired_batch([data.questions[q] for q in rows], texts, [data.golds[q] for q in rows])
        return batch | {"questions": torch.tensor(rows)}


def best_spans(scores: Tensor, longest: int = LONGEST_ANSWER) -> tuple[Tensor, Tensor, Tensor]:
    """The first and last piece of the best span of each row of `[Q, 2, n]`, and its probability.

    >>> scores = torch.tensor([[[0.0, 9.0, 0.0], [9.0, 0.0, 8.0]]])  # the best end is before the best start
    >>> [int(value[0]) for value in best_spans(scores)[:2]]
    [1, 2]
    """
    spans = scores[:, 0, :, None] + scores[:, 1, None]
    places = torch.arange(scores.shape[2], device=scores.device)
    length = places - places[:, None]
    flat = spans.masked_fill((length < 0) | (length >= longest), float("-inf")).flatten(1)
    value, at = flat.max(1)
    return at // len(places), at % len(places), (value - flat.logsumexp(1)).exp()


@torch.no_grad()
def label(
    teacher: SpanNetwork, questions: QuestionSet, batches: Iterable[Batch], device: torch.device
) -> TeacherLabels:
    """What the teacher says about the questions of the batches."""
    teacher.eval()
    labels = TeacherLabels.empty(len(questions.questions))
    for batch in batches:
        batch = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
        with half_precision(device):
            scores, odds = teacher(batch["ids"], batch["mask"], batch["types"], batch["inside"])
        first, last, probability = best_spans(scores)
        present, offsets, rows = odds.sigmoid(), batch["offsets"], batch["questions"].cpu().numpy()
        labels.first[rows] = (first - offsets).cpu().numpy()
        labels.last[rows] = (last - offsets).cpu().numpy()
        labels.probability[rows] = (probability * present).float().cpu().numpy()
        labels.present[rows] = present.float().cpu().numpy()
        values = scores.half().cpu().numpy()
        for row, (q, offset) in enumerate(zip(rows.tolist(), offsets.tolist(), strict=True)):
            length = len(questions.texts[questions.owners[q]])
            labels.scores[q] = values[row, :, offset : offset + length]
    return labels
