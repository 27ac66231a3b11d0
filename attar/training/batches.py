"""Batches of passages with their questions, each a function of the seed and the step, made by worker processes."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from attar.training.question_set import QuestionSet

# Special pieces, as in BERT.
CLS, SEP, PAD = 101, 102, 0
Batch = dict[str, Tensor]
# How often a question is read as a person might type it.
TYPED = 0.2


def padded(rows: Sequence[NDArray[Any]], multiple: int = 32, value: int = 0) -> tuple[Tensor, Tensor]:
    """Rows as one tensor, and where they are; lengths are rounded up, as attention is slow at odd ones."""
    longest = max((len(row) for row in rows), default=1)
    width = -(-longest // multiple) * multiple
    array = np.full((len(rows), width), value, np.int64)
    mask = np.zeros((len(rows), width), np.bool_)
    for at, row in enumerate(rows):
        array[at, : len(row)] = row
        mask[at, : len(row)] = True
    return torch.from_numpy(array), torch.from_numpy(mask)


def text_batch(questions: QuestionSet, passages: Sequence[int]) -> Batch:
    """Passages between [CLS] and [SEP], with the number of each piece's sentence."""
    texts = [questions.texts[at] for at in passages]
    ids, mask = padded([np.concatenate(([CLS], text.ids, [SEP])) for text in texts])
    sentences, _ = padded([np.concatenate(([0], text.sentences, [0])) for text in texts])
    inside = mask.clone()
    inside[:, 0] = False
    inside[torch.arange(len(texts)), mask.sum(1) - 1] = False
    return {"ids": ids, "mask": mask, "sentences": sentences, "inside": inside}


def plan_batches(questions: QuestionSet, tokens: int, epochs: int, seed: int) -> list[list[int]]:
    """The passages of each step: at most `tokens` with padding, neighbours of the same article together."""
    random = np.random.default_rng(seed)
    by_article: dict[str, list[int]] = defaultdict(list)
    for at, passage in enumerate(questions.passages):
        if questions.of_passage[at]:
            by_article[passage.article].append(at)
    steps: list[list[int]] = []
    for _ in range(epochs):
        groups = []
        for members in by_article.values():
            order = random.permutation(members).tolist()
            groups += [order[at : at + 3] for at in range(0, len(order), 3)]
        lengths = np.array([max(len(questions.texts[at]) for at in group) for group in groups])
        order = np.argsort(lengths + random.uniform(0, 24, len(groups)))
        batches: list[list[int]] = [[]]
        longest = 0
        for at in order:
            longest = max(longest, int(lengths[at]) + 34)
            if batches[-1] and (len(batches[-1]) + len(groups[at])) * longest > tokens:
                batches.append([])
                longest = int(lengths[at]) + 34
            batches[-1] += groups[at]
        steps += [batches[at] for at in random.permutation(len(batches))]
    return steps


class QuestionBatches(Dataset[Batch]):
    """Step → batch: passages, at most `per_passage` questions of each, other passages as negatives."""

    def __init__(
        self,
        questions: QuestionSet,
        *,
        tokens: int,
        epochs: int,
        seed: int,
        per_passage: int = 6,
        negatives: int = 4,
        weights: NDArray[np.float32] | None = None,
    ) -> None:
        self.questions, self.per_passage, self.negatives, self.seed = questions, per_passage, negatives, seed
        self.steps = plan_batches(questions, tokens, epochs, seed)
        self.weights = weights

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> Batch:
        random = np.random.default_rng((self.seed, step))
        passages, questions = self.steps[step], self.questions
        batch = text_batch(questions, passages)
        chosen: list[int] = []
        owners: list[int] = []
        for row, at in enumerate(passages):
            picked = questions.of_passage[at]
            if len(picked) > self.per_passage:
                picked = random.choice(picked, self.per_passage, False).tolist()
            chosen += picked
            owners += [row] * len(picked)
        count, width = len(chosen), batch["ids"].shape[1]
        typed = random.random(count) < TYPED
        forms = [
            (questions.typed if other else questions.questions)[q]
            for q, other in zip(chosen, typed, strict=True)
        ]
        batch["question_ids"], batch["question_mask"] = padded(forms, 8)
        batch["owners"] = owner = torch.tensor(owners)
        spans = np.full((count, 4, 2), -1, np.int64)
        soft = np.full((count, 2, width), -np.inf, np.float16)
        for row, q in enumerate(chosen):
            golds, labels = questions.golds[q][:4], questions.soft[q]
            spans[row, : len(golds)] = golds + 1
            if labels is not None:
                soft[row, :, 1 : 1 + labels.shape[1]] = labels
        batch |= {"spans": torch.from_numpy(spans), "soft": torch.from_numpy(soft)}
        batch["taught"] = torch.tensor([questions.soft[q] is not None for q in chosen], dtype=torch.bool)
        batch["absent"] = torch.tensor([q in questions.absent for q in chosen], dtype=torch.bool)
        batch["weights"] = (
            torch.ones(count) if self.weights is None else torch.from_numpy(self.weights[chosen])
        )
        names = [questions.passages[at].article for at in passages]
        _, articles = np.unique(names, return_inverse=True)
        rows = np.array(owners)
        others = random.integers(0, len(passages), (count, self.negatives))
        same = (articles[rows, None] == articles) & (rows[:, None] != np.arange(len(passages)))
        near = (same * random.random(same.shape)).argmax(1)
        others[:, 0] = np.where(same.any(1), near, others[:, 0])
        batch["others"] = torch.from_numpy(others)
        batch["foreign"] = torch.from_numpy(articles[others] != articles[rows, None])
        batch["other"] = batch["others"] != owner[:, None]
        return batch


class QuestionsAlone(Dataset[Batch]):
    """Step → batch of questions without passages, drawn at random."""

    def __init__(self, questions: Sequence[NDArray[np.int32]], *, size: int, epochs: int, seed: int) -> None:
        self.questions, self.seed = questions, seed
        self.size = min(size, len(questions))
        self.count = max(1, epochs * len(questions) // self.size)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, step: int) -> Batch:
        random = np.random.default_rng((self.seed, step))
        chosen = random.integers(0, len(self.questions), self.size)
        ids, mask = padded([self.questions[q] for q in chosen], 8)
        return {"ids": ids, "mask": mask}
