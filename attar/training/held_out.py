"""Held-out questions: the accuracy of a network while it is trained."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from attar.nn.phrases import PhraseNetwork, QuickQuestions, valid_spans
from attar.options import LONGEST
from attar.training.batches import padded, text_batch
from attar.training.metrics import exact, f1, holds
from attar.training.question_set import QuestionSet

# Passages per batch.
_BATCH = 16


def accuracy(
    network: PhraseNetwork,
    questions: QuestionSet,
    density: float,
    device: torch.device,
    quick: QuickQuestions | None = None,
) -> dict[str, float]:
    """Exact match, F1 and sentence hits over the questions that have a known answer."""
    known = set(questions.labelled())
    rows = []
    for q, first, last in _answers(network, questions, density, device, quick):
        if q in known:
            at, golds = questions.owners[q], questions.gold_texts(q)
            text = questions.texts[at]
            start, end = text.sentence_spans[text.sentences[first]]
            given, sentence = questions.span_text(at, first, last), questions.passages[at].text[start:end]
            rows.append((exact(given, golds), f1(given, golds), holds(sentence, golds)))
    means = np.mean(rows, 0) if rows else np.zeros(3)
    names = ("em", "f1", "sentence")
    return {name: round(float(mean), 4) for name, mean in zip(names, means, strict=True)}


@torch.no_grad()
def _answers(
    network: PhraseNetwork,
    questions: QuestionSet,
    density: float,
    device: torch.device,
    quick: QuickQuestions | None,
) -> Iterator[tuple[int, int, int]]:
    """Each question with the first and last piece of its best span, among the spans that a reader would keep."""
    network.eval()
    if quick is not None:
        quick.eval()
    passages = [at for at, asked in enumerate(questions.of_passage) if asked]
    for start in range(0, len(passages), _BATCH):
        chunk = passages[start : start + _BATCH]
        pairs = [(row, q) for row, at in enumerate(chunk) for q in questions.of_passage[at]]
        ids, mask = padded([questions.questions[q] for _, q in pairs], 8)
        batch = {name: value.to(device) for name, value in text_batch(questions, chunk).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            asked = network.encode_questions(ids.to(device), mask.to(device), quick)
            texts = network.encode_texts(batch["ids"], batch["mask"])
            priors = network.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
            valid = keep_best(priors, batch["inside"], density)
            rows = torch.tensor([row for row, _ in pairs], device=device)
            scores = network.score(texts.rows(rows), asked, batch["sentences"][rows], valid[rows])
        for (_, q), best in zip(pairs, scores.flatten(1).argmax(1).tolist(), strict=True):
            first = best // LONGEST - 1  # a passage begins with [CLS]
            yield q, first, first + best % LONGEST


def keep_best(priors: Tensor, inside: Tensor, density: float) -> Tensor:
    """True at the spans with the highest priors, `density` per piece of the text."""
    flat = priors.flatten(1)
    counts = (inside.sum(1) * density).ceil().long().clamp(min=1, max=flat.shape[1] - 1)
    ordered = flat.sort(1, descending=True).values
    floor = ordered.gather(1, counts[:, None] - 1)
    return ((flat >= floor) & flat.isfinite()).view_as(priors)
