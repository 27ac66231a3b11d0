"""The teacher: reads question and passage together, again for every question; its labels train the reader."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from attar.nn.spans import SpanNetwork
from attar.training.batches import SEP, Batch, padded
from attar.training.labels import TeacherLabels
from attar.training.losses import Loss
from attar.training.question_set import QuestionSet

# The weight of whether there is an answer, in the loss.
PRESENT = 0.5
# The longest answer, in pieces: a clause.
LONGEST_ANSWER = 32


def teacher_loss(teacher: SpanNetwork, batch: Batch) -> Loss:
    """The mean loss of start and end, over all answers of a question, and of whether there is one."""
    scores, present = teacher(batch["ids"], batch["mask"], batch["types"], batch["inside"])
    logs = scores.log_softmax(-1)
    spans = batch["spans"]
    known = spans[..., 0] >= 0
    at = spans.clamp(min=0)
    starts, ends = logs[:, 0].gather(1, at[..., 0]), logs[:, 1].gather(1, at[..., 1])
    # Adjacent errors of wrong labels are bounded by the probability of the whole span.
    # Not -inf: the gradient of a log-sum without terms is NaN.
    both = (starts + ends).masked_fill(~known, -1e4).logsumexp(1)
    weights = batch["weights"] * known.any(1)
    found = -(torch.where(known.any(1), both, 0.0) * weights).sum() / weights.sum().clamp(min=1)
    absent = functional.binary_cross_entropy_with_logits(present, known.any(1).float())
    return found + PRESENT * absent, {"found": found.detach(), "absent": absent.detach()}


class PairBatches(Dataset[Batch]):
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
        self.data = data
        random = np.random.default_rng(seed)
        index = np.array(chosen)
        lengths = np.array([len(data.questions[q]) + len(data.texts[data.owners[q]]) + 1 for q in chosen])
        self.steps: list[list[int]] = []
        for _ in range(epochs):
            noise = random.uniform(0, 24 if shuffle else 0.5, len(index))
            order = np.argsort(lengths + noise)
            batches: list[list[int]] = [[]]
            for at in order:
                width = -(-int(lengths[at] + 1) // 32) * 32
                if (len(batches[-1]) + 1) * width > tokens:
                    batches.append([])
                batches[-1].append(int(index[at]))
            places = random.permutation(len(batches)) if shuffle else range(len(batches))
            self.steps += [batches[at] for at in places]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> Batch:
        data, rows = self.data, self.steps[step]
        questions = [data.questions[q] for q in rows]
        texts = [data.texts[data.owners[q]].ids for q in rows]
        pairs = zip(questions, texts, strict=True)
        ids, mask = padded([np.concatenate((question, text, [SEP])) for question, text in pairs])
        offsets = torch.tensor([len(question) for question in questions])
        lengths = torch.tensor([len(text) for text in texts])
        places = torch.arange(ids.shape[1])
        inside = (places >= offsets[:, None]) & (places < (offsets + lengths)[:, None])
        types = (places < offsets[:, None]).long()
        spans = torch.full((len(rows), 4, 2), -1)
        for row, q in enumerate(rows):
            golds = data.golds[q][:4]
            if len(golds):
                spans[row, : len(golds)] = torch.from_numpy(golds.astype(np.int64)) + offsets[row]
        return {
            "ids": ids,
            "mask": mask,
            "types": types,
            "inside": inside,
            "spans": spans,
            "weights": torch.ones(len(rows)),
            "offsets": offsets,
            "questions": torch.tensor(rows),
        }


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
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
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
