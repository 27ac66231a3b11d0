"""How good given answers are: SQuAD's exact match and F1, sentences, abstention, calibration."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from attar.results import Certainty, certainty_of

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)
# Right answers that are kept where questions of other articles are refused.
KEPT = 0.9


@dataclass(frozen=True)
class Given:
    """What was given to a question: the best phrase, its sentence, and what was said.

    `probability` is that of what was said: of the phrase, or, if it was refused, of "not in this text". It is None
    if none was given. `confidence` ranks answers by how likely the text has the answer at all.
    """

    text: str
    quote: str = ""
    refused: bool = False
    probability: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Scores:
    """Means over questions; None where it does not apply. `em`, `f1` and `sentence` are over answerable questions.

    `refused_other` is how often questions of other articles are refused, `kept` how many of the right answers are
    not, both as the reader does by itself; `refused_at_90` with the threshold at which 90 % are kept. Questions about
    the document that it does not answer: `refused_unanswerable`, and `tricks_at_95` where 95 % are kept.
    """

    questions: int
    em: float | None
    f1: float | None
    sentence: float | None
    refused_other: float | None = None
    kept: float | None = None
    refused_at_90: float | None = None
    refused_unanswerable: float | None = None
    tricks_at_95: float | None = None
    calibration_error: float | None = None
    by_certainty: dict[Certainty, "CertaintyScore"] = field(default_factory=dict)


@dataclass(frozen=True)
class CertaintyScore:
    """How many first answers are said with a word of certainty, and the share of them that is right."""

    answers: int
    right: float


def by_certainty(said: Iterable[tuple[float, bool]]) -> dict[Certainty, CertaintyScore]:
    """The score of each word that is used, from the probability of each first answer and whether it is right.

    >>> by_certainty([(0.99, True), (0.98, False), (0.01, False)])["likely"]
    CertaintyScore(answers=2, right=0.5)
    """
    rights: dict[Certainty, list[bool]] = {"likely": [], "possible": [], "unsure": []}
    for probability, is_right in said:
        rights[certainty_of(probability)].append(is_right)
    return {word: CertaintyScore(len(each), sum(each) / len(each)) for word, each in rights.items() if each}


def certainty_line(scores: dict[Certainty, CertaintyScore]) -> str:
    """The scores of words on one line.

    >>> certainty_line({"likely": CertaintyScore(3, 2 / 3)})
    'likely: 3, right 67%'
    """
    return "; ".join(f"{word}: {each.answers:,}, right {each.right:.0%}" for word, each in scores.items())


def normalized(text: str) -> str:
    """SQuAD's rule: lower case, no punctuation, no articles.

    >>> normalized("The  Eiffel Tower.")
    'eiffel tower'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_MARKS)).split())


def exact(given: str, golds: Sequence[str]) -> float:
    """1 if the answer is one of the correct ones, else 0.

    >>> exact("the Tower", ["tower", "a tower in Paris"]), exact("Paris", ["tower"])
    (1.0, 0.0)
    """
    return float(normalized(given) in {normalized(gold) for gold in golds})


def f1(given: str, golds: Sequence[str]) -> float:
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


def holds(sentence: str, golds: Sequence[str]) -> float:
    """1 if a sentence has a correct answer in it, as whole words.

    >>> holds("It stands in Paris, France.", ["Paris"]), holds("A parish.", ["Paris"])
    (1.0, 0.0)
    """
    words = f" {normalized(sentence)} "
    return float(any(f" {normalized(gold)} " in words for gold in golds))


def calibration_error(probabilities: Sequence[float], right: Sequence[float], bins: int = 10) -> float:
    """The expected calibration error: how far mean probability and accuracy are apart, over bins of equal width.

    >>> round(calibration_error([0.9, 0.9, 0.2, 0.2], [1, 1, 0, 1]), 3)
    0.2
    """
    p, y = np.asarray(probabilities, np.float64), np.asarray(right, np.float64)
    bin_of = np.minimum((p * bins).astype(int), bins - 1)
    error = 0.0
    for number in np.unique(bin_of):
        chosen = bin_of == number
        error += float(chosen.mean() * abs(p[chosen].mean() - y[chosen].mean()))
    return error


def score(given: Sequence[Given], golds: Sequence[Sequence[str]], other: Sequence[Given] = ()) -> Scores:
    """The scores of answers to questions, each with its correct answers, none if it has no answer in the text.

    `other` are the answers to questions that were asked about another article.
    """
    pairs = list(zip(given, golds, strict=True))
    answerable = [(answer, gold) for answer, gold in pairs if gold]
    ems = [exact(answer.text, gold) for answer, gold in answerable]
    said = [
        (answer.probability, float(not gold) if answer.refused else exact(answer.text, gold) if gold else 0.0)
        for answer, gold in pairs
        if answer.probability is not None
    ]
    right = [answer for (answer, _), em in zip(answerable, ems, strict=True) if em]
    unanswerable = [answer for answer, gold in pairs if not gold]
    scores = Scores(
        questions=len(pairs),
        em=_mean(ems),
        f1=_mean([f1(answer.text, gold) for answer, gold in answerable]),
        sentence=_mean([holds(answer.quote, gold) for answer, gold in answerable]),
        calibration_error=calibration_error([p for p, _ in said], [hit for _, hit in said]) if said else None,
        by_certainty=by_certainty(
            (answer.probability, bool(gold) and exact(answer.text, gold) == 1)
            for answer, gold in pairs
            if answer.probability is not None and not answer.refused
        ),
    )
    if all(answer.confidence is None for answer in given):  # of one who never refuses
        return scores
    return replace(
        scores,
        refused_other=_mean([answer.refused for answer in other]),
        kept=_mean([not answer.refused for answer in right]),
        refused_at_90=refused_at(right, other),
        tricks_at_95=refused_at(right, unanswerable, 0.95),
        refused_unanswerable=_mean([answer.refused for answer in unanswerable]),
    )


def refused_at(right: Sequence[Given], other: Sequence[Given], kept: float = KEPT) -> float | None:
    """The share of other questions below the confidence above which `kept` of the right answers are."""
    if not right or not other:
        return None
    floor = np.quantile(_confidences(right), 1 - kept, method="lower")
    return float((_confidences(other) < floor).mean())


def _confidences(given: Sequence[Given]) -> NDArray[np.float64]:
    return np.array([answer.confidence or 0.0 for answer in given])


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
