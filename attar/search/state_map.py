"""A learned map of token states: points by which texts are told apart, of states that were made for answering.

It is learned once per reader, from questions and the passages that answer them (`python -m benchmarks.train_search`),
and kept with the statistics of search.
"""

import math
from contextlib import AbstractContextManager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Floats = NDArray[np.float32]


class StateMap:
    """Token states `[n, d]` to points `[n, m]` that tell texts apart better: A u + C relu(B u), u = √d h / |h|.

    A reader's own states are made for answering. Weights have a column for a constant 1, the bias.

    >>> bent = StateMap(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]]), np.array([[-1.0]]))
    >>> [f"{point:.2f}" for point in bent(np.array([[2.0, 0.0], [0.0, 2.0]], np.float32))[:, 0]]
    ['1.41', '-1.41']
    """

    def __init__(self, linear: NDArray[Any], hidden: NDArray[Any], out: NDArray[Any]) -> None:
        # Kept in float16, so that what is computed is what is saved.
        self.weights: tuple[Floats, ...] = tuple(
            weights.astype(np.float16).astype(np.float32) for weights in (linear, hidden, out)
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """d, the numbers of the hidden layer, and m."""
        linear, hidden, _ = self.weights
        return linear.shape[1] - 1, len(hidden), len(linear)

    def __call__(self, states: Floats) -> Floats:
        linear, hidden, out = self.weights
        scaled: Floats = unit_rows(np.asarray(states, np.float32)) * np.float32(math.sqrt(states.shape[1]))
        with one_thread():
            inner: Floats = np.maximum(scaled @ hidden[:, :-1].T + hidden[:, -1], np.float32(0))
            points: Floats = scaled @ linear[:, :-1].T + linear[:, -1] + inner @ out.T
        return points

    @cached_property
    def data(self) -> bytes:
        return b"".join(weights.astype("<f2").tobytes() for weights in self.weights)

    @classmethod
    def from_bytes(cls, data: bytes, sizes: tuple[int, int, int]) -> "StateMap":
        """Read the weights of a map of these sizes; ValueError if they are of others, or not finite."""
        d, h, m = sizes
        shapes = ((m, d + 1), (h, d + 1), (m, h))
        numbers = np.frombuffer(data, "<f2")
        if len(numbers) != sum(rows * columns for rows, columns in shapes) or not np.isfinite(numbers).all():
            raise ValueError("a map of other sizes, or of numbers that are not finite")
        first, second = m * (d + 1), (m + h) * (d + 1)
        parts = zip((numbers[:first], numbers[first:second], numbers[second:]), shapes, strict=True)
        return cls(*(part.reshape(shape) for part, shape in parts))


def unit_rows(states: Floats) -> Floats:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(states, axis=-1, keepdims=True)
    rows: Floats = states / np.maximum(lengths, 1e-12)
    return rows


@cache
def _libraries() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController  # a list of documents needs none

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Let numpy compute with one thread: with several it rounds in another way, and signs near zero would differ.

    A signature must have the same bytes wherever a document is read.
    """
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited
