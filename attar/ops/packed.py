"""Symmetric memories as their lower triangle, row by row: C_ij at i(i+1)/2 + j for j ≤ i, BLAS's own packed type.

Packing, unpacking and int8 differentiate on any device. Lookups and updates run on the CPU, in place, on numpy arrays
or torch tensors.

In int8 a memory takes a quarter of the bytes: correlations, and one scale per row.

    C_ij ≈ s_i s_j Q_ij / 127        s_i = √C_ii

C is positive semi-definite, so |C_ij| ≤ s_i s_j: what is rounded is the correlation matrix, whose values fill [−1, 1]
however large each row is, and no C_ij is off by more than s_i s_j / 254.
"""

import functools
import importlib
import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

from attar.errors import DeviceError, DtypeError, OptionError, ShapeError
from attar.ops import checks

LEVELS = 127
# float16 is not among them: its scale would overflow at a C_ii of 4e9.
SCALE_DTYPES = (torch.float32, torch.float64, torch.bfloat16)

Array: TypeAlias = npt.NDArray[Any]
# Readouts have the type of the queries: arrays for arrays, tensors for tensors.
Numbers = TypeVar("Numbers", npt.NDArray[Any], Tensor)

FLOAT = np.dtype(np.float32)
DOUBLE = np.dtype(np.float64)
FLOATS = frozenset((FLOAT, DOUBLE))


class Routines(dict[np.dtype[Any], Any]):
    """A routine for each type, from SciPy when it is first called: readers, which never do, load in 0.3 s less."""

    def __init__(self, library: str, name: str) -> None:
        self._library, self._name = library, name

    def __missing__(self, dtype: np.dtype[Any]) -> Any:
        library = importlib.import_module(f"scipy.linalg.{self._library}")
        routine = self[dtype] = getattr(library, ("s" if dtype == FLOAT else "d") + self._name)
        return routine


# BLAS and LAPACK on packed triangles, in place:
# spmv(k, 1.0, packed, x, 1, offset_x, 0.0, y, 1, offset_y, 0, 1) fills y with C x;
SPMV = Routines("blas", "spmv")
# spr(k, w, x, packed, 1, offset_x, 0, 1) adds w x xᵀ to packed;
SPR = Routines("blas", "spr")
# trttp(matrix, "U") is the packed triangle of a matrix.
TRTTP = Routines("lapack", "trttp")
# Bits of an array's flags: contiguous and aligned; also writable.
PLAIN = 0x001 | 0x100
PLAIN_WRITABLE = PLAIN | 0x400
# From this many tokens on, one product and one addition cost less than rank-1 updates (k = 64 to 256).
PRODUCT_FROM = 4


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


def packed_lookup(packed: npt.NDArray[Any] | Tensor, queries: Numbers, out: Numbers | None = None) -> Numbers:
    """C q from a packed triangle `[p]`, float32 or float64, for one query `[k]` or several `[m, k]`.

    `packed` may be read-only.

    >>> C = np.array([1.0, 2.0, 5.0])
    >>> packed_lookup(C, np.array([1.0, 0.0])).tolist()
    [1.0, 2.0]
    >>> packed_lookup(C, np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    if type(queries) is type(packed) is np.ndarray:
        readout = _lookup_if_plain(packed, queries, out)
        if readout is not None:
            return readout
    q = _as_array("queries", queries)
    if q.ndim not in (1, 2) or q.shape[-1] == 0:
        raise ShapeError.expected("queries", "[k] or [m, k] with k ≥ 1", str(list(q.shape)))
    k = q.shape[-1]
    C = _as_triangle(packed, k, q.dtype)
    R = np.empty_like(q) if out is None else _writable("out", _as_array("out", out, q.dtype))
    if R.shape != q.shape:
        raise ShapeError.expected("out", str(list(q.shape)), str(list(R.shape)))
    x, y, spmv = q.reshape(-1), R.reshape(-1), SPMV[q.dtype]
    for at in range(0, q.size, k):
        spmv(k, 1.0, C, x, 1, at, 0.0, y, 1, at, 0, 1)
    if out is not None:
        return out
    return R if isinstance(queries, np.ndarray) else torch.from_numpy(R)


def _lookup_if_plain(packed: Array, query: Array, out: Array | None) -> Array | None:
    """C q where all arrays are valid; None where one is not, for the checks to say why.

    The product takes 1 µs (k = 100), the checks one by one 4.5 µs, and all of them at once 1.3 µs.
    """
    k, dtype = query.size, query.dtype
    R = np.empty(k, dtype) if out is None else out
    if (
        dtype in FLOATS
        and type(R) is np.ndarray
        and packed.dtype is R.dtype is dtype
        and query.ndim == packed.ndim == R.ndim == 1
        and 0 < k == R.size
        and 2 * packed.size == k * (k + 1)
        and query.flags.num & packed.flags.num & PLAIN == PLAIN
        and R.flags.num & PLAIN_WRITABLE == PLAIN_WRITABLE
    ):
        SPMV[dtype](k, 1.0, packed, query, 1, 0, 0.0, R, 1, 0, 0, 1)
        return R
    return None


def packed_update(
    packed: npt.NDArray[Any] | Tensor, f: Numbers, weight: float | Sequence[float] | Numbers = 1.0
) -> None:
    """C ← C + Σ w_t f_t f_tᵀ, in place, for one f `[k]` or several `[r, k]`, with one weight or one for each.

    A negative weight removes what was written.

    >>> C, f = np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0])
    >>> packed_update(C, f); C.tolist()
    [2.0, 2.0, 5.0]
    >>> packed_update(C, f, weight=-1.0); C.tolist()
    [1.0, 0.0, 1.0]
    """
    F = _as_array("f", f)
    if F.ndim not in (1, 2) or F.shape[-1] == 0:
        raise ShapeError.expected("f", "[k] or [r, k] with k ≥ 1", str(list(F.shape)))
    k = F.shape[-1]
    C, weights = _writable("packed", _as_triangle(packed, k, F.dtype)), np.asarray(weight, np.float64)
    count = F.size // k
    if weights.shape not in ((), (count,)):
        raise ShapeError.expected("weight", f"one number, or [{count}]", str(list(weights.shape)))
    weights = np.broadcast_to(weights, count)
    if count < PRODUCT_FROM:
        spr, x = SPR[F.dtype], F.reshape(-1)
        for at, w in enumerate(weights.tolist()):
            spr(k, w, x, C, 1, at * k, 0, 1)
    else:
        product = (F * weights.astype(F.dtype)[:, None]).T @ F
        # Its transpose is the same matrix in column order, which LAPACK reads without a copy.
        np.add(C, TRTTP[F.dtype](product.T, "U")[0], out=C)


def _as_triangle(packed: object, k: int, dtype: np.dtype[Any]) -> Array:
    """A memory `[p]`, if it is a triangle for k."""
    C, p = _as_array("packed", packed, dtype), triangle_size(k)
    if C.shape != (p,):
        raise ShapeError.expected("packed", f"[{p}], the triangle for k = {k}", str(list(C.shape)))
    return C


def _as_array(what: str, numbers: object, dtype: np.dtype[Any] | None = None) -> Array:
    """An array over the same memory: float32 or float64, contiguous and aligned."""
    if isinstance(numbers, Tensor):
        if not numbers.is_cpu:
            remedy = "call .cpu() first, or use attar.ops.lookup there"
            raise DeviceError.expected(what, "a tensor on the CPU", str(numbers.device), remedy)
        if numbers.requires_grad:
            remedy = "call .detach(), or use unpack and attar.ops.lookup, which differentiate"
            raise DtypeError.expected(what, "a tensor without gradient", "requires_grad=True", remedy)
        if numbers.dtype not in (torch.float32, torch.float64):
            raise DtypeError.expected(
                what, "float32 or float64", str(numbers.dtype), f"call {what}.float() first"
            )
        numbers = numbers.numpy()
    if not isinstance(numbers, np.ndarray):
        kinds = "a numpy array or a torch tensor"
        raise DtypeError.expected(what, kinds, type(numbers).__name__, "np.asarray makes one")
    if numbers.dtype not in FLOATS:
        raise DtypeError.expected(
            what, "float32 or float64", str(numbers.dtype), "convert it when it is stored"
        )
    if dtype is not None and numbers.dtype != dtype:
        raise DtypeError.expected(what, f"{dtype} as the others", str(numbers.dtype), "convert one of them")
    if not numbers.flags.c_contiguous or not numbers.flags.aligned:
        remedy = "it is used in place: make it contiguous"
        raise ShapeError.expected(what, "numbers without gaps", f"strides {list(numbers.strides)}", remedy)
    return numbers


def _writable(what: str, array: Array) -> Array:
    """The array, if it can be written in place."""
    if not array.flags.writeable:
        remedy = "update a copy of it"
        raise OptionError.expected(what, "memory that may be written", "read-only memory", remedy)
    return array
