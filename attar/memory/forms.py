"""The eight forms of a memory: the shape of each, how a query reads it, and its precisions.

form        numbers         lookup                  contents
triangle    [k(k+1)/2]      C q                     the lower triangle of C, row by row
rectangle   [k, d]          Cᵀ q                    keys × values: Σ (key · q) x
names       [count, k]      C q                     one vector per name, one score per name
states      [n, k]          Fᵀ (F q)                F itself, while it is smaller than the triangle
hidden      [n, k]          Hᵀ softmax(H q)         every hidden state
last        [k]             the state itself        independent of the query
phrases     [count, k]      C q                     one vector per phrase, one score per phrase
ridge       [k, d + k]      Cᵀ (G + λI)⁻¹ q         C = Σ key valueᵀ of phrases, next to G = Σ key keyᵀ

Memories are computed in float32, and stored in float32, float16 or int8. With one scale s_i per row:

int8, triangle      C_ij ≈ s_i s_j Q_ij / 127       see `attar.ops.quantize`
int8, other forms   x_ij ≈ s_i Q_ij / 127           s_i is the largest |x_ij| of row i
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError

Floats = NDArray[np.float32]

# The position in these tuples is the code in a record: see `attar.memory.record`.
FORMS = ("triangle", "rectangle", "names", "states", "hidden", "last", "phrases", "ridge")
PRECISIONS = ("float32", "float16", "int8")
# The forms that the memories of a mechanism may have. The first is the one that encoding produces.
FORMS_OF = {
    "none": ("last",),
    "softmax": ("hidden",),
    "linear": ("triangle", "states"),
    "gated": ("triangle", "states"),
    "decayed": ("triangle",),
    "adaptive": ("triangle",),
    "keyed": ("rectangle",),
    "named": ("names",),
    "phrases": ("phrases",),
    "ridge": ("ridge",),
}
MECHANISMS = tuple(FORMS_OF)

# With at least this many queries, unpacking C for one product is faster than one product each (k = 64 to 256).
UNPACK_FROM = 4
LEVELS = 127
# Forms that come with an index of phrases.
INDEXED = ("phrases", "ridge")
# λ of the ridge, compared with the mean of G's diagonal.
RIDGE = 0.1


def shape_for(form: str, size: int, count: int) -> tuple[int, ...]:
    """The shape of a form's numbers for k = `size`; `count` is the other dimension, if it has one.

    >>> shape_for("triangle", 4, 0), shape_for("rectangle", 4, 7), shape_for("names", 4, 7)
    ((10,), (4, 7), (7, 4))
    """
    if form == "triangle":
        return (size * (size + 1) // 2,)
    if form == "last":
        return (size,)
    return (size, count) if form in ("rectangle", "ridge") else (count, size)


def count_in(form: str, shape: tuple[int, ...]) -> int:
    """The dimension that is not k: names, tokens or the values' size; 0 if there is none."""
    if len(shape) < 2:
        return 0
    return shape[1] if form in ("rectangle", "ridge") else shape[0]


def states_are_smaller(count: int, size: int) -> bool:
    """Whether `count` states of `size` numbers take less space than the triangle.

    >>> states_are_smaller(50, 100), states_are_smaller(51, 100)
    (True, False)
    """
    return 2 * count < size + 1


def pad_rows(rows: Floats, count: int) -> Floats:
    """A copy of the rows `[r, k]`, padded with rows of zeros to at least `count`."""
    padded = np.zeros((max(count, len(rows)), rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    return padded


@lru_cache(maxsize=32)
def _indices(k: int) -> tuple[NDArray[np.intp], ...]:
    """Row, column and flat index of each number of the triangle; the index in the triangle of each of the matrix."""
    rows, columns = np.tril_indices(k)
    index = np.arange(k)
    larger, smaller = np.maximum(index[:, None], index), np.minimum(index[:, None], index)
    return rows, columns, rows * k + columns, larger * (larger + 1) // 2 + smaller


def triangle_of(matrix: NDArray[Any]) -> Floats:
    """The lower triangle of a matrix `[k, k]`; the part above the diagonal is not read.

    >>> triangle_of(np.array([[1.0, 9.0], [2.0, 5.0]])).tolist()
    [1.0, 2.0, 5.0]
    """
    return matrix.reshape(-1).take(_indices(len(matrix))[2]).astype(np.float32, copy=False)


def matrix_of(triangle: Floats, k: int) -> Floats:
    """The full matrix `[k, k]` of a triangle.

    >>> matrix_of(np.array([1.0, 2.0, 5.0], np.float32), 2).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    return triangle.take(_indices(k)[3])


def look_up(form: str, numbers: NDArray[Any], scales: Floats | None, queries: Floats) -> Floats:
    """The readout of each query `[m, k]`."""
    if form == "triangle" and scales is not None:
        # C = S Q S / 127: scaling the query and the readout takes 2 k products, scaling the triangle k².
        readouts = _look_up_triangle(numbers.astype(np.float32), queries * scales)
        return readouts * (scales / np.float32(LEVELS))
    return _LOOKUPS[form](to_float32(form, numbers, scales), queries)


def _look_up_triangle(C: Floats, queries: Floats) -> Floats:
    """C q by BLAS, from the packed triangle; many queries share one unpacked C."""
    m, k = queries.shape
    if m >= UNPACK_FROM:
        product: Floats = queries @ matrix_of(C, k)
        return product
    readouts, spmv = np.empty_like(queries), _spmv()
    x, y = queries.reshape(-1), readouts.reshape(-1)
    for at in range(0, m * k, k):
        spmv(k, 1.0, C, x, 1, at, 0.0, y, 1, at, 0, 1)
    return readouts


@cache
def _spmv() -> Callable[..., Any]:
    """BLAS's product of a packed float32 triangle and a vector; it writes into the readout."""
    # Imported here, as this module needs no torch; and cached, as a repeated import takes 0.4 µs of a product's
    # 3.6 µs (k = 100).
    from attar.ops.packed.products import KERNELS

    return KERNELS[np.dtype(np.float32)].spmv


def look_up_hidden(H: Floats, queries: Floats) -> Floats:
    """The hidden states `[n, k]` averaged by softmax(H q), per query `[m, k]`; zeros if there are none."""
    if not len(H):
        return np.zeros_like(queries)
    scores: Floats = queries @ H.T
    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    readouts: Floats = scores @ H
    return readouts


def look_up_ridge(both: Floats, queries: Floats) -> Floats:
    """Cᵀ (G + λI)⁻¹ q per query `[m, k]`, of C `[k, d]` next to G `[k, k]`; zeros if nothing was written.

    >>> look_up_ridge(np.array([[3.0, 0.9, 0.0], [5.0, 0.0, 0.9]], np.float32), np.eye(2, dtype=np.float32)).round(2)
    array([[3.03],
           [5.05]], dtype=float32)
    """
    k = len(both)
    C, G = both[:, :-k].astype(np.float64), both[:, -k:].astype(np.float64)
    ridge = RIDGE * np.trace(G) / k
    if ridge <= 0:
        return np.zeros((len(queries), C.shape[1]), np.float32)
    readouts: Floats = (queries @ np.linalg.solve(G + ridge * np.eye(k), C)).astype(np.float32)
    return readouts


# Each takes the numbers in float32, and queries [m, k].
_LOOKUPS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "triangle": _look_up_triangle,
    "rectangle": lambda C, queries: queries @ C,
    "names": lambda C, queries: queries @ C.T,
    "phrases": lambda C, queries: queries @ C.T,
    "ridge": look_up_ridge,
    "states": lambda F, queries: np.matmul(queries @ F.T, F),
    "hidden": look_up_hidden,
    "last": lambda state, queries: np.tile(state, (len(queries), 1)),
}


def scale_count(form: str, size: int, shape: tuple[int, ...]) -> int:
    """How many scales a form has in int8: one per row; the last state is one row."""
    if form == "triangle":
        return size
    return shape[0] if len(shape) == 2 else 1


def to_float32(form: str, numbers: NDArray[Any], scales: Floats | None) -> Floats:
    """The numbers in float32, not copied if they are float32 already.

    >>> to_float32("last", np.array([127, -127], np.int8), np.array([3.0], np.float32)).tolist()
    [3.0, -3.0]
    """
    if scales is None:
        return numbers.astype(np.float32, copy=False)
    if form == "triangle":
        rows, columns, *_ = _indices(len(scales))
        unit = scales[rows] * scales[columns]
    else:
        unit = scales[:, None] if numbers.ndim == 2 else scales
    dequantized: Floats = numbers * (unit / np.float32(LEVELS))
    return dequantized


def to_precision(form: str, numbers: Floats, precision: str) -> tuple[NDArray[Any], Floats | None]:
    """The float32 numbers in a precision, and their scales if it is int8."""
    if precision == "float32":
        return numbers, None
    if precision == "float16":
        largest = float(np.abs(numbers).max(initial=0.0))
        if largest > float(np.finfo(np.float16).max):
            remedy = "use int8, which takes numbers of any size"
            raise OptionError.expected("float16", "numbers up to 65504", f"{largest:.4g}", remedy)
        return numbers.astype(np.float16), None
    if precision == "int8":
        return _quantize_triangle(numbers) if form == "triangle" else _quantize_rows(numbers)
    raise OptionError.expected("dtype", "one of " + ", ".join(PRECISIONS), repr(precision))


def _quantize_triangle(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """A triangle in int8, and one scale per row."""
    import torch

    from attar.ops.packed.triangle import quantize

    # Copied because torch warns about arrays that cannot be written, as those of a store.
    values, scales = quantize(torch.from_numpy(numbers.copy()))
    return values.numpy(), scales.numpy()


def _quantize_rows(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows in int8, each scaled by its own largest number.

    >>> [array.tolist() for array in _quantize_rows(np.array([[4.0, -2.0], [0.0, 0.0]], np.float32))]
    [[[127, -64], [0, 0]], [4.0, 0.0]]
    """
    scales = np.abs(numbers).max(-1, keepdims=True, initial=0.0)
    levels = np.divide(numbers, scales, out=np.zeros_like(numbers), where=scales > 0) * LEVELS
    return np.rint(levels).astype(np.int8), scales.reshape(-1)
