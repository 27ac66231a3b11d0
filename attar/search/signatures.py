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

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError, ShapeError
from attar.search.state_map import Floats, one_thread
from attar.search.statistics import Projection, unit_points

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
