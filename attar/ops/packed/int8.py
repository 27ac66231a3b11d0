"""Packed memories in a quarter of the bytes: int8 correlations and one scale a row.

    C_ij ≈ s_i s_j Q_ij / 127        s_i = √C_ii

C is positive semi-definite, so |C_ij| ≤ s_i s_j: what is rounded is the correlation matrix, whose numbers
fill [−1, 1] whatever the size of each row, and no C_ij is off by more than s_i s_j / 254.
"""

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from attar.errors import DtypeError, ShapeError
from attar.ops.checks import accumulation_dtype, check_device, shape_of
from attar.ops.packed.triangle import check_real, corners, side_of, unpack

LEVELS = 127
# float16 is not among them: its scale would overflow at a C_ii of 4e9.
SCALE_DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def quantize(
    packed: Float[Tensor, "*batch p"], *, scale_dtype: torch.dtype = torch.float32
) -> tuple[Int8[Tensor, "*batch p"], Float[Tensor, "*batch k"]]:
    """The triangle of each memory in int8, and the scale of each of its rows.

    >>> values, scales = quantize(torch.tensor([4.0, 3.0, 9.0]))  # a correlation of 3 / (2 · 3)
    >>> values.tolist(), scales.tolist()
    ([127, 64, 127], [2.0, 3.0])
    """
    check_real("packed", packed)
    if scale_dtype not in SCALE_DTYPES:
        raise DtypeError("scale_dtype", " or ".join(map(str, SCALE_DTYPES)), str(scale_dtype))
    C = packed.detach().to(accumulation_dtype(packed.dtype))
    scales = scales_of(C, scale_dtype)
    unit = unit_of(scales.to(C.dtype))
    values = torch.where(unit > 0, C / unit, 0).round().clamp(-LEVELS, LEVELS)
    return values.to(torch.int8), scales


def dequantize(
    values: Int8[Tensor, "*batch p"],
    scales: Float[Tensor, "*batch k"],
    *,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*batch p"]:
    """The packed memories that int8 values and their scales stand for.

    >>> dequantize(torch.tensor([127, 0, 127], dtype=torch.int8), torch.tensor([2.0, 3.0])).tolist()
    [4.0, 0.0, 9.0]
    """
    check_real("scales", scales)
    if values.dtype != torch.int8:
        raise DtypeError("values", "int8", str(values.dtype))
    wanted = (*values.shape[:-1], side_of(values.shape[-1], "values"))
    if tuple(scales.shape) != wanted:
        raise ShapeError("scales", str(list(wanted)), shape_of(scales))
    check_device("scales", scales, values)
    summed = torch.promote_types(accumulation_dtype(scales.dtype), accumulation_dtype(dtype))
    return (values * unit_of(scales.to(summed))).to(dtype)


def scales_of(C: Float[Tensor, "*batch p"], dtype: torch.dtype) -> Float[Tensor, "*batch k"]:
    """√C_ii, in the type that scales are stored in: rounded before anything is divided by them.

    Where some |C_ij| > s_i s_j, the matrix is not positive semi-definite. Both rows then take √max_j |C_ij|,
    with which the bound holds for any symmetric matrix.
    """
    matrix = unpack(C).abs()
    scales = round_up(matrix.diagonal(dim1=-2, dim2=-1).sqrt(), dtype)
    s = scales.to(C.dtype)
    # 127.5 is still within half a level of 127: room for the rounding of C itself.
    beyond = LEVELS * matrix > (LEVELS + 0.5) * s[..., :, None] * s[..., None, :]
    return torch.where(beyond.any(-1), round_up(matrix.amax(-1).sqrt(), dtype), scales)


def round_up(numbers: Float[Tensor, "*batch k"], dtype: torch.dtype) -> Float[Tensor, "*batch k"]:
    """Numbers ≥ 0 in another type, none smaller than it was: a scale too small would cut what it scales.

    >>> round_up(torch.tensor([1.0, 1.001]), torch.bfloat16).tolist()
    [1.0, 1.0078125]
    """
    nearest = numbers.to(dtype)
    above = (numbers * (1 + torch.finfo(dtype).eps / 2)).to(dtype)
    return torch.where(nearest.to(numbers.dtype) < numbers, above, nearest)


def unit_of(scales: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch p"]:
    """s_i s_j / 127, what one level of each packed number is worth."""
    rows, columns = corners(scales.shape[-1], scales.device)
    return scales.index_select(-1, rows) * scales.index_select(-1, columns) / LEVELS
