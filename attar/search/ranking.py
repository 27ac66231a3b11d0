"""What a query is, what is known after each of its rounds, and how the scores of signatures and BM25 are mixed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.search import scan
from attar.search.lexical import Corpus
from attar.search.moments import Moments
from attar.search.state_map import Floats

# How much each score counts, in standard deviations over the documents; chosen on questions of SQuAD's training set.
SIGNATURE_WEIGHT, WORDS_WEIGHT = 1.5, 1.0
# The best documents are ranked again by their phrases: each gets this weight times the probability that the answer is
# in it, not elsewhere among them; chosen on the same questions.
RERANKED, PHRASES_WEIGHT = 20, 6.0


class Ranked(NamedTuple):
    """A document that search found: its score, in standard deviations above the mean document, its key and name."""

    score: float
    key: bytes
    name: str


@dataclass(frozen=True, eq=False)
class SearchQuery:
    """A query as both scores need it: the triangle `[numbers]` for signatures, word pieces for BM25, and the text."""

    signature: Floats
    pieces: NDArray[Any]
    text: str
    # Of the statistics and options that the signature was made with.
    digest: bytes


@dataclass(frozen=True)
class Common:
    """What is known of all documents after each round of a query: frequencies, then moments of scores.

    `near` are moments of rounded scores, of exact ones after `least`, if the scan rounds: documents whose rounded score
    is at least `least` are compared exactly.
    """

    corpus: Corpus
    words: Moments | None = None
    near: Moments | None = None
    least: float | None = None
    exact: Moments | None = None

    @property
    def is_rounded(self) -> bool:
        """Whether the first scan rounds, as it does for many documents."""
        return scan.is_rounded(self.corpus.documents)


class Compared(NamedTuple):
    """The rows that are compared with a query, their scores by words and by signatures, and the moments of all.

    `sampled` is whether the moments by signatures are of a sample, since not all rows are compared.
    """

    version: int
    rows: NDArray[np.intp]
    words: Floats
    signatures: Floats
    moments: tuple[Moments, Moments]
    sampled: bool


def total(found: Compared, common: Common, near: Moments | None) -> Floats:
    """The mix of signatures and BM25."""
    assert common.words is not None
    assert near is not None
    words: Floats = WORDS_WEIGHT * common.words.standardised(found.words)
    return words + SIGNATURE_WEIGHT * near.standardised(found.signatures)


def rerank(scores: Sequence[float], matches: Sequence[float]) -> list[tuple[int, float]]:
    """Places and scores, best first: the first `len(matches)` are ranked again, the others stay behind them.

    Matches are compared as a softmax: of a topic that no phrase answers, they differ by as much as of a question, but
    none stands out.

    >>> rerank([3.0, 2.0, 1.0], [0.0, math.log(3)])
    [(1, 6.5), (0, 4.5), (2, 1.0)]
    """
    highest = max(matches, default=0.0)
    shares = [math.exp(match - highest) for match in matches]
    weight = PHRASES_WEIGHT / sum(shares) if shares else 0.0
    again = [(at, scores[at] + weight * share) for at, share in enumerate(shares)]
    again.sort(key=lambda each: -each[1])
    lowest = again[-1][1] if again else 0.0
    return again + [(at, min(scores[at], lowest)) for at in range(len(matches), len(scores))]
