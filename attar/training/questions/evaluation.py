"""Evaluation on a SQuAD-format set: exact match, F1, sentence hits, refusals, by one paragraph or by article."""

import re
import string
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attar.nn.phrases import LONGEST, PhraseNetwork, QuickQuestions, valid_spans
from attar.training.questions.batches import padded, text_batch
from attar.training.questions.data import Encoded

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """SQuAD's rule: lower case, no punctuation, no articles.

    >>> normalized("The  Eiffel Tower.")
    'eiffel tower'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_MARKS)).split())


def exact(given: str, golds: list[str]) -> float:
    """1 if the answer is one of the correct ones, else 0."""
    return float(normalized(given) in {normalized(gold) for gold in golds})


def f1(given: str, golds: list[str]) -> float:
    """The best overlap of words with a correct answer.

    >>> f1("in Paris, France", ["Paris"])
    0.5
    """
    best = 0.0
    words = normalized(given).split()
    for gold in golds:
        other = normalized(gold).split()
        common = sum((Counter(words) & Counter(other)).values())
        if common:
            best = max(best, 2 * common / (len(words) + len(other)))
    return best


@dataclass
class ParagraphAnswers:
    """For each question × paragraph of its article: the best span, its score, and the log-sum of all its spans."""

    question: np.ndarray
    paragraph: np.ndarray
    first: np.ndarray
    last: np.ndarray
    score: np.ndarray
    total: np.ndarray
    null: np.ndarray


@torch.no_grad()
def answer_all(
    network: PhraseNetwork,
    encoded: Encoded,
    ratio: float,
    device: torch.device,
    foreign: bool = False,
    quick: QuickQuestions | None = None,
) -> ParagraphAnswers:
    """Ask each question of every paragraph of its article (or of one other article), `ratio` phrases per piece."""
    network.eval()
    by_article: dict[str, list[int]] = defaultdict(list)
    for at, passage in enumerate(encoded.passages):
        by_article[passage.article].append(at)
    names = list(by_article)
    columns: list[list[np.ndarray]] = [[] for _ in range(7)]
    for place, name in enumerate(names):
        asked = [q for at in by_article[name] for q in encoded.of_passage[at]]
        if not asked:
            continue
        members = by_article[names[(place + 7) % len(names)]][:1] if foreign else by_article[name]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            ids, mask = padded([encoded.questions[q] for q in asked], 8)
            questions = network.encode_questions(ids.to(device), mask.to(device), quick)
            for first_member in range(0, len(members), 16):
                chunk = members[first_member : first_member + 16]
                batch = {key: value.to(device) for key, value in text_batch(encoded, chunk).items()}
                texts = network.encode_texts(batch["ids"], batch["mask"])
                valid = keep_best(network.priors(texts, valid_spans(batch["sentences"], batch["inside"])), batch["inside"], ratio)
                for row, at in enumerate(chunk):
                    rows = torch.full((len(asked),), row, device=device)
                    scores = network.score(texts.rows(rows), questions, batch["sentences"][rows], valid[rows])
                    flat = scores.flatten(1)
                    value, index = flat.max(1)
                    found = (index // LONGEST - 1, index // LONGEST + index % LONGEST - 1, value, flat.logsumexp(1), questions.nulls)
                    part = [np.array(asked), np.full(len(asked), at), *(each.float().cpu().numpy() for each in found)]
                    for column, values in zip(columns, part, strict=True):
                        column.append(values)
    question, paragraph, first, last, score, total, null = (np.concatenate(column) for column in columns)
    return ParagraphAnswers(question, paragraph, first.astype(int), last.astype(int), score, total, null)


def keep_best(priors: Tensor, inside: Tensor, ratio: float) -> Tensor:
    """True at the spans with the highest priors, `ratio` per piece of the text."""
    flat = priors.flatten(1)
    counts = (inside.sum(1) * ratio).ceil().long().clamp(min=1, max=flat.shape[1] - 1)
    ordered = flat.sort(1, descending=True).values
    floor = ordered.gather(1, counts[:, None] - 1)
    return ((flat >= floor) & flat.isfinite()).view_as(priors)


def span_text(encoded: Encoded, paragraph: int, first: int, last: int) -> str:
    """The characters of a span."""
    text = encoded.texts[paragraph]
    return encoded.passages[paragraph].text[text.starts[first] : text.ends[last]]


def evaluate_spans(encoded: Encoded, answers: ParagraphAnswers, paragraphs: int | None) -> dict[str, float]:
    """Scores over answerable questions, a document being `paragraphs` of an article; None for the whole article."""
    own = np.array(encoded.owners)
    place = np.zeros(len(encoded.passages), int)
    seen: Counter[str] = Counter()
    for at, passage in enumerate(encoded.passages):
        place[at] = seen[passage.article]
        seen[passage.article] += 1
    if paragraphs is not None:
        same = place[answers.paragraph] // paragraphs == place[own[answers.question]] // paragraphs
    else:
        same = np.ones(len(answers.question), bool)
    rows = np.flatnonzero(same & np.array([bool(encoded.sources[q].answers) for q in answers.question]))
    order = rows[np.lexsort((-answers.score[rows], answers.question[rows]))]
    questions, starts = np.unique(answers.question[order], return_index=True)
    results = defaultdict(list)
    probabilities = []
    for q, start, stop in zip(questions, starts, np.append(starts[1:], len(order)), strict=True):
        row = order[start]
        given = span_text(encoded, answers.paragraph[row], answers.first[row], answers.last[row])
        passage = encoded.passages[own[q]]
        golds = [passage.text[a:b] for a, b in encoded.sources[q].answers]
        results["em"].append(exact(given, golds))
        results["f1"].append(f1(given, golds))
        text = encoded.texts[answers.paragraph[row]]
        a, b = text.sentence_spans[text.sentences[answers.first[row]]]
        quote = " " + normalized(encoded.passages[answers.paragraph[row]].text[a:b]) + " "
        results["sentence"].append(float(any(f" {normalized(gold)} " in quote for gold in golds)))
        total = np.logaddexp.reduce(np.append(answers.total[order[start:stop]], answers.null[row]))
        probabilities.append(np.exp(answers.score[row] - total))
        results["margin"].append(np.logaddexp.reduce(answers.total[order[start:stop]]) - answers.null[row])
    scores = {name: float(np.mean(values)) for name, values in results.items() if name != "margin"}
    scores["probability"] = float(np.mean(probabilities))
    scores["_margins"] = np.array(results["margin"])  # type: ignore[assignment]
    scores["_right"] = np.array(results["em"])  # type: ignore[assignment]
    return scores
