"""Scores in standard deviations over documents that may lie in several shards.

Sums are of whole numbers and thus exact: they do not depend on the order of documents, nor on how these are split.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.search.state_map import Floats

# Scores are rounded to 2^-16 for their sums; halves of 14 bits: a million of their squares fit into int64.
_FRACTION, _HALF = 16, 14


@dataclass(frozen=True)
class Moments:
    """The number of documents, the sum of their scores and of the squares, in whole units; those of shards add up.

    >>> Moments.of(np.array([1, 3], np.float32)) == Moments.of(np.array([3], np.float32)) + Moments.of(
    ...     np.array([1], np.float32)
    ... )
    True
    """

    count: int
    total: int
    squares: int

    @classmethod
    def of(cls, scores: Floats) -> "Moments":
        """The moments of scores."""
        units = np.rint(scores.astype(np.float64) * 2.0**_FRACTION).astype(np.int64)
        high, low = units >> _HALF, units & (2**_HALF - 1)
        parts = (int(np.dot(a, b)) for a, b in ((high, high), (high, low), (low, low)))
        squares = sum(part << shift for part, shift in zip(parts, (2 * _HALF, _HALF + 1, 0), strict=True))
        return cls(len(scores), int(units.sum()), squares)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    def standardised(self, scores: Floats) -> Floats:
        """Scores with these moments' mean 0 and standard deviation 1; zeros where all are equal.

        >>> Moments.of(np.array([1, 3], np.float32)).standardised(np.array([1, 3, 9], np.float32)).tolist()
        [-1.0, 1.0, 7.0]
        """
        variance = self.squares * self.count - self.total**2
        if not variance:
            return np.zeros_like(scores)
        unit = 2.0**_FRACTION * self.count
        mean, deviation = np.float32(self.total / unit), np.float32(math.sqrt(variance) / unit)
        result: Floats = (scores - mean) / deviation
        return result


def standardised(scores: Floats, live: NDArray[Any]) -> Floats:
    """Scores with mean 0 and standard deviation 1 over the live documents.

    >>> standardised(np.array([1, 3, 9], np.float32), np.array([True, True, False])).tolist()
    [-1.0, 1.0, 7.0]
    """
    return Moments.of(scores[live]).standardised(scores)
