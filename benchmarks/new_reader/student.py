"""The student, the network of a reader, and its quick question encoder: what they learn, and their losses."""

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.nn.phrases import (
    EncodedQuestions,
    EncodedTexts,
    PhraseNetwork,
    QuickQuestions,
    at_spans,
    following,
    valid_spans,
)
from attar.options import LONGEST
from attar.training.batches import Batch, Loss
from benchmarks.new_reader.questions import QuestionSet
from benchmarks.new_reader.teacher import STUDENT_FLOOR, TeacherLabels, pseudo_labels, with_golds

TEMPERATURE = 1.5
# Questions that the teacher gives a lower probability of having an answer are taken to have none.
_UNANSWERED = 0.15
# How much another passage of the same article counts as one without the answer; of another article: 1.
_SAME_ARTICLE = 0.25
# Phrases per piece that are written to a memory of fixed size.
_WRITTEN = 0.4
# Added to the priors of answers, so that these are among the phrases.
_GOLD = 1e3


def student_set(questions: QuestionSet, labels: TeacherLabels) -> tuple[QuestionSet, NDArray[np.float32]]:
    """The questions that the student learns from, with the teacher's scores, and the weight of each question.

    Unlabelled questions count as much as the teacher is sure of its span, or of there being no answer; the others
    are left out.
    """
    golds = pseudo_labels(questions, labels, STUDENT_FLOOR)
    known = set(questions.labelled())
    doubtful = {
        q: 1 - labels.present[q]
        for q, source in enumerate(questions.sources)
        if not source.labelled and q not in golds and 0 <= labels.present[q] < _UNANSWERED
    }
    absent = questions.absent | doubtful.keys()
    learned = known | golds.keys() | absent
    scored = learned - absent
    soft = [scores if q in scored else None for q, scores in enumerate(labels.scores)]
    sure = dict.fromkeys(known | questions.absent, 1.0) | {q: labels.probability[q] for q in golds} | doubtful
    weights = np.array([sure.get(q, 0.0) for q in range(len(questions.questions))], np.float32)
    chosen = replace(with_golds(questions, golds), soft=soft, absent=absent)
    chosen.keep_questions(learned)
    return chosen, weights


def gold_scores(scores: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
    """The log-sum of the scores of each question's answers, and whether any is among the spans scored."""
    first, last = spans[..., 0].clamp(min=0), spans[..., 1]
    length = last - first
    usable = (spans[..., 0] >= 0) & (length < LONGEST)
    rows = torch.arange(len(scores), device=scores.device)[:, None].expand_as(first)
    golds = scores[rows, first, length.clamp(0, LONGEST - 1)]
    usable &= golds.isfinite()
    # Not -inf: the gradient of a log-sum without terms is NaN.
    return golds.masked_fill(~usable, -1e4).logsumexp(1), usable.any(1)


def student_loss(network: PhraseNetwork, batch: Batch, quick: QuickQuestions | None = None) -> Loss:
    """The mean loss per question: its passage's spans against the answers, the teacher, and other passages."""
    with torch.set_grad_enabled(quick is None):
        texts = network.encode_texts(batch["ids"], batch["mask"])
    asked = batch["question_ids"], batch["question_mask"]
    questions = network.encode_questions(*asked, quick)
    valid = valid_spans(batch["sentences"], batch["inside"])
    owners, sentences = batch["owners"], batch["sentences"]

    # The question's own passage and the others in one call, as a GPU spends its time on starting kernels.
    others, other = batch["others"], batch["other"]
    asking = torch.cat([owners[:, None], others], 1)
    rows = asking.flatten()
    repeated = EncodedQuestions(*(part.repeat_interleave(asking.shape[1], 0) for part in questions))
    of_all = network.score(texts.rows(rows), repeated, sentences[rows], valid[rows])
    of_all = of_all.view(*asking.shape, *of_all.shape[1:])
    scores = of_all[:, 0]
    gold, usable = gold_scores(scores, batch["spans"])
    flat = scores.flatten(1)
    total = flat.logsumexp(1)
    weights = batch["weights"] * usable
    count = weights.sum().clamp(min=1)
    gold = torch.where(usable, gold, 0.0)
    hard = ((total - gold) * weights).sum() / count

    # What the teacher thinks of the same spans; for the quick encoder, what the large one does.
    soft = batch["soft"].float()
    teacher = soft[:, 0, :, None] + following(soft[:, 1], float("-inf"))
    taught = batch["taught"]
    if quick is not None:
        with torch.no_grad():
            large = network.encode_questions(*asked)
            teacher = network.score(texts.rows(owners), large, sentences[owners], valid[owners])
        taught = torch.ones_like(taught)
    teacher = teacher.masked_fill(~valid[owners], float("-inf")).flatten(1) / TEMPERATURE
    taught = taught & teacher.isfinite().any(1)
    target = torch.where(taught[:, None], teacher, torch.zeros_like(teacher)).softmax(1)
    student = (flat / TEMPERATURE).masked_fill(flat.isneginf(), -1e4).log_softmax(1)
    entropy = torch.where(target > 0, target * target.clamp(min=1e-9).log(), 0.0).sum(1)
    divergence = entropy - (target * student).sum(1)
    distilled = (divergence * taught).sum() / taught.sum().clamp(min=1) * TEMPERATURE**2

    # Other passages and "no answer" compete too.
    nulls = questions.nulls
    elsewhere = of_all[:, 1:].flatten(2).logsumexp(2).masked_fill(~other, float("-inf"))
    union = torch.cat([total[:, None], elsewhere, nulls[:, None]], 1).logsumexp(1)
    ranked = ((union - gold) * weights).sum() / count
    # Of the same article, another passage may have the answer after all.
    apart = other * torch.where(batch["foreign"], 1.0, _SAME_ARTICLE)
    absent = torch.logaddexp(elsewhere, nulls[:, None]) - nulls[:, None]
    refused = (torch.where(other, absent, 0.0) * apart).sum() / apart.sum().clamp(min=1)
    # Questions about the passage that it does not answer.
    without = batch["weights"] * batch["absent"]
    unanswered = ((torch.logaddexp(total, nulls) - nulls) * without).sum() / without.sum().clamp(min=1)
    alone = ((torch.logaddexp(total, nulls) - gold) * weights).sum() / count

    # The priors decide which phrases are kept: the softmax over all spans of a text, for what is asked about.
    prior = network.priors(texts.priors, valid)
    of_gold, _ = gold_scores(prior[owners], batch["spans"])
    prior_total = prior.flatten(1).logsumexp(1)[owners]
    likely = (torch.where(usable, prior_total - of_gold, 0.0) * weights).sum() / count

    loss = distilled + 0.5 * hard + 0.5 * ranked + 0.3 * refused + 0.3 * alone + 0.3 * likely
    loss = loss + 0.3 * unanswered
    parts = {"hard": hard, "distilled": distilled, "ranked": ranked, "refused": refused, "prior": likely}
    parts["unanswered"] = unanswered
    if network.ridge is not None and quick is None:
        parts["ridge"] = ridge_loss(network, batch, texts, questions, prior)
        loss = loss + 0.5 * parts["ridge"]
    return loss, {name: value.detach() for name, value in parts.items()}


def ridge_loss(
    network: PhraseNetwork, batch: Batch, texts: EncodedTexts, questions: EncodedQuestions, prior: Tensor
) -> Tensor:
    """The loss of answers from memories of fixed size: the likeliest phrases and the answers are written to them."""
    ridge, owners, spans = network.ridge, batch["owners"], batch["spans"]
    assert ridge is not None  # checked by the caller
    wanted = prior.detach().clone()
    first, length = spans[..., 0], spans[..., 1] - spans[..., 0]
    usable = (first >= 0) & (length >= 0) & (length < LONGEST)
    places = owners[:, None].expand_as(first)[usable], first[usable], length[usable]
    # Answers that are no spans stay at -inf.
    wanted.index_put_(places, wanted.new_tensor(_GOLD), accumulate=True)
    count = min(wanted[0].numel(), math.ceil(_WRITTEN * prior.shape[1]))
    chosen = wanted.flatten(1).topk(count, 1)
    most = (batch["inside"].sum(1) * _WRITTEN).ceil()[:, None]
    written = chosen.values.isfinite() & (torch.arange(count, device=most.device) < most)
    start = chosen.indices // LONGEST
    stop = (start + chosen.indices % LONGEST).clamp(max=prior.shape[1] - 1)
    values = ridge.values(network.encoder.words(batch["ids"]), start, stop)
    keys = ridge.keys(at_spans(texts.firsts, texts.lasts, start, stop)) * written[..., None]
    memory = ridge.write(keys, values)[owners]
    scores = (
        torch.einsum("qd,qpd->qp", ridge.read(memory, questions.queries), values[owners]) * ridge.sharpness
    )
    overlap = network.overlap(texts.words[owners], questions, batch["sentences"][owners])
    scores = scores + prior.flatten(1).gather(1, chosen.indices)[owners] + overlap.gather(1, start[owners])
    scores = scores.masked_fill(~written[owners], -1e4)
    ends = torch.stack([start, stop], -1)[owners]
    gold = (ends[:, :, None] == spans[:, None]).all(-1).any(-1) & written[owners]
    written_gold = gold.any(1)
    loss = scores.logsumexp(1) - scores.masked_fill(~gold, -1e4).logsumexp(1)
    weights = batch["weights"] * written_gold
    return (torch.where(written_gold, loss, 0.0) * weights).sum() / weights.sum().clamp(min=1)


def imitation_loss(network: PhraseNetwork, batch: Batch, quick: QuickQuestions) -> Loss:
    """The distance between the questions of the quick encoder and of the text encoder."""
    with torch.no_grad():
        target = network.encode_questions(batch["ids"], batch["mask"])
    imitated = network.encode_questions(batch["ids"], batch["mask"], quick)
    queries = (imitated.queries.float() - target.queries.float()).pow(2).sum(1).mean() / 8
    nulls = (imitated.nulls - target.nulls).pow(2).mean()
    weights = (imitated.weights - target.weights).pow(2).sum(1).mean()
    parts = {"query": queries, "null": nulls, "weight": weights}
    return queries + nulls + 4 * weights, {name: value.detach() for name, value in parts.items()}


def new_quick(network: PhraseNetwork, layers: int) -> QuickQuestions:
    """A quick question encoder with the network's heads and, of its layers, the first, the last and some between."""
    quick = QuickQuestions(network.options, 0, layers)
    deep = network.encoder.layers.layers
    for at, layer in enumerate(quick.layers.layers):
        place = len(deep) - 1 if layers == 1 else round(at * (len(deep) - 1) / (layers - 1))
        layer.load_state_dict(deep[place].state_dict())
    for name in ("query", "null", "weight"):
        getattr(quick, name).load_state_dict(getattr(network, name).state_dict())
    return quick
