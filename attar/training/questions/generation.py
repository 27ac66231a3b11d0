"""Questions for texts that have none: choose spans, write a question for each, keep those that the teacher answers."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from attar.nn.phrases import PhraseNetwork, valid_spans
from attar.options import LONGEST
from attar.training.questions.batches import SEP, Batch, text_batch
from attar.training.questions.data import Question
from attar.training.questions.encoded import Array, Encoded
from attar.training.questions.generator import Generator, Marked, MarkedBatches
from attar.training.questions.held_out import keep_best
from attar.training.questions.teacher import PairBatches, Teacher, label

# Spans asked about in a paragraph, drawn from this many candidates per piece.
SPANS, CANDIDATES = 8, 0.2
# Paragraphs per batch while spans are drawn.
_PARAGRAPHS = 128
# Kept: the teacher's probability of its span, and how much the span must have in common with the one asked about.
_SURE, _COMMON = 0.2, 0.6
Loader = Callable[[Dataset[Batch]], Iterable[Batch]]


def marked_questions(encoded: Encoded, chosen: Iterable[int]) -> list[Marked]:
    """Questions to learn from: with an answer that is not too long, and more than one word."""
    items = []
    for q in chosen:
        first, last = encoded.golds[q][0]
        if last - first < 16 and len(encoded.questions[q]) > 4:
            items.append(Marked(encoded.owners[q], int(first), int(last), encoded.questions[q]))
    return items


@torch.no_grad()
def draw_spans(prior: PhraseNetwork, encoded: Encoded, device: torch.device, seed: int) -> list[Marked]:
    """Spans worth asking about, drawn by their prior (Gumbel noise), at most `SPANS` per paragraph."""
    prior.eval()
    random = torch.Generator(device=device).manual_seed(seed)
    order = np.argsort([len(text) for text in encoded.texts])
    items = []
    for start in range(0, len(order), _PARAGRAPHS):
        chunk = order[start : start + _PARAGRAPHS].tolist()
        batch = {name: value.to(device) for name, value in text_batch(encoded, chunk).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            texts = prior.encode_texts(batch["ids"], batch["mask"])
            scores = prior.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
        kept = keep_best(scores, batch["inside"], CANDIDATES)
        flat = scores.masked_fill(~kept, float("-inf")).flatten(1) / 2.0
        uniform = torch.rand(flat.shape, generator=random, device=device).clamp(1e-9, 1 - 1e-7)
        best = (flat - torch.log(-torch.log(uniform))).topk(SPANS, 1)
        for at, places, values in zip(chunk, best.indices.tolist(), best.values.tolist(), strict=True):
            for place, value in zip(places, values, strict=True):
                if value > -1e30:
                    first = place // LONGEST - 1
                    items.append(Marked(at, first, first + place % LONGEST, None))
    return items


def write_questions(
    generator: Generator,
    encoded: Encoded,
    items: Sequence[Marked],
    loader: Loader,
    device: torch.device,
    tokens: int,
) -> Encoded:
    """The paragraphs with a question for each span; questions that do not end are left out."""
    data = MarkedBatches([text.ids for text in encoded.texts], items, tokens=tokens, epochs=1, seed=4)
    written: dict[int, NDArray[np.int32]] = {}
    for batch in loader(data):
        batch = {name: value.to(device) for name, value in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            rows = generator.generate(batch).cpu().numpy()
        for item, row in zip(batch["items"].tolist(), rows, strict=True):
            ends = np.flatnonzero(row == SEP)
            if len(ends) and 4 < ends[0] < 40:
                written[item] = row[: ends[0] + 1].astype(np.int32)
    asked = Encoded(encoded.passages, encoded.texts, of_passage=[[] for _ in encoded.passages])
    for number, ids in sorted(written.items()):
        item = items[number]
        asked.add_question(item.text, ids, np.array([[item.first, item.last]], np.int32), Question(""))
    return asked


def keep_answered(
    teacher: Teacher, asked: Encoded, loader: Loader, device: torch.device, tokens: int
) -> dict[str, Array]:
    """The questions whose span the teacher finds again, with its spans and scores, as few arrays."""
    kept: list[int] = []
    found = np.zeros((0, 4), np.float32)
    if asked.questions:
        every = range(len(asked.questions))
        pairs = PairBatches(asked, every, tokens=tokens, epochs=1, seed=0, shuffle=False)
        found = label(teacher, asked, loader(pairs), device)
        for q in every:
            (first, last), (a, b, sure) = asked.golds[q][0], found[q, :3]
            common = min(last, b) - max(first, a) + 1
            if sure > _SURE and common > 0 and 2 * common / (last - first + b - a + 2) > _COMMON:
                kept.append(q)
    soft = [scores for q in kept if (scores := asked.soft[q]) is not None]
    ids = [asked.questions[q] for q in kept]
    return {
        "passages": np.array([asked.owners[q] for q in kept], np.int64),
        "spans": found[kept, :3].reshape(-1, 3),
        "lengths": np.array([(len(a), b.shape[1]) for a, b in zip(ids, soft, strict=True)], np.int64).reshape(
            -1, 2
        ),
        "ids": np.concatenate([np.zeros(0, np.int32), *ids]),
        "scores": np.concatenate([np.zeros((2, 0), np.float16), *soft], 1),
        "count": np.array([len(asked.questions)]),
    }
