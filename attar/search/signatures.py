"""Signatures: a document's token states as one vector of fixed size, to rank documents by.

    y_t = f(h_t)                     a learned map of the token's state, if the reader has one (`StateMap`)
    x_t = Λ^-½ Pᵀ (y_t / |y_t| − μ)  unit length, centred, projected to k dimensions of equal variance
    C   = Σ_t w_t x_t x_tᵀ           w_t the weight (IDF^1.5) of the word piece: a memory, as in the paper
    S   = C^½ / |C^½|                matrix root: a few strong directions do not outweigh all others
    score(document, query) = ⟨S, S'⟩

C is symmetric, so its triangle counts, k (k + 1) / 2 numbers. Of a document only their signs are kept, and compared
with a query in float. Sums C add and subtract exactly (up to float32's rounding); signatures do not, because of the
root.
"""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError, ShapeError
from attar.search.statistics import Projection, unit_points

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


# The rows of a signature's matrix, k, unless a library chooses others: 1,032 bytes.
DEFAULT_SIZE = 128
# A document of more tokens keeps its sums, so that appending and merging need not read it again: C takes 33 kB.
LONG_DOCUMENT = 2_048


def triangle_numbers(size: int) -> int:
    """The numbers of a triangle of `size` rows."""
    return size * (size + 1) // 2


def signature_bytes(size: int) -> int:
    """The bytes of a signature of `size` rows: a bit per number.

    >>> signature_bytes(128)
    1032
    """
    return -(-triangle_numbers(size) // 8)


@dataclass(frozen=True, eq=False)
class Sums:
    """What a document adds up to, before the root is taken: sums of two documents are added, or subtracted again.

    `triangle` is C, `total` Σ unit states; drift is measured by `kept` / `whole`, Σ |x_t|² within the k directions
    over that in all of them, or with a map k per token over Σ |x_t|². `pieces` and `counts` are the word pieces and
    how often each occurs.
    """

    triangle: Floats
    total: Floats
    kept: float
    whole: float
    tokens: int
    pieces: NDArray[np.uint16]
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls, projection: Projection) -> "Sums":
        """The sums of no tokens."""
        k, d = projection.size, len(projection.mean)
        pieces, counts = np.zeros(0, np.uint16), np.zeros(0, np.int64)
        triangle, total = np.zeros(triangle_numbers(k), np.float32), np.zeros(d, np.float32)
        return cls(triangle, total, 0.0, 0.0, 0, pieces, counts)

    @classmethod
    def of(cls, ids: NDArray[np.int64], states: Floats, projection: Projection) -> "Sums":
        """The sums of tokens: word pieces `[n]` and their states `[n, d]`."""
        unit = unit_points(ids, states, projection)
        centred = unit - projection.mean
        with one_thread():
            points = centred @ projection.directions
            weighted = points * projection.scales * np.sqrt(projection.weights[ids])[:, None]
            product = weighted.T @ weighted
        pieces, counts = np.unique(ids, return_counts=True)
        kept, whole = float(np.square(points).sum()), float(np.square(centred).sum())
        if projection.map is not None:
            # A map leaves only directions that are kept. What the statistics were fitted to has k per token.
            kept, whole = (
                float(projection.size * len(ids)),
                float(np.square(points * projection.scales).sum()),
            )
        return cls(
            product[triangle_of(projection.size)].astype(np.float32),
            unit.sum(0),
            kept,
            whole,
            len(ids),
            pieces.astype(np.uint16),
            counts.astype(np.int64),
        )

    def __add__(self, other: "Sums") -> "Sums":
        return self._combined(other, 1)

    def __sub__(self, other: "Sums") -> "Sums":
        return self._combined(other, -1)

    def _combined(self, other: "Sums", sign: int) -> "Sums":
        if len(self.triangle) != len(other.triangle) or len(self.total) != len(other.total):
            expected, got = (f"{len(sums.triangle)} numbers" for sums in (self, other))
            raise ShapeError.expected("sums", expected, got)
        pieces, where = np.unique(np.concatenate((self.pieces, other.pieces)), return_inverse=True)
        counts = np.zeros(len(pieces), np.int64)
        np.add.at(counts, where, np.concatenate((self.counts, sign * other.counts)))
        nonzero = counts != 0
        with np.errstate(over="ignore", invalid="ignore"):
            triangle = self.triangle + np.float32(sign) * other.triangle
            total = self.total + np.float32(sign) * other.total
        if not (np.isfinite(triangle).all() and np.isfinite(total).all()):
            raise RecordError("the sums of a signature are too large to add: no real text has them")
        return Sums(
            triangle,
            total,
            self.kept + sign * other.kept,
            self.whole + sign * other.whole,
            self.tokens + sign * other.tokens,
            pieces[nonzero],
            counts[nonzero],
        )

    def signature(self) -> Floats:
        """The root of C with Frobenius norm 1, as a triangle; zeros for no tokens."""
        return root_of(self.triangle)


@cache
def triangle_of(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a triangle's numbers."""
    rows, columns = np.triu_indices(size)
    return rows, columns


@cache
def _repeats(size: int) -> Floats:
    """How often a matrix holds each number of its triangle: once on the diagonal, else twice."""
    rows, columns = triangle_of(size)
    return np.where(rows == columns, 1.0, 2.0).astype(np.float32)


def root_of(triangle: Floats) -> Floats:
    """The root of a positive semi-definite matrix, with Frobenius norm 1; matrix and root as triangles.

    >>> root_of(np.array([16, 0, 9], np.float32)).tolist()
    [0.800000011920929, 0.0, 0.6000000238418579]
    """
    size = size_of(len(triangle))
    where = triangle_of(size)
    matrix = np.zeros((size, size), np.float32)
    # Its size does not count, and the largest numbers would overflow.
    matrix[where] = triangle / max(float(np.abs(triangle).max()), 1e-30)
    with one_thread():
        # Only the upper triangle is read.
        values, vectors = np.linalg.eigh(matrix, UPLO="U")
        values = np.sqrt(np.maximum(values, 0.0))
        norm = float(np.sqrt(np.square(values).sum()))
        root: Floats = ((vectors * (values / max(norm, 1e-12))) @ vectors.T)[where].astype(np.float32)
    return root


def size_of(numbers: int) -> int:
    """k of a triangle of k (k + 1) / 2 numbers."""
    size = int((np.sqrt(8 * numbers + 1) - 1) // 2)
    if triangle_numbers(size) != numbers or not numbers:
        raise ShapeError.expected("triangle", "k (k + 1) / 2 numbers", str(numbers))
    return size


def query_of(signature: Floats) -> Floats:
    """A query: a vector whose product with a signature is that of their matrices, so that any vector index fits."""
    query: Floats = signature * _repeats(size_of(signature.shape[-1]))
    return query


def pack(signatures: Floats) -> NDArray[np.uint8]:
    """The signs of signatures `[..., numbers]`, eight per byte, the lowest bit first.

    >>> pack(np.array([[0.5, -0.5, 0.25]], np.float32)).tolist()
    [[5]]
    """
    return np.packbits(signatures > 0, axis=-1, bitorder="little")
