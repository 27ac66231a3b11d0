"""Batches of questions with the text that they are read with, and what is learned from them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from attar.errors import FormatError
from attar.nn.spans import SpanNetwork
from attar.reader.windows import PieceTokenizer

Array = NDArray[Any]
Batch = dict[str, Tensor]
# A loss, and its parts for the log.
Loss = tuple[Tensor, dict[str, Tensor]]
# Special pieces, as in BERT.
CLS, SEP, PAD = 101, 102, 0
# How often a question is read as a person might type it.
TYPED = 0.2
# The most answers of a question that are learned from.
ANSWERS = 4
# Attention is slow at odd lengths: they are rounded up to a multiple of this.
WIDTH = 32
# The weight of whether there is an answer, in the loss.
_PRESENT = 0.5


def check_special_pieces(tokenizer: PieceTokenizer, source: str) -> None:
    """Refuse a tokenizer whose special pieces do not have BERT's numbers, which batches are made with."""
    numbers = (tokenizer.pad, tokenizer.cls, tokenizer.sep)
    if numbers != (PAD, CLS, SEP):
        expected = f"[PAD], [CLS] and [SEP] as {PAD}, {CLS} and {SEP}, as in BERT"
        raise FormatError.expected(f"{source}: tokenizer.json", expected, ", ".join(map(str, numbers)))


def half_precision(device: torch.device) -> torch.autocast:
    """bfloat16 for matrix products where the device has it: half the time of a step, on a GPU less."""
    has_it = device.type == "cuda" or getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return torch.autocast(device.type, torch.bfloat16, enabled=has_it)


def padded(rows: Sequence[Array], multiple: int = WIDTH) -> tuple[Tensor, Tensor]:
    """Rows as one tensor, padded with 0 to a multiple of some length, and where they are."""
    lengths = np.array([len(row) for row in rows])
    width = -(-int(lengths.max(initial=1)) // multiple) * multiple
    mask = np.arange(width) < lengths[:, None]
    array = np.zeros(mask.shape, np.int64)
    array[mask] = np.concatenate(rows)
    return torch.from_numpy(array), torch.from_numpy(mask)


def paired_batch(questions: Sequence[Array], texts: Sequence[Array], golds: Sequence[Array]) -> Batch:
    """Questions with the pieces that they are read with: `[CLS] question [SEP] text [SEP]`.

    The question is of type 1, as when a reader encodes it alone. `golds` are spans of the text.
    """
    ids, mask = padded([np.concatenate((*pair, [SEP])) for pair in zip(questions, texts, strict=True)])
    offsets = torch.tensor([len(question) for question in questions])
    ends = offsets + torch.tensor([len(text) for text in texts])
    places = torch.arange(ids.shape[1])
    of_question = places < offsets[:, None]
    spans = torch.full((len(questions), ANSWERS, 2), -1)
    for row, gold in enumerate(golds):
        known = torch.from_numpy(gold[:ANSWERS].astype(np.int64))
        spans[row, : len(known)] = known + offsets[row]
    return {
        "ids": ids,
        "mask": mask,
        "types": of_question.long(),
        "inside": ~of_question & (places < ends[:, None]),
        "spans": spans,
        "offsets": offsets,
    }


class LengthBatches(Dataset[Batch]):
    """Step → the numbers of rows of similar length, at most `tokens` pieces with padding."""

    def __init__(
        self, lengths: NDArray[np.int64], *, tokens: int, epochs: int, seed: int, shuffle: bool = True
    ) -> None:
        random = np.random.default_rng(seed)
        self.steps: list[list[int]] = []
        for _ in range(epochs):
            noise = random.uniform(0, 24 if shuffle else 0.5, len(lengths))
            batches: list[list[int]] = [[]]
            for at in np.argsort(lengths + noise).tolist():
                width = -(-int(lengths[at] + 1) // WIDTH) * WIDTH
                if (len(batches[-1]) + 1) * width > tokens:
                    batches.append([])
                batches[-1].append(at)
            places = random.permutation(len(batches)) if shuffle else range(len(batches))
            self.steps += [batches[at] for at in places]

    def __len__(self) -> int:
        return len(self.steps)


def answer_scores(scores: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of the probability of any answer of each row, 0 if it has none, and whether it has one.

    `scores` `[Q, 2, n]` are of starts and ends, `spans` `[Q, a, 2]` the answers, -1 after the last.
    """
    logs, at = scores.log_softmax(-1), spans.clamp(min=0)
    known = spans[..., 0] >= 0
    both = logs[:, 0].gather(1, at[..., 0]) + logs[:, 1].gather(1, at[..., 1])
    # Not -inf: the gradient of a log-sum without terms is NaN.
    total, has_answer = both.masked_fill(~known, -1e4).logsumexp(1), known.any(1)
    return torch.where(has_answer, total, 0.0), has_answer


def span_loss(network: SpanNetwork, batch: Batch) -> Loss:
    """The mean loss of start and end, over all answers of a question, and of whether there is one."""
    scores, present = network(batch["ids"], batch["mask"], batch["types"], batch["inside"])
    answered, has_answer = answer_scores(scores, batch["spans"])
    found = -answered.sum() / has_answer.sum().clamp(min=1)
    absent = functional.binary_cross_entropy_with_logits(present, has_answer.float())
    return found + _PRESENT * absent, {"found": found.detach(), "absent": absent.detach()}
