"""The six forms of a memory: the shape of each, and how a question reads it.

form        numbers         lookup                  what it is
triangle    [k(k+1)/2]      C q                     the lower triangle of C, row by row
rectangle   [k, d]          Cᵀ q                    keys × values: Σ (key · q) x
names       [count, k]      C q                     one vector a name, one score a name
states      [n, k]          Fᵀ (F q)                F itself, while it is fewer numbers than the triangle
hidden      [n, k]          Hᵀ softmax(H q)         every state
last        [k]             the state itself        whatever was asked
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

FORMS = ("triangle", "rectangle", "names", "states", "hidden", "last")
# The forms that the memories of a mechanism may have; the first is the one they are born with.
FORMS_OF = {
    "none": ("last",),
    "softmax": ("hidden",),
    "linear": ("triangle", "states"),
    "gated": ("triangle", "states"),
    "decayed": ("triangle",),
    "adaptive": ("triangle",),
    "keyed": ("rectangle",),
    "named": ("names",),
}
MECHANISMS = tuple(FORMS_OF)

# From so many queries on, unpacking C for one product costs less than a product each (k = 64 to 256).
UNPACK_FROM = 4


def shape_for(form: str, size: int, count: int) -> tuple[int, ...]:
    """The shape of a form's numbers for k = `size`; `count` is its other side, where it has one.

    >>> shape_for("triangle", 4, 0), shape_for("rectangle", 4, 7), shape_for("names", 4, 7)
    ((10,), (4, 7), (7, 4))
    """
    if form == "triangle":
        return (size * (size + 1) // 2,)
    if form == "last":
        return (size,)
    return (size, count) if form == "rectangle" else (count, size)


def count_in(form: str, shape: tuple[int, ...]) -> int:
    """The side of a form's numbers that is not k: names, tokens or the values' size; 0 where there is none."""
    if len(shape) < 2:
        return 0
    return shape[1] if form == "rectangle" else shape[0]


def stays_states(count: int, size: int) -> bool:
    """Whether so many states are fewer numbers than the triangle.

    >>> stays_states(50, 100), stays_states(51, 100)
    (True, False)
    """
    return 2 * count < size + 1


@lru_cache(maxsize=32)
def corners(k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The row and the column of each number of the triangle."""
    return np.tril_indices(k)


@lru_cache(maxsize=32)
def places(k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the triangle's numbers lie in the flat matrix, and where the matrix's lie in the triangle."""
    rows, columns = corners(k)
    side = np.arange(k)
    larger, smaller = np.maximum(side[:, None], side), np.minimum(side[:, None], side)
    return rows * k + columns, larger * (larger + 1) // 2 + smaller


def triangle_of(matrix: NDArray[Any]) -> Floats:
    """The lower triangle of a matrix `[k, k]`; what lies above the diagonal is not read.

    >>> triangle_of(np.array([[1.0, 9.0], [2.0, 5.0]])).tolist()
    [1.0, 2.0, 5.0]
    """
    return matrix.reshape(-1).take(places(len(matrix))[0]).astype(np.float32, copy=False)


def matrix_of(triangle: Floats, k: int) -> Floats:
    """The whole matrix `[k, k]` of a triangle.

    >>> matrix_of(np.array([1.0, 2.0, 5.0], np.float32), 2).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    return triangle.take(places(k)[1])


def look_up_triangle(C: Floats, queries: Floats) -> Floats:
    """C q from the packed bytes, by BLAS; many queries share one unpacked C."""
    m, k = queries.shape
    if m >= UNPACK_FROM:
        product: Floats = queries @ matrix_of(C, k)
        return product
    readouts, spmv = np.empty_like(queries), spmv_for(k)
    x, y = queries.reshape(-1), readouts.reshape(-1)
    for at in range(0, m * k, k):
        spmv(k, 1.0, C, x, 1, at, 0.0, y, 1, at, 0, 1)
    return readouts


@lru_cache(maxsize=32)
def spmv_for(k: int) -> Callable[..., Any]:
    """BLAS's product of a packed triangle and a vector, for float32 without gaps: it fills the readout."""
    # Here and not above: the room of mathematics brings torch, which a memory can be made and kept without.
    # And once a size: even a repeated import takes 0.4 µs, beside a product of 3.6 µs (k = 100).
    from attar.ops import KERNELS

    return KERNELS[np.dtype(np.float32)].spmv(k)


def look_up_hidden(H: Floats, queries: Floats) -> Floats:
    """The states averaged by softmax(H q); zeros where there are none."""
    if not len(H):
        return np.zeros_like(queries)
    scores: Floats = queries @ H.T
    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    readouts: Floats = scores @ H
    return readouts


def look_up_states(F: Floats, queries: Floats) -> Floats:
    """Fᵀ (F q), without FᵀF."""
    scores: Floats = queries @ F.T
    readouts: Floats = scores @ F
    return readouts


# Each takes the numbers in float32, and queries [m, k].
LOOKUPS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "triangle": look_up_triangle,
    "rectangle": lambda C, queries: queries @ C,
    "names": lambda C, queries: queries @ C.T,
    "states": look_up_states,
    "hidden": look_up_hidden,
    "last": lambda state, queries: np.tile(state, (len(queries), 1)),
}
