"""Held-out questions: the accuracy of a network while it is trained."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.nn.phrases import PhraseNetwork, QuickQuestions, valid_spans
from attar.options import LONGEST
from attar.training.questions.batches import padded, text_batch
from attar.training.questions.encoded import Encoded
from attar.training.questions.metrics import exact, f1, holds

Floats = NDArray[np.float64]
# Passages, and questions, per batch.
_BATCH = 16


@dataclass(frozen=True)
class Best:
    """For each question: the first and last piece of the best span, its probability, and its passage.

    The probability counts the spans that overlap the best one, as a reader does. `margin` is the log-odds that the
    text has the answer.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    probability: Floats
    margin: Floats
    passage: NDArray[np.int64]


@torch.no_grad()
def answer_questions(
    network: PhraseNetwork,
    encoded: Encoded,
    density: float,
    device: torch.device,
    quick: QuickQuestions | None = None,
    *,
    other: bool = False,
) -> Best:
    """The best span of each question in its own passage, or in one of another article."""
    network.eval()
    if quick is not None:
        quick.eval()
    count = len(encoded.questions)
    columns = np.zeros((5, count))
    articles: dict[str, list[int]] = defaultdict(list)
    for at, each in enumerate(encoded.passages):
        articles[each.article].append(at)
    names = list(articles)
    number = {name: at for at, name in enumerate(names)}
    asked: dict[int, list[int]] = defaultdict(list)
    for q, owner in enumerate(encoded.owners):
        # Some articles away: neighbours in a file may be about the same thing.
        place = (number[encoded.passages[owner].article] + 7) % len(names)
        asked[articles[names[place]][q % len(articles[names[place]])] if other else owner].append(q)
    passages = list(asked)
    for start in range(0, len(passages), _BATCH):
        chunk = passages[start : start + _BATCH]
        rows = [(row, q) for row, at in enumerate(chunk) for q in asked[at]]
        ids, mask = padded([encoded.questions[q] for _, q in rows], 8)
        batch = {name: value.to(device) for name, value in text_batch(encoded, chunk).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            questions = network.encode_questions(ids.to(device), mask.to(device), quick)
            texts = network.encode_texts(batch["ids"], batch["mask"])
            priors = network.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
            valid = keep_best(priors, batch["inside"], density)
            of = torch.tensor([row for row, _ in rows], device=device)
            scores = network.score(texts.rows(of), questions, batch["sentences"][of], valid[of])
        found = _best_spans(scores, questions.nulls)
        for column, values in zip(columns, found, strict=False):
            column[[q for _, q in rows]] = values.double().cpu().numpy()
        columns[4, [q for _, q in rows]] = [chunk[row] for row, _ in rows]
    first, last, probability, margin, passage = columns
    return Best(first.astype(int), last.astype(int), probability, margin, passage.astype(int))


def _best_spans(scores: Tensor, nulls: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    flat = scores.flatten(1)
    index = flat.argmax(1)
    first, last = index // LONGEST, index // LONGEST + index % LONGEST
    starts = torch.arange(scores.shape[1], device=scores.device)[:, None]
    ends = starts + torch.arange(LONGEST, device=scores.device)
    overlaps = (starts <= last[:, None, None]) & (ends >= first[:, None, None])
    near = scores.masked_fill(~overlaps, float("-inf")).flatten(1).logsumexp(1)
    total = flat.logsumexp(1)
    probability = (near - torch.logaddexp(total, nulls)).exp()
    return first - 1, last - 1, probability, total - nulls


def keep_best(priors: Tensor, inside: Tensor, density: float) -> Tensor:
    """True at the spans with the highest priors, `density` per piece of the text."""
    flat = priors.flatten(1)
    counts = (inside.sum(1) * density).ceil().long().clamp(min=1, max=flat.shape[1] - 1)
    ordered = flat.sort(1, descending=True).values
    floor = ordered.gather(1, counts[:, None] - 1)
    return ((flat >= floor) & flat.isfinite()).view_as(priors)


def accuracy(encoded: Encoded, best: Best) -> dict[str, Any]:
    """Exact match, F1 and sentence hits over the questions that have a known answer."""
    rows = []
    for q in encoded.labelled():
        golds, at = encoded.gold_texts(q), int(best.passage[q])
        text = encoded.texts[at]
        start, end = text.sentence_spans[text.sentences[best.first[q]]]
        given = _text(encoded, best, q)
        rows.append(
            (exact(given, golds), f1(given, golds), holds(encoded.passages[at].text[start:end], golds))
        )
    means = np.mean(rows, 0) if rows else np.zeros(3)
    names = ("em", "f1", "sentence")
    return {name: round(float(mean), 4) for name, mean in zip(names, means, strict=True)}


def _text(encoded: Encoded, best: Best, question: int) -> str:
    return encoded.span_text(int(best.passage[question]), int(best.first[question]), int(best.last[question]))
