"""The losses of a phrase network: of its scores, of its priors alone, and of the quick question encoder."""

import torch
from torch import Tensor

from attar.nn import LONGEST, PhraseNetwork, QuickQuestions, following, valid_spans
from attar.training.questions.batches import Batch

TEMPERATURE = 1.5
# A loss, and its parts for the log.
Loss = tuple[Tensor, dict[str, Tensor]]


def gold_scores(scores: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
    """The log-sum of the scores of each question's answers, and whether any is among the spans scored."""
    first, last = spans[..., 0].clamp(min=0), spans[..., 1]
    length = last - first
    usable = (spans[..., 0] >= 0) & (length < LONGEST)
    rows = torch.arange(len(scores), device=scores.device)[:, None].expand_as(first)
    own = scores[rows, first, length.clamp(0, LONGEST - 1)]
    usable &= own.isfinite()
    # Not -inf: the gradient of a log-sum without terms is NaN.
    return own.masked_fill(~usable, -1e4).logsumexp(1), usable.any(1)


def student_loss(network: PhraseNetwork, batch: Batch, quick: QuickQuestions | None = None) -> Loss:
    """The mean loss per question: its passage's spans against the answers, the teacher, and other passages."""
    with torch.set_grad_enabled(quick is None):
        texts = network.encode_texts(batch["ids"], batch["mask"])
    questions = network.encode_questions(batch["question_ids"], batch["question_mask"], quick)
    valid = valid_spans(batch["sentences"], batch["inside"])
    owners, sentences = batch["owners"], batch["sentences"]

    scores = network.score(texts.rows(owners), questions, sentences[owners], valid[owners])
    own, usable = gold_scores(scores, batch["spans"])
    flat = scores.flatten(1)
    total = flat.logsumexp(1)
    weights = batch["weights"] * usable
    count = weights.sum().clamp(min=1)
    own = torch.where(usable, own, 0.0)
    hard = ((total - own) * weights).sum() / count

    # What the teacher thinks of the same spans.
    soft = batch["soft"]
    teacher = soft[:, 0, :, None] + following(soft[:, 1], float("-inf"))
    teacher = teacher.masked_fill(~valid[owners], float("-inf")).flatten(1) / TEMPERATURE
    taught = batch["taught"] & teacher.isfinite().any(1)
    target = torch.where(taught[:, None], teacher, torch.zeros_like(teacher)).softmax(1)
    student = (flat / TEMPERATURE).masked_fill(flat.isneginf(), -1e4).log_softmax(1)
    entropy = torch.where(target > 0, target * target.clamp(min=1e-9).log(), 0.0).sum(1)
    divergence = entropy - (target * student).sum(1)
    distilled = (divergence * taught).sum() / taught.sum().clamp(min=1) * TEMPERATURE**2

    # Other passages and "no answer" compete too.
    nulls = questions.nulls
    others, other = batch["others"], batch["other"]
    sums = []
    for at in range(others.shape[1]):
        rows = others[:, at]
        of_other = (
            network.score(texts.rows(rows), questions, sentences[rows], valid[rows]).flatten(1).logsumexp(1)
        )
        sums.append(of_other.masked_fill(~other[:, at], float("-inf")))
    elsewhere = torch.stack(sums, 1)
    union = torch.cat([total[:, None], elsewhere, nulls[:, None]], 1).logsumexp(1)
    ranked = ((union - own) * weights).sum() / count
    foreign = batch["foreign"] & other
    absent = torch.logaddexp(elsewhere, nulls[:, None]) - nulls[:, None]
    refused = torch.where(foreign, absent, 0.0).sum() / foreign.sum().clamp(min=1)
    alone = ((torch.logaddexp(total, nulls) - own) * weights).sum() / count

    # The priors decide which phrases are kept: the softmax over all spans of a text, for what is asked about.
    prior = network.priors(texts, valid)
    asked, _ = gold_scores(prior[owners], batch["spans"])
    prior_total = prior.flatten(1).logsumexp(1)[owners]
    kept = (torch.where(usable, prior_total - asked, 0.0) * weights).sum() / count

    loss = distilled + 0.5 * hard + 0.5 * ranked + 0.3 * refused + 0.2 * alone + 0.3 * kept
    parts = {"hard": hard, "distilled": distilled, "ranked": ranked, "refused": refused, "prior": kept}
    return loss, {name: value.detach() for name, value in parts.items()}


def prior_loss(network: PhraseNetwork, batch: Batch) -> Loss:
    """The loss of the priors alone: which spans are worth asking about."""
    texts = network.encode_texts(batch["ids"], batch["mask"])
    prior = network.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
    asked, usable = gold_scores(prior[batch["owners"]], batch["spans"])
    total = prior.flatten(1).logsumexp(1)[batch["owners"]]
    return torch.where(usable, total - asked, 0.0).sum() / usable.sum().clamp(min=1), {}


def imitation_loss(network: PhraseNetwork, batch: Batch, quick: QuickQuestions) -> Loss:
    """The distance of the quick encoder's questions from those of the document encoder."""
    with torch.no_grad():
        target = network.encode_questions(batch["ids"], batch["mask"])
    given = network.encode_questions(batch["ids"], batch["mask"], quick)
    queries = (given.queries.float() - target.queries.float()).pow(2).sum(1).mean() / 8
    nulls = (given.nulls - target.nulls).pow(2).mean()
    weights = (given.weights - target.weights).pow(2).sum(1).mean()
    parts = {"query": queries, "null": nulls, "weight": weights}
    return queries + nulls + 4 * weights, {name: value.detach() for name, value in parts.items()}
