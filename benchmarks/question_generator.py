"""A question generator: a passage with its answer marked → a question; more passages make a better reader."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from attar.nn.transformer import Transformer
from attar.options import TransformerShape
from attar.training.batches import CLS, SEP, Batch, padded

LONGEST_QUESTION = 26
# Pieces of the passage before and after the answer.
CONTEXT = 90


class Marked(NamedTuple):
    """A text's number, the first and last piece of an answer in it, and the question if there is one."""

    text: int
    first: int
    last: int
    question: NDArray[np.int32] | None


class Generator(nn.Module):
    """A transformer encoder, and a decoder that can copy words of the passage."""

    def __init__(self, shape: TransformerShape | None = None, layers: int = 3) -> None:
        super().__init__()
        self.encoder = Transformer(shape)
        shape = self.encoder.shape
        layer = nn.TransformerDecoderLayer(
            shape.size, shape.heads, shape.feedforward, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, layers, nn.LayerNorm(shape.size))
        self.output = nn.Linear(shape.size, shape.size)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))
        self.copy_query = nn.Linear(shape.size, shape.size)
        self.gate = nn.Linear(shape.size, 1)

    def log_probabilities(
        self, batch: Batch, states: Tensor, written: Tensor, *, last: bool = False
    ) -> Tensor:
        """The log-probability of each next piece, `[Q, l, V]`."""
        length = written.shape[1]
        places = torch.arange(length, device=written.device)
        x = self.encoder.words(written) + self.encoder.positions(places)
        causal = torch.ones(length, length, dtype=torch.bool, device=written.device).triu(1)
        hidden = self.decoder(x, states, tgt_mask=causal, memory_key_padding_mask=~batch["mask"])
        if last:
            hidden, length = hidden[:, -1:], 1
        words = functional.linear(self.output(hidden), self.encoder.words.weight, self.bias).float()
        alike = (
            torch.einsum("qld,qnd->qln", self.copy_query(hidden), states).float() * states.shape[-1] ** -0.5
        )
        copied = alike.masked_fill(~batch["mask"][:, None], float("-inf")).softmax(-1)
        gate = self.gate(hidden).float().sigmoid()
        ids = batch["ids"][:, None].expand(-1, length, -1)
        mixed: Tensor = (words.softmax(-1) * gate).scatter_add(2, ids, copied * (1 - gate))
        return mixed.clamp(min=1e-9).log()

    def encode(self, batch: Batch) -> Tensor:
        """The passage's states; the answer's pieces have type 1."""
        states: Tensor = self.encoder(batch["ids"], batch["mask"], batch["types"])
        return states

    def loss(self, batch: Batch) -> Tensor:
        """The mean loss per piece."""
        target, target_mask = batch["question_ids"], batch["question_mask"]
        logs = self.log_probabilities(batch, self.encode(batch), target[:, :-1])
        right = logs.gather(2, target[:, 1:, None])[..., 0]
        inside = target_mask[:, 1:]
        return -(right * inside).sum() / inside.sum()

    @torch.no_grad()
    def generate(self, batch: Batch, temperature: float = 0.7) -> Tensor:
        """Questions, sampled piece by piece: `[Q, l]` from [CLS] to [SEP]."""
        self.eval()
        states = self.encode(batch)
        written = torch.full((len(states), 1), CLS, device=states.device)
        done = torch.zeros(len(states), dtype=torch.bool, device=states.device)
        for _ in range(LONGEST_QUESTION):
            logs = self.log_probabilities(batch, states, written, last=True)[:, -1] / temperature
            # The least likely are left out: their sum is large, their quality is not.
            floor = logs.max(1, keepdim=True).values - 3.0
            chosen = torch.multinomial(logs.masked_fill(logs < floor, float("-inf")).softmax(1), 1)[:, 0]
            chosen = torch.where(done, 0, chosen)
            written = torch.cat([written, chosen[:, None]], 1)
            done |= chosen == SEP
            if bool(done.all()):
                break
        return written


class MarkedBatches(Dataset[Batch]):
    """Step → batch of passages with a marked answer, cut around it, and the question if there is one."""

    def __init__(
        self,
        texts: Sequence[NDArray[np.int32]],
        items: Sequence[Marked],
        *,
        tokens: int,
        epochs: int,
        seed: int,
    ) -> None:
        self.texts, self.items = texts, items
        random = np.random.default_rng(seed)
        spans = np.array([self._span(*item[:3]) for item in items]).reshape(-1, 2)
        lengths = spans[:, 1] - spans[:, 0]
        self.steps: list[NDArray[np.intp]] = []
        for _ in range(epochs):
            order = np.argsort(lengths + random.uniform(0, 16, len(items)))
            size = max(1, tokens // 192)
            batches = [order[at : at + size] for at in range(0, len(order), size)]
            self.steps += [batches[at] for at in random.permutation(len(batches))]

    def _span(self, text: int, first: int, last: int) -> tuple[int, int]:
        return max(0, first - CONTEXT), min(len(self.texts[text]), last + CONTEXT)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> Batch:
        chosen = [self.items[at] for at in self.steps[step]]
        rows, types = [], []
        for text, first, last, _ in chosen:
            start, stop = self._span(text, first, last)
            rows.append(np.concatenate(([CLS], self.texts[text][start:stop], [SEP])))
            kind = np.zeros(len(rows[-1]), np.int64)
            kind[first - start + 1 : last - start + 2] = 1
            types.append(kind)
        ids, mask = padded(rows)
        kinds, _ = padded(types)
        batch = {"ids": ids, "mask": mask, "types": kinds, "items": torch.from_numpy(self.steps[step])}
        questions = [_shortened(item.question) for item in chosen if item.question is not None]
        if questions:
            batch["question_ids"], batch["question_mask"] = padded(questions, 4)
        return batch


def _shortened(question: NDArray[np.int32]) -> NDArray[np.int32]:
    if len(question) < LONGEST_QUESTION:
        return question
    return np.append(question[: LONGEST_QUESTION - 1], np.int32(SEP))
