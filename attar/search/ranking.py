"""How documents are ranked: by words and by signatures, in standard deviations over all documents, then by phrases.

Scores by signatures do not depend on the order of additions, nor on which others are compared with them: shards of a
library rank like the whole. The query is rounded to whole numbers of 30 bits, whose sums float64 holds exactly. Many
signatures are compared with a query in two bit planes first; who asks compares the best of them with the query itself.
`fast_scan` (numba, the extra `fast`) does the first in about a tenth of the time.

What shards find out about their own documents is merged here. Sums are of whole numbers and thus exact: they do not
depend on the order of documents, nor on how these are split.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.search.lexical import Corpus
from attar.search.statistics import Floats

if TYPE_CHECKING:
    from torch import Tensor

# How much each score counts, in standard deviations over the documents; chosen on questions of SQuAD's training set.
SIGNATURE_WEIGHT = 1.5
WORDS_WEIGHT = 1.0
# How many of the best documents are ranked again by their phrases.
RERANKED = 20
# Each of them gets this weight times the probability that the answer is in it, not elsewhere among them; chosen on the
# same questions. Phrases are not trained to fit topics and claims, which are ranked without them.
PHRASES_WEIGHT = 6.0
# Bits after the point that scores have in sums.
_FRACTION = 16
# Squares are summed in halves of this many bits: a million of them fit into int64.
_HALF = 14

Packed = NDArray[np.uint8]
Rows = NDArray[np.intp]
# Rows unpacked at a time, 8 MB: larger arrays are mapped anew each time, which takes longer than the products.
_BLOCK = 128
# From this many documents on, the first scan is by bit planes.
_MANY = 4_096
# At least this many of the best by bit planes are compared exactly.
CANDIDATES = 256
PLANES = 2
# Steps between the levels that lose least of a normally distributed number, in standard deviations (Max, 1960).
_STEP = 0.996
# What a query keeps of its largest number. Sums of up to 2^23 such numbers are exact in float64.
_BITS = 30


def scores(packed: Packed, queries: Floats, rows: Rows | None = None) -> Floats:
    """The score of each signature `[N, bytes]`, or of some rows, for each query `[m, numbers]`: `[m, N]`.

    >>> signatures = np.array([[0b101], [0b010]], np.uint8)
    >>> scores(signatures, np.array([[2.0, -1.0, 1.0]], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    count, numbers = len(packed) if rows is None else len(rows), queries.shape[1]
    products = np.empty((len(queries), count), np.float32)
    whole, steps = _whole_numbers(queries)
    columns, totals = np.ascontiguousarray(whole.T), whole.sum(1)
    bits = np.empty((min(_BLOCK, count), numbers))
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        signs = packed[block] if rows is None else packed[rows[block]]
        # Of signs 2 t − 1. The long side first, which BLAS is quicker at.
        bits[: len(signs)] = np.unpackbits(signs, axis=1, count=numbers, bitorder="little")
        products[:, block] = ((2 * (bits[: len(signs)] @ columns) - totals) * steps).T
    return products


def _whole_numbers(queries: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Queries as whole numbers `[m, numbers]`, and the steps `[m]`, powers of two, that they are multiples of.

    >>> whole, steps = _whole_numbers(np.array([[0.75, -1.0]], np.float32))
    >>> (whole * steps[:, None]).tolist()
    [[0.75, -1.0]]
    """
    _, exponents = np.frexp(np.abs(queries).max(1, initial=0.0))
    steps = np.ldexp(1.0, exponents.astype(np.int64) - _BITS)
    return np.rint(queries / steps[:, None]), steps


def is_rounded(documents: int) -> bool:
    """Whether the first scan of this many documents rounds scores, so that the best are compared again."""
    return documents >= _MANY


def near_scores(packed: Packed, queries: Floats, rounded: bool, rows: Rows | None = None) -> Floats:
    """The scores of all signatures or of some rows; `rounded` ones differ a little, and are there sooner."""
    return rounded_scores(packed, queries, rows) if rounded else scores(packed, queries, rows)


def rounded_scores(packed: Packed, queries: Floats, rows: Rows | None = None) -> Floats:
    """`scores` of queries that are rounded to four levels: bit planes, ANDed with the signs and counted.

    With q ≈ a + b Σ_p 2^p q_p, where q_p are bits, Σ_i q_i s_i over signs s_i = 2 t_i − 1 follows from the counts of
    t AND q_p. Two planes are four levels: the scores correlate by .975 with the exact ones. Of 5,000 passages, the ten
    best are among the 80 best by two planes, and by three among 40.
    """
    rows = np.arange(len(packed)) if rows is None else rows
    numbers = queries.shape[1]
    words = -(-numbers // 64)
    most = 2**PLANES - 1
    step = np.maximum(_STEP * queries.std(1), np.float32(1e-30))
    low = queries.mean(1) - most / 2 * step
    levels = np.clip(np.rint((queries - low[:, None]) / step[:, None]), 0, most).astype(np.uint8)
    planes = np.stack([_words((levels >> plane) & 1, words) for plane in range(PLANES)], axis=1)
    ones = _words(np.ones((1, numbers), np.uint8), words)
    bits = np.concatenate((ones, planes.reshape(-1, words)))
    counts = np.empty((len(bits), len(rows)), np.int16)
    try:
        from attar.search.fast_scan import count_bits as count  # numba takes a second to load
    except ImportError:  # not installed
        count = count_bits
    count(_padded(packed, words), rows, bits, counts)
    positive, products = (
        2 * counts[0].astype(np.int32) - numbers,
        np.empty((len(queries), len(rows)), np.float32),
    )
    for at, total in enumerate(levels.sum(1, dtype=np.int64).tolist()):
        inner = counts[2 * at + 1] + 2 * counts[2 * at + 2].astype(np.int32)
        products[at] = float(step[at]) * (2 * inner - total) + float(low[at]) * positive
    return products


def _words(bits: NDArray[np.uint8], words: int) -> NDArray[np.uint64]:
    return _padded(np.packbits(bits, axis=1, bitorder="little"), words)


def _padded(packed: Packed, words: int) -> NDArray[np.uint64]:
    """Rows of bytes as rows of 64-bit words."""
    if packed.shape[1] != 8 * words or not packed.flags.c_contiguous:
        padded = np.zeros((len(packed), 8 * words), np.uint8)
        padded[:, : packed.shape[1]] = packed
        packed = padded
    return packed.view(np.uint64)


def count_bits(
    signs: NDArray[np.uint64], rows: Rows, bits: NDArray[np.uint64], counts: NDArray[np.int16]
) -> None:
    """Fill `counts [b, N]`: how many bits each row has in common with each of `bits [b, words]`."""
    for first in range(0, len(rows), _BLOCK):
        block = signs[rows[first : first + _BLOCK]]
        for at, mask in enumerate(bits):
            counts[at, first : first + _BLOCK] = np.bitwise_count(block & mask).sum(1, dtype=np.int16)


@dataclass(frozen=True)
class Moments:
    """The number of documents, the sum of their scores and of the squares, in whole units.

    >>> one, other = Moments.of(np.array([3], np.float32)), Moments.of(np.array([1], np.float32))
    >>> both = Moments.of(np.array([1, 3], np.float32))
    >>> (one + other == both, both - other == one)
    (True, True)
    """

    count: int
    total: int
    squares: int

    @classmethod
    def of(cls, scores: Floats) -> "Moments":
        units = np.rint(scores.astype(np.float64) * 2.0**_FRACTION).astype(np.int64)
        high, low = units >> _HALF, units & (2**_HALF - 1)
        sums = (int(np.dot(one, other)) for one, other in ((high, high), (high, low), (low, low)))
        return cls(len(scores), int(units.sum()), _squares(*sums))

    @classmethod
    def of_rows(cls, scores: "Tensor") -> "list[Moments]":
        """The moments of each row of scores `[Q, N]` on a device."""
        units = (scores.double() * 2.0**_FRACTION).round().long()
        high, low = units >> _HALF, units & (2**_HALF - 1)
        sums = units.sum(1), (high * high).sum(1), (high * low).sum(1), (low * low).sum(1)
        rows = zip(*(each.tolist() for each in sums), strict=True)
        return [cls(scores.shape[1], total, _squares(*squares)) for total, *squares in rows]

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    def __sub__(self, other: "Moments") -> "Moments":
        return Moments(self.count - other.count, self.total - other.total, self.squares - other.squares)

    def standardised(self, scores: Floats) -> Floats:
        """Scores with these moments' mean 0 and standard deviation 1; zeros where all are equal.

        >>> Moments.of(np.array([1, 3], np.float32)).standardised(np.array([1, 3, 9], np.float32)).tolist()
        [-1.0, 1.0, 7.0]
        """
        mean, deviation = self.standard
        result: Floats = (scores - mean) / deviation
        return result

    @property
    def standard(self) -> tuple[np.float32, np.float32]:
        """The mean and the standard deviation; infinite where all are equal."""
        variance = self.squares * self.count - self.total**2
        if not variance:
            return np.float32(0), np.float32(np.inf)
        unit = 2.0**_FRACTION * self.count
        return np.float32(self.total / unit), np.float32(math.sqrt(variance) / unit)


def _squares(of_high: int, of_both: int, of_low: int) -> int:
    """The sum of squares of numbers, from the products of their halves."""
    return (of_high << 2 * _HALF) + (of_both << _HALF + 1) + of_low


@dataclass(frozen=True)
class CorpusQuery:
    """A question or query, and the frequencies of its words in all documents."""

    text: str
    corpus: Corpus


@dataclass(frozen=True)
class Standards:
    """The moments of all documents' scores, which mixed scores are measured by.

    If the scan rounds, `signatures` are the moments of rounded scores. Documents whose mixed score with these is at
    least `least` are compared exactly; `exact` are the moments after that.
    """

    words: Moments
    signatures: Moments
    rounded: bool
    least: float | None = None
    exact: Moments | None = None

    def __add__(self, other: "Standards") -> "Standards":
        """The standards of two shards."""
        rounded = self.rounded or other.rounded
        return Standards(self.words + other.words, self.signatures + other.signatures, rounded)

    def mixed(self, words: Floats, signatures: Floats) -> Floats:
        """The mix of BM25 and signatures, some of which may be exact."""
        by_words: Floats = WORDS_WEIGHT * self.words.standardised(words)
        return by_words + SIGNATURE_WEIGHT * (self.exact or self.signatures).standardised(signatures)


@dataclass(frozen=True)
class Nearest:
    """The documents of a shard with the highest mixed scores: places among its rows, and scores by signatures."""

    places: NDArray[np.intp]
    mixed: Floats
    rounded: Floats
    exact: Floats


def refined(standards: Standards, nearest: Sequence[Nearest]) -> Standards:
    """The standards after the best documents of all shards are compared exactly."""
    highest = np.concatenate([shard.mixed for shard in nearest])
    count = min(CANDIDATES, len(highest))
    least = float(-np.partition(-highest, count - 1)[count - 1])
    exact = standards.signatures
    for shard in nearest:
        changed = shard.mixed >= least
        exact = exact - Moments.of(shard.rounded[changed]) + Moments.of(shard.exact[changed])
    return replace(standards, least=least, exact=exact)


class RankedDocument(NamedTuple):
    """A document that search found: its score, in standard deviations above the mean document, its key and name.

    `digest` is that of its text, by which copies are recognised; empty if it is not known. `tokens` is its length.
    """

    score: float
    key: bytes
    name: str
    digest: bytes = b""
    tokens: int = 0


def best_of(shards: Sequence[Iterable[RankedDocument]], count: int) -> list[RankedDocument]:
    """The best documents of all shards, best first; of those with the same score, the first by key."""
    documents = (document for shard in shards for document in shard)
    return sorted(documents, key=lambda document: (-document.score, document.key))[:count]


def rerank(
    scores: Sequence[float], matches: Sequence[float], phrases_weight: float = PHRASES_WEIGHT
) -> list[tuple[int, float]]:
    """Places and scores, best first: the first `len(matches)` are ranked again, the others stay after them.

    Matches are compared as a softmax: of a topic that no phrase answers, they differ by as much as of a question, but
    none stands out.

    >>> rerank([3.0, 2.0, 1.0], [0.0, math.log(3)])
    [(1, 6.5), (0, 4.5), (2, 1.0)]
    """
    highest = max(matches, default=0.0)
    shares = [math.exp(match - highest) for match in matches]
    weight = phrases_weight / sum(shares) if shares else 0.0
    again = [(at, scores[at] + weight * share) for at, share in enumerate(shares)]
    again.sort(key=lambda ranked: -ranked[1])
    lowest = again[-1][1] if again else 0.0
    return again + [(at, min(scores[at], lowest)) for at in range(len(matches), len(scores))]
