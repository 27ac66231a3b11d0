"""The teacher: reads question and passage together, again for every question; its labels train the reader."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from attar.nn.phrases import following
from attar.nn.transformer import Transformer
from attar.options import LONGEST, TransformerShape
from attar.training.batches import SEP, Batch, padded
from attar.training.labels import TeacherLabels
from attar.training.question_set import QuestionSet

# The weight of whether there is an answer, in the loss.
PRESENT = 0.5


class Teacher(nn.Module):
    """Start and end scores of the passage's pieces, after reading `[CLS] question [SEP] passage [SEP]`.

    A score of the whole, at [CLS], says whether the passage has the answer.
    """

    def __init__(self, shape: TransformerShape | None = None) -> None:
        super().__init__()
        self.encoder = Transformer(shape)
        self.ends = nn.Linear(self.encoder.shape.size, 2)
        self.present = nn.Linear(self.encoder.shape.size, 1)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`[Q, 2, n]`, -inf outside of the passage, and the log-odds that it has an answer, `[Q]`."""
        hidden = self.encoder(batch["ids"], batch["mask"], batch["types"])
        scores: Tensor = self.ends(hidden).float().transpose(1, 2)
        present: Tensor = self.present(hidden[:, 0]).float()[:, 0]
        return scores.masked_fill(~batch["inside"][:, None], float("-inf")), present

    def loss(self, batch: Batch) -> Tensor:
        """The mean loss of start and end, over all answers of a question, and of whether there is one."""
        scores, present = self(batch)
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
        return found + PRESENT * absent


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
        types = ((places >= offsets[:, None]) & mask).long()
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


def best_spans(scores: Tensor, longest: int = LONGEST) -> tuple[Tensor, Tensor, Tensor]:
    """The first and last piece of the best span of each row of `[Q, 2, n]`, and its probability."""
    spans = scores[:, 0, :, None] + following(scores[:, 1], float("-inf"))
    flat = spans.flatten(1).log_softmax(1)
    value, at = flat.max(1)
    first = at // longest
    return first, first + at % longest, value.exp()


@torch.no_grad()
def label(
    teacher: Teacher, questions: QuestionSet, batches: Iterable[Batch], device: torch.device
) -> TeacherLabels:
    """What the teacher says about the questions of the batches."""
    teacher.eval()
    labels = TeacherLabels.empty(len(questions.questions))
    for batch in batches:
        batch = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores, odds = teacher(batch)
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
