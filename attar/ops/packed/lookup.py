"""Lookups in packed memories on the CPU, and tokens written into them, without unpacking or copying.

Memories are numpy arrays, torch CPU tensors or raw bytes, such as a store's read-only memoryview, whose values have
the query's dtype.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import blas, lapack
from torch import Tensor

from attar.errors import DeviceError, DtypeError, OptionError, ShapeError
from attar.ops.packed.triangle import triangle_size

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = memoryview | bytes | bytearray
Buffer: TypeAlias = Array | Tensor | Bytes
# Readouts have the type of the queries: arrays for arrays, tensors for tensors.
Numbers = TypeVar("Numbers", npt.NDArray[Any], Tensor)

FLOAT = np.dtype(np.float32)
DOUBLE = np.dtype(np.float64)
# BLAS and LAPACK on packed triangles, in place:
# spmv(k, 1.0, packed, x, 1, offset_x, 0.0, y, 1, offset_y, 0, 1) fills y with C x;
SPMV = {FLOAT: blas.sspmv, DOUBLE: blas.dspmv}
# spr(k, w, x, packed, 1, offset_x, 0, 1) adds w x xᵀ to packed;
SPR = {FLOAT: blas.sspr, DOUBLE: blas.dspr}
# trttp(matrix, "U") is the packed triangle of a matrix.
TRTTP = {FLOAT: lapack.strttp, DOUBLE: lapack.dtrttp}
# The formats that a memoryview may have: bytes, or values of the dtype itself.
FORMATS = {"f": ("B", "f"), "d": ("B", "d")}
# Bits of an array's flags: contiguous and aligned; also writable.
PLAIN = 0x001 | 0x100
PLAIN_WRITABLE = PLAIN | 0x400
# From this many tokens on, one product and one addition cost less than rank-1 updates (k = 64 to 256).
PRODUCT_FROM = 4


def packed_lookup(packed: Buffer, query: Numbers, out: Numbers | None = None) -> Numbers:
    """C q from the packed triangle `[p]` and a query `[k]`, float32 or float64; `packed` may be read-only.

    >>> packed_lookup(np.array([1.0, 2.0, 5.0]), np.array([1.0, 0.0])).tolist()
    [1.0, 2.0]
    """
    if type(query) is type(packed) is np.ndarray and (out is None or type(out) is np.ndarray):
        readout = _lookup_if_plain(packed, query, out)
        if readout is not None:
            return readout
    q = _aligned(_as_array("query", query))
    k = q.size
    if q.ndim != 1 or k == 0:
        raise ShapeError.expected(
            "query", "[k] with k ≥ 1", str(list(q.shape)), "packed_lookup_many takes more"
        )
    C = _as_triangle("packed", packed, k, q.dtype)
    R = np.empty_like(q) if out is None else _as_output(out, q)
    SPMV[q.dtype](k, 1.0, _aligned(C), q, 1, 0, 0.0, R, 1, 0, 0, 1)
    return _like_queries(R, query, out)


def _lookup_if_plain(packed: Array, query: Array, out: Array | None) -> Array | None:
    """C q where all arrays are valid; None where one is not, for the checks to say why.

    The product takes 1 µs (k = 100), the checks one by one 4.5 µs, and all of them at once 1.3 µs.
    """
    k, dtype = query.size, query.dtype
    R = np.empty(k, dtype) if out is None else out
    if (
        dtype in SPMV
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


def packed_lookup_many(
    packed: npt.NDArray[Any] | Tensor | list[Buffer] | tuple[Buffer, ...],
    queries: Numbers,
    documents: Sequence[int] | npt.NDArray[Any] | Tensor | None = None,
    out: Numbers | None = None,
) -> Numbers:
    """C q for each of the queries `[m, k]`, the i-th from document `documents[i]` (default: the i-th).

    `packed` is `[D, p]`, or a list of D buffers `[p]`.

    >>> C, q = np.array([[1.0, 2.0, 5.0], [1.0, 0.0, 1.0]]), np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> packed_lookup_many(C, q).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    >>> packed_lookup_many(C, q, documents=[1, 0]).tolist()
    [[1.0, 0.0], [11.0, 26.0]]
    """
    q = _aligned(_as_array("queries", queries))
    if q.ndim != 2 or q.shape[1] == 0:
        raise ShapeError.expected("queries", "[m, k] with k ≥ 1", str(list(q.shape)))
    m, k = q.shape
    rows = _as_rows(packed, k, q.dtype)
    chosen = range(len(rows)) if documents is None else _as_indices(documents, len(rows))
    if len(chosen) != m:
        what = "packed" if documents is None else "documents"
        raise ShapeError.expected(what, f"one for each of {m} queries", str(len(chosen)))
    R = np.empty_like(q) if out is None else _as_output(out, q)
    x, y, spmv = q.reshape(-1), R.reshape(-1), SPMV[q.dtype]
    for document, at in zip(chosen, range(0, q.size, k), strict=True):
        spmv(k, 1.0, rows[document], x, 1, at, 0.0, y, 1, at, 0, 1)
    return _like_queries(R, queries, out)


def packed_update(
    packed: npt.NDArray[Any] | Tensor | memoryview | bytearray,
    f: Numbers,
    weight: float | Sequence[float] | Numbers = 1.0,
) -> None:
    """C ← C + Σ w_t f_t f_tᵀ, in place, for one f `[k]` or several `[r, k]`, with one weight or one for each.

    A negative weight removes what was written.

    >>> C, f = np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0])
    >>> packed_update(C, f); C.tolist()
    [2.0, 2.0, 5.0]
    >>> packed_update(C, f, weight=-1.0); C.tolist()
    [1.0, 0.0, 1.0]
    """
    F = _aligned(_as_array("f", f))
    if F.ndim not in (1, 2) or F.shape[-1] == 0:
        raise ShapeError.expected("f", "[k] or [r, k] with k ≥ 1", str(list(F.shape)))
    k = F.shape[-1]
    C = _writable("packed", _as_triangle("packed", packed, k, F.dtype))
    weights = _as_weights(weight, F.size // k)
    if len(weights) < PRODUCT_FROM:
        spr, x = SPR[F.dtype], F.reshape(-1)
        for at, w in enumerate(weights):
            spr(k, w, x, C, 1, at * k, 0, 1)
    else:
        product = (F * np.array(weights, F.dtype)[:, None]).T @ F
        # Its transpose is the same matrix in column order, which LAPACK reads without a copy.
        np.add(C, TRTTP[F.dtype](product.T, "U")[0], out=C)


def _as_weights(weight: Any, count: int) -> list[float]:
    """One weight per token.

    >>> _as_weights(0.5, 2), _as_weights(np.array([1.0, -1.0]), 2)
    ([0.5, 0.5], [1.0, -1.0])
    """
    if isinstance(weight, float):
        return [weight] * count
    weights = np.asarray(weight, np.float64)
    if weights.shape not in ((), (count,)):
        raise ShapeError.expected("weight", f"one number, or [{count}]", str(list(weights.shape)))
    return [float(weights)] * count if weights.ndim == 0 else [float(w) for w in weights]


def _as_triangle(what: str, packed: object, k: int, dtype: np.dtype[Any]) -> Array:
    """The buffer of one memory as an array, if it is the triangle for k."""
    C = _as_array(what, packed, dtype)
    if C.size != triangle_size(k) or C.ndim != 1:
        raise ShapeError.expected(what, f"[{triangle_size(k)}], the triangle for k = {k}", str(list(C.shape)))
    return C


def _as_rows(packed: Any, k: int, dtype: np.dtype[Any]) -> Array | list[Array]:
    """Memories `[D, p]`, or D buffers `[p]` as arrays."""
    if isinstance(packed, list | tuple):
        size = triangle_size(k) * dtype.itemsize
        # A store's own views, 256 at a time: checked here they take a third of the time (0.7 µs each).
        if all(type(row) is memoryview and row.nbytes == size and row.format == "B" for row in packed):
            return [_aligned(np.frombuffer(row, dtype)) for row in packed]
        return [_aligned(_as_triangle(f"packed[{i}]", row, k, dtype)) for i, row in enumerate(packed)]
    rows = _aligned(_as_array("packed", packed, dtype))
    if rows.ndim != 2 or rows.shape[1] != triangle_size(k):
        raise ShapeError.expected(
            "packed", f"[D, {triangle_size(k)}], triangles for k = {k}", str(list(rows.shape))
        )
    return rows


def _as_indices(documents: Sequence[int] | Array | Tensor, count: int) -> list[int]:
    """Document indices as a list, all below the count.

    >>> _as_indices(np.array([2, 0]), 3)
    [2, 0]
    """
    indices = np.asarray(documents)
    if indices.ndim != 1:
        raise ShapeError.expected("documents", "[m], one per query", str(list(indices.shape)))
    if indices.size and indices.dtype.kind not in "iu":
        raise DtypeError.expected("documents", "whole numbers", str(indices.dtype))
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise ShapeError.expected("documents", f"numbers from 0 to {count - 1}", str(wrong))
    as_list: list[int] = indices.tolist()
    return as_list


def _as_output(out: Any, like: Array) -> Array:
    """The caller's own array for readouts, checked."""
    array = _writable("out", _as_array("out", out, like.dtype))
    if array.shape != like.shape:
        raise ShapeError.expected("out", str(list(like.shape)), str(list(array.shape)))
    return array


def _like_queries(readouts: Array, queries: Numbers, out: Numbers | None) -> Numbers:
    """Readouts as an array or a tensor, as the queries are; `out` itself where one was given."""
    if out is not None:
        return out
    return readouts if isinstance(queries, np.ndarray) else torch.from_numpy(readouts)


def _as_array(what: str, numbers: object, dtype: np.dtype[Any] | None = None) -> Array:
    """An array over the same memory: float32 or float64, contiguous.

    >>> _as_array("packed", memoryview(bytes(8)), np.dtype(np.float32)).tolist()
    [0.0, 0.0]
    """
    if isinstance(numbers, Tensor):
        numbers = _from_tensor(what, numbers)
    elif isinstance(numbers, Bytes):
        numbers = _from_bytes(what, numbers, dtype or np.dtype(np.float32))
    elif not isinstance(numbers, np.ndarray):
        kinds = "a numpy array, a torch tensor or a buffer"
        raise DtypeError.expected(what, kinds, type(numbers).__name__, "np.asarray makes one")
    own = numbers.dtype
    if own is not dtype and own not in SPMV:
        raise DtypeError.expected(what, "float32 or float64", str(own), "convert it when it is stored")
    if dtype is not None and own != dtype:
        raise DtypeError.expected(what, f"{dtype} as the others", str(own), "convert one of them")
    if not numbers.flags.c_contiguous:
        remedy = "it is used in place: make it contiguous"
        raise ShapeError.expected(what, "numbers without gaps", f"strides {list(numbers.strides)}", remedy)
    return numbers


def _from_tensor(what: str, tensor: Tensor) -> Array:
    if not tensor.is_cpu:
        remedy = "call .cpu() first, or use attar.ops.lookup there"
        raise DeviceError.expected(what, "a tensor on the CPU", str(tensor.device), remedy)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise DtypeError.expected(what, "float32 or float64", str(tensor.dtype), f"call {what}.float() first")
    if tensor.requires_grad:
        remedy = "call .detach(), or use unpack and attar.ops.lookup, which differentiate"
        raise DtypeError.expected(what, "a tensor without gradient", "requires_grad=True", remedy)
    array: Array = tensor.numpy()
    return array


def _from_bytes(what: str, numbers: Bytes, dtype: np.dtype[Any]) -> Array:
    if isinstance(numbers, memoryview) and numbers.format not in FORMATS[dtype.char]:
        raise DtypeError.expected(what, f"bytes of {dtype}", f"a buffer of format {numbers.format!r}")
    try:
        return np.frombuffer(numbers, dtype)
    except ValueError as problem:  # an odd number of bytes, none, or gaps between them
        expected = f"numbers of {dtype.itemsize} bytes without gaps"
        raise ShapeError.expected(
            what, expected, f"{memoryview(numbers).nbytes} bytes", str(problem)
        ) from None


def _aligned(array: Array) -> Array:
    """The array, or a copy of one at an unaligned address."""
    return array if array.flags.aligned else array.copy()


def _writable(what: str, array: Array) -> Array:
    """The array, if it can be written in place."""
    if not array.flags.writeable:
        raise OptionError.expected(
            what, "memory that may be written", "read-only memory", "update a copy of it"
        )
    if not array.flags.aligned:
        remedy = f"store it at a multiple of {array.itemsize} bytes"
        raise OptionError.expected(what, "an aligned address", "an odd address", remedy)
    return array
