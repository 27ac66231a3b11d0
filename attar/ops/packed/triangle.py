"""A symmetric matrix to its packed triangle and back, and the triangle in int8; differentiable on any device.

In int8 a memory takes a quarter of the bytes: correlations, and one scale per row.

    C_ij ≈ s_i s_j Q_ij / 127        s_i = √C_ii

C is positive semi-definite, so |C_ij| ≤ s_i s_j: what is rounded is the correlation matrix, whose values fill [−1, 1]
however large each row is, and no C_ij is off by more than s_i s_j / 254.
"""

import functools
import math

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

from attar.errors import DtypeError, ShapeError
from attar.ops import checks

LEVELS = 127
# float16 is not among them: its scale would overflow at a C_ii of 4e9.
SCALE_DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def pack(memory: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch p"]:
    """The lower triangle of each memory, row by row; one that is not symmetric is refused.

    >>> pack(torch.tensor([[1.0, 2.0], [2.0, 5.0]])).tolist()
    [1.0, 2.0, 5.0]
    """
    checks.check_real("memory", memory)
    if memory.ndim < 2 or memory.shape[-1] != memory.shape[-2] or memory.shape[-1] == 0:
        raise ShapeError.expected("memory", "[..., k, k] with k ≥ 1", checks.shape_of(memory))
    checks.check_symmetric("memory", memory, "keep a memory of keys and values in full")
    lower, _ = _indices(memory.shape[-1], memory.device)
    # index_select takes 1.3 ns per value here; indexing with rows and columns takes 4.
    return memory.flatten(-2).index_select(-1, lower)


def unpack(packed: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch k k"]:
    """The whole symmetric matrix of each packed memory.

    >>> unpack(torch.tensor([1.0, 2.0, 5.0])).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    checks.check_real("packed", packed)
    if packed.ndim < 1:
        raise ShapeError.expected("packed", "[..., k(k+1)/2]", checks.shape_of(packed))
    k = _matrix_size(packed.shape[-1])
    _, whole = _indices(k, packed.device)
    return packed.index_select(-1, whole).view(*packed.shape[:-1], k, k)


def triangle_size(k: int) -> int:
    """The number of values in the triangle of a k × k matrix.

    >>> triangle_size(100)
    5050
    """
    return k * (k + 1) // 2


def _matrix_size(p: int, what: str = "packed") -> int:
    """The k whose triangle has p values.

    >>> _matrix_size(5050)
    100
    """
    k = (math.isqrt(8 * p + 1) - 1) // 2
    if k < 1 or triangle_size(k) != p:
        lower = triangle_size(max(k, 1))
        remedy = f"the nearest sizes are {lower} and {lower + max(k, 1) + 1}"
        raise ShapeError.expected(what, "k(k+1)/2 numbers", str(p), remedy)
    return k


def _indices(k: int, device: torch.device) -> tuple[Int[Tensor, " p"], Int[Tensor, " kk"]]:
    """The positions of the triangle's values in the flat matrix, and of the matrix's in the triangle."""
    # A compiler makes constants of its own: it cannot share tensors with eager code.
    return _make_indices(k, device) if torch.compiler.is_compiling() else _cached_indices(k, device)


@functools.lru_cache(maxsize=32)
def _cached_indices(k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    # Tensors made under inference_mode could not be used in a backward pass.
    with torch.inference_mode(False):
        return _make_indices(k, device)


def _make_indices(k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    rows, columns = torch.tril_indices(k, k, device=device).unbind()
    side = torch.arange(k, device=device)
    larger, smaller = torch.maximum(side[:, None], side), torch.minimum(side[:, None], side)
    return rows * k + columns, (larger * (larger + 1) // 2 + smaller).flatten()


def quantize(
    packed: Float[Tensor, "*batch p"], *, scale_dtype: torch.dtype = torch.float32
) -> tuple[Int8[Tensor, "*batch p"], Float[Tensor, "*batch k"]]:
    """The triangle of each memory in int8, and the scale of each of its rows.

    >>> values, scales = quantize(torch.tensor([4.0, 3.0, 9.0]))  # a correlation of 3 / (2 · 3)
    >>> values.tolist(), scales.tolist()
    ([127, 64, 127], [2.0, 3.0])
    """
    checks.check_real("packed", packed)
    if scale_dtype not in SCALE_DTYPES:
        raise DtypeError.expected("scale_dtype", " or ".join(map(str, SCALE_DTYPES)), str(scale_dtype))
    C = packed.detach().to(checks.accumulation_dtype(packed.dtype))
    scales = _row_scales(C, scale_dtype)
    unit = _level_size(scales.to(C.dtype))
    values = torch.where(unit > 0, C / unit, 0).round().clamp(-LEVELS, LEVELS)
    return values.to(torch.int8), scales


def dequantize(
    values: Int8[Tensor, "*batch p"], scales: Float[Tensor, "*batch k"], *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*batch p"]:
    """The packed memories of int8 values and their scales.

    >>> dequantize(torch.tensor([127, 0, 127], dtype=torch.int8), torch.tensor([2.0, 3.0])).tolist()
    [4.0, 0.0, 9.0]
    """
    checks.check_real("scales", scales)
    if values.dtype != torch.int8:
        raise DtypeError.expected("values", "int8", str(values.dtype))
    checks.check_shape("scales", scales, (*values.shape[:-1], _matrix_size(values.shape[-1], "values")))
    checks.check_device("scales", scales, values)
    summed = torch.promote_types(checks.accumulation_dtype(scales.dtype), checks.accumulation_dtype(dtype))
    return (values * _level_size(scales.to(summed))).to(dtype)


def _row_scales(C: Float[Tensor, "*batch p"], dtype: torch.dtype) -> Float[Tensor, "*batch k"]:
    """√C_ii, in the dtype that scales are stored in: rounded before anything is divided by them.

    Where some |C_ij| > s_i s_j, the matrix is not positive semi-definite. Both rows then take √max_j |C_ij|,
    with which the bound holds for any symmetric matrix.
    """
    matrix = unpack(C).abs()
    scales = _round_up(matrix.diagonal(dim1=-2, dim2=-1).sqrt(), dtype)
    s = scales.to(C.dtype)
    # 127.5 is still within half a level of 127: room for the rounding of C itself.
    beyond = LEVELS * matrix > (LEVELS + 0.5) * s[..., :, None] * s[..., None, :]
    return torch.where(beyond.any(-1), _round_up(matrix.amax(-1).sqrt(), dtype), scales)


def _round_up(numbers: Float[Tensor, "*batch k"], dtype: torch.dtype) -> Float[Tensor, "*batch k"]:
    """Numbers ≥ 0 in another dtype, none smaller than before: a scale too small would clip what it scales.

    >>> _round_up(torch.tensor([1.0, 1.001]), torch.bfloat16).tolist()
    [1.0, 1.0078125]
    """
    nearest = numbers.to(dtype)
    above = (numbers * (1 + torch.finfo(dtype).eps / 2)).to(dtype)
    return torch.where(nearest.to(numbers.dtype) < numbers, above, nearest)


def _level_size(scales: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch p"]:
    """s_i s_j / 127, the value of one level of each packed number."""
    k = scales.shape[-1]
    rows, columns = torch.tril_indices(k, k, device=scales.device).unbind()
    return scales.index_select(-1, rows) * scales.index_select(-1, columns) / LEVELS
