"""The two forms of a memory: the shape of its numbers, how a query reads it, and int8.

form        numbers         lookup                  contents
phrases     [count, k]      C q                     one vector per phrase, one score per phrase
ridge       [k, d + k]      Cᵀ (G + λI)⁻¹ q         C = Σ key valueᵀ of phrases, next to G = Σ key keyᵀ

Numbers are kept in int8 with one scale per row, its largest |x_ij|: x_ij ≈ scale_i Q_ij / 127.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Form = Literal["phrases", "ridge"]

# The position is the code in a record.
FORMS: tuple[Form, ...] = ("phrases", "ridge")
# The largest |Q_ij|.
_LEVELS = 127
# λ of the ridge, compared with the mean of G's diagonal.
RIDGE = 0.1


def quantize(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows in int8, and their scales.

    >>> [array.tolist() for array in quantize(np.array([[4.0, -2.0], [0.0, 0.0]], np.float32))]
    [[[127, -64], [0, 0]], [4.0, 0.0]]
    """
    scales = np.abs(numbers).max(-1, keepdims=True, initial=0.0)
    levels = np.divide(numbers, scales, out=np.zeros_like(numbers), where=scales > 0) * _LEVELS
    return np.rint(levels).astype(np.int8), scales.reshape(-1)


def dequantize(numbers: NDArray[np.int8], scales: Floats) -> Floats:
    """Rows in float32.

    >>> dequantize(np.array([[127, -127]], np.int8), np.array([3.0], np.float32)).tolist()
    [[3.0, -3.0]]
    """
    floats: Floats = numbers * (scales[:, None] / np.float32(_LEVELS))
    return floats


def solve_ridge(sums: Floats) -> NDArray[np.float64]:
    """(G + λI)⁻¹ C `[k, d]`, of C `[k, d]` next to G `[k, k]`; zeros if nothing was written.

    >>> solve_ridge(np.array([[3.0, 0.9, 0.0], [5.0, 0.0, 0.9]], np.float32)).round(2)
    array([[3.03],
           [5.05]])
    """
    k = len(sums)
    C, G = sums[:, :-k].astype(np.float64), sums[:, -k:].astype(np.float64)
    ridge = RIDGE * np.trace(G) / k
    if ridge <= 0:
        return np.zeros_like(C)
    solved: NDArray[np.float64] = np.linalg.solve(G + ridge * np.eye(k), C)
    return solved
