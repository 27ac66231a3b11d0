"""What a query is, what is known after each of its rounds, and how the scores of both voices are mixed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.search import scan
from attar.search.lexical import Corpus
from attar.search.moments import Moments
from attar.search.state_map import Floats

# How much each voice counts, in standard deviations over the documents; chosen on questions of SQuAD's training set.
SIGNATURE_WEIGHT, WORDS_WEIGHT = 1.5, 1.0
# The best documents are ranked again by their phrases, whose match has this weight; chosen on the same questions.
RERANKED, PHRASES_WEIGHT = 20, 0.8


class Ranked(NamedTuple):
    """A document that search found: its score, in standard deviations above the mean document, its key and name."""

    score: float
    key: bytes
    name: str


@dataclass(frozen=True, eq=False)
class SearchQuery:
    """A query as voices need it: the triangle `[numbers]` for signatures, word pieces for BM25, and the text."""

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


class Voices(NamedTuple):
    """The rows that are compared with a query, their scores by words and by signatures, and the moments of all.

    `sampled` is whether the moments by signatures are of a sample, since not all rows are compared.
    """

    version: int
    rows: NDArray[np.intp]
    words: Floats
    signatures: Floats
    moments: tuple[Moments, Moments]
    sampled: bool


def total(found: Voices, common: Common, near: Moments | None) -> Floats:
    """The mix of both voices."""
    assert common.words is not None
    assert near is not None
    words: Floats = WORDS_WEIGHT * common.words.standardised(found.words)
    return words + SIGNATURE_WEIGHT * near.standardised(found.signatures)


def rerank(scores: Sequence[float], matches: Sequence[float]) -> list[tuple[int, float]]:
    """Places and scores, best first: the first `len(matches)` are ranked again, the others stay behind them.

    >>> rerank([3.0, 2.0, 1.0], [0.0, 2.5])
    [(1, 4.0), (0, 3.0), (2, 1.0)]
    """
    again = [(at, scores[at] + PHRASES_WEIGHT * match) for at, match in enumerate(matches)]
    again.sort(key=lambda each: -each[1])
    lowest = again[-1][1] if again else 0.0
    return again + [(at, min(scores[at], lowest)) for at in range(len(matches), len(scores))]
