"""The second look's training: from a teacher that reads whole passages, to a small network that reads few sentences."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attar.nn.spans import SpanNetwork
from attar.training.batches import Batch
from attar.training.labels import STUDENT_FLOOR, TeacherLabels, pseudo_labels, with_golds
from attar.training.losses import TEMPERATURE, Loss
from attar.training.metrics import exact, f1
from attar.training.question_set import LONGEST_PASSAGE, QuestionSet
from attar.training.sentences import Row, SentenceChooser, joined
from attar.training.teacher import best_spans

# The parts of the loss: what the teacher thinks of starts and ends, the known answers, whether there is one.
_TAUGHT, _KNOWN, _PRESENT = 0.7, 0.5, 1.0
# How much questions count of which neither is known: whether they have an answer, nor which.
_UNSURE = 0.5
# Held-out questions that the accuracy is measured with, and how many sentences they are read with.
_MEASURED, _SENTENCES = 1_500, 3
_ROWS = 128
# Parts of a batch, by length.
_PARTS = 3


def look_set(encoded: QuestionSet, labels: TeacherLabels) -> tuple[QuestionSet, NDArray[np.float32]]:
    """All questions with the teacher's scores, the spans of which it is sure, and the weight of each question."""
    golds = pseudo_labels(encoded, labels, STUDENT_FLOOR)
    weights = np.full(len(encoded.questions), _UNSURE, np.float32)
    weights[[*encoded.labelled(), *sorted(encoded.absent)]] = 1.0
    weights[list(golds)] = [labels.probability[q] for q in golds]
    return replace(with_golds(encoded, golds), soft=labels.scores), weights


def look_loss(network: SpanNetwork, batch: Batch) -> Loss:
    """The mean loss per question."""
    inside = batch["inside"]
    scores, present = _by_length(network, batch)
    outside = ~inside[:, None]
    target = (batch["soft"].float() / TEMPERATURE).masked_fill(outside, float("-inf")).softmax(-1)
    student = (scores / TEMPERATURE).log_softmax(-1).masked_fill(outside, 0.0)
    divergence = (target * (target.clamp_min(1e-9).log() - student)).sum((1, 2))
    taught = _mean(divergence, batch["weight"] * batch["taught"]) * TEMPERATURE**2

    spans = batch["spans"]
    known = spans[..., 0] >= 0
    at, logs = spans.clamp(min=0), scores.log_softmax(-1)
    starts, ends = logs[:, 0].gather(1, at[..., 0]), logs[:, 1].gather(1, at[..., 1])
    # Not -inf: the gradient of a log-sum without terms is NaN.
    both = (starts + ends).masked_fill(~known, -1e4).logsumexp(1)
    answered = _mean(torch.where(known.any(1), -both, 0.0), batch["weight"] * known.any(1))
    refused = functional.binary_cross_entropy_with_logits(present, batch["present"])
    parts = {"taught": taught.detach(), "known": answered.detach(), "present": refused.detach()}
    return _TAUGHT * taught + _KNOWN * answered + _PRESENT * refused, parts


def _by_length(network: SpanNetwork, batch: Batch) -> tuple[Tensor, Tensor]:
    """Scores and presence of a batch whose rows are read in parts, the shortest first: 40 % less padding."""
    width = batch["ids"].shape[1]
    lengths = batch["mask"].sum(1)
    order = lengths.argsort()
    scores, present = [], []
    for rows in order.chunk(_PARTS):
        longest = min(width, -(-int(lengths[rows[-1]]) // 32) * 32)
        inputs = (batch[name][rows, :longest] for name in ("ids", "mask", "types", "inside"))
        found, odds = network(*inputs)
        scores.append(functional.pad(found, (0, width - longest), value=float("-inf")))
        present.append(odds)
    back = order.argsort()
    return torch.cat(scores)[back], torch.cat(present)[back]


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    return (values * weights).sum() / weights.sum().clamp(min=1)


@torch.no_grad()
def look_accuracy(
    network: SpanNetwork, encoded: QuestionSet, device: torch.device, count: int = _SENTENCES
) -> dict[str, float]:
    """Exact match and F1 of held-out questions, and how well presence tells those without an answer apart.

    Sentences are chosen by the words that they share with the question. `auc` is the probability that a question with
    an answer has a higher presence than one without.
    """
    network.eval()
    chooser = SentenceChooser(encoded)
    asked = [*encoded.labelled(), *sorted(encoded.absent)]
    asked = asked[:: max(1, len(asked) // _MEASURED)]
    right, overlap = [], []
    presence: dict[bool, list[float]] = {True: [], False: []}
    for start in range(0, len(asked), _ROWS):
        rows, kept = [], []
        for q in asked[start : start + _ROWS]:
            question, own = encoded.questions[q], encoded.owners[q]
            places = chooser.best(question, [own], count, None)
            ids, pieces, _ = chooser.pieces(places, own, LONGEST_PASSAGE - len(question))
            none = np.zeros((2, len(ids)), np.float16), np.zeros((0, 2), np.int64)
            rows.append(Row(question, ids, *none))
            kept.append(pieces)
        batch = {name: value.to(device) for name, value in joined(rows).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores, present = network(batch["ids"], batch["mask"], batch["types"], batch["inside"])
        firsts, lasts, _ = (values.tolist() for values in best_spans(scores))
        for at, q in enumerate(asked[start : start + _ROWS]):
            answered = q not in encoded.absent
            presence[answered].append(float(present[at]))
            if answered:
                offset = len(encoded.questions[q])
                first, last = (int(kept[at][place[at] - offset]) for place in (firsts, lasts))
                given = encoded.span_text(encoded.owners[q], first, last)
                golds = encoded.gold_texts(q)
                right.append(exact(given, golds))
                overlap.append(f1(given, golds))
    results = {"em": np.mean(right), "f1": np.mean(overlap)} if right else {}
    if all(presence.values()):
        pairs = np.array(presence[True])[:, None] - np.array(presence[False])
        results["auc"] = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    return {name: round(float(value), 4) for name, value in results.items()}
