"""The types of number a memory is kept in: float32 to reckon with, float16 and int8 to store.

int8, triangle      C_ij ≈ s_i s_j Q_ij / 127       `attar.ops.packed` says why
int8, other forms   x_ij ≈ s_i Q_ij / 127           s_i the largest |x_ij| of row i
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.memory.forms import Floats, corners

# In the order of their codes in bytes.
PRECISIONS = ("float32", "float16", "int8")
LEVELS = 127


def scale_count(form: str, size: int, shape: tuple[int, ...]) -> int:
    """How many scales a form has in int8: one a row; the last state is one row."""
    if form == "triangle":
        return size
    return shape[0] if len(shape) == 2 else 1


def widened(form: str, numbers: NDArray[Any], scales: Floats | None) -> Floats:
    """The numbers in float32: themselves where they are that.

    >>> widened("last", np.array([127, -127], np.int8), np.array([3.0], np.float32)).tolist()
    [3.0, -3.0]
    """
    if scales is None:
        return numbers.astype(np.float32, copy=False)
    if form == "triangle":
        rows, columns = corners(len(scales))
        unit = scales[rows] * scales[columns]
    else:
        unit = scales[:, None] if numbers.ndim == 2 else scales
    wide: Floats = numbers * (unit / np.float32(LEVELS))
    return wide


def narrowed(form: str, numbers: Floats, precision: str) -> tuple[NDArray[Any], Floats | None]:
    """The numbers in another type, and their scales where that is int8."""
    if precision == "float32":
        return numbers, None
    if precision == "float16":
        largest = float(np.abs(numbers).max(initial=0.0))
        if largest > float(np.finfo(np.float16).max):
            remedy = "int8 takes numbers of any size"
            raise OptionError("float16", "numbers up to 65504", f"{largest:.4g}", remedy)
        return numbers.astype(np.float16), None
    if precision == "int8":
        return quantized_triangle(numbers) if form == "triangle" else quantized_rows(numbers)
    raise OptionError("type of number", "one of " + ", ".join(PRECISIONS), repr(precision))


def quantized_triangle(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """A triangle as int8 correlations, and one scale a row."""
    import torch

    from attar.ops import quantize

    # A copy: torch warns of memory that may not be written, and numbers of a store may not.
    values, scales = quantize(torch.from_numpy(numbers.copy()))
    return values.numpy(), scales.numpy()


def quantized_rows(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows as int8, each as fine as its own largest number allows.

    >>> [array.tolist() for array in quantized_rows(np.array([[4.0, -2.0], [0.0, 0.0]], np.float32))]
    [[[127, -64], [0, 0]], [4.0, 0.0]]
    """
    scales = np.abs(numbers).max(-1, keepdims=True, initial=0.0)
    levels = np.divide(numbers, scales, out=np.zeros_like(numbers), where=scales > 0) * LEVELS
    return np.rint(levels).astype(np.int8), scales.reshape(-1)
