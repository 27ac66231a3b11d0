"""Questions put to packed memories on the CPU, and tokens written into them, without unpacking anything."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attar.errors import ShapeError
from attar.ops.packed.blas import KERNELS, RELEASE_FROM, Array
from attar.ops.packed.buffers import Buffer, array_of, in_step, places_of, writable
from attar.ops.packed.products import COMPILED, look_up_at, places_at
from attar.ops.packed.triangle import triangle_of

# Readouts come as the queries came: arrays for arrays, tensors for tensors.
Numbers = TypeVar("Numbers", npt.NDArray[Any], Tensor)

# Bits of an array's flags: without gaps and in step with memory; that, and open to be written.
PLAIN = 0x001 | 0x100
PLAIN_WRITABLE = PLAIN | 0x400

# From here on one product and one addition cost less than so many rank-1 updates (k = 64 to 256).
PRODUCT_FROM = 4


def packed_lookup(packed: Buffer, query: Numbers, out: Numbers | None = None) -> Numbers:
    """C q from the packed triangle `[p]` and a query `[k]`, float32 or float64; `packed` may be read-only.

    >>> packed_lookup(np.array([1.0, 2.0, 5.0]), np.array([1.0, 0.0])).tolist()
    [1.0, 2.0]
    """
    if type(query) is type(packed) is np.ndarray and (out is None or type(out) is np.ndarray):
        readout = lookup_if_plain(packed, query, out)
        if readout is not None:
            return readout
    q = in_step(array_of("query", query))
    k = q.size
    if q.ndim != 1 or k == 0:
        raise ShapeError("query", "[k] with k ≥ 1", str(list(q.shape)), "packed_lookup_many takes more")
    C = triangle_in(packed, k, q.dtype)
    R = np.empty_like(q) if out is None else output_of(out, q)
    multiply(in_step(C), q, R)
    return as_came(R, query, out)


def lookup_if_plain(packed: Array, query: Array, out: Array | None) -> Array | None:
    """C q where all arrays are as they should be; None where they are not, for the checks to say why.

    Beside a product of 1 µs (k = 100) the checks one by one take 4.5 µs, and all of them at once 1.3 µs.
    """
    k, dtype = query.size, query.dtype
    R = np.empty(k, dtype) if out is None else out
    if (
        dtype in KERNELS
        and packed.dtype is R.dtype is dtype
        and query.ndim == packed.ndim == R.ndim == 1
        and 0 < k == R.size
        and 2 * packed.size == k * (k + 1)
        and query.flags.num & packed.flags.num & PLAIN == PLAIN
        and R.flags.num & PLAIN_WRITABLE == PLAIN_WRITABLE
    ):
        multiply(packed, query, R)
        return R
    return None


def multiply(C: Array, q: Array, R: Array) -> None:
    """R ← C q, by the product that is there."""
    k, dtype = q.size, q.dtype
    compiled = (COMPILED.module or COMPILED.missed()) if dtype == np.float32 else None
    if compiled is None:
        KERNELS[dtype].spmv(k)(k, 1.0, C, q, 1, 0, 0.0, R, 1, 0, 0, 1)
    elif k < RELEASE_FROM:
        compiled.look_up_array(C, q, R)
    else:
        look_up_at(compiled, places_at(np.array([C.ctypes.data])), q[None], R[None])


def packed_lookup_many(
    packed: npt.NDArray[Any] | Tensor | list[Buffer] | tuple[Buffer, ...],
    queries: Numbers,
    documents: Sequence[int] | npt.NDArray[Any] | Tensor | None = None,
    out: Numbers | None = None,
) -> Numbers:
    """C q for each of the queries `[m, k]`, the i-th put to document `documents[i]` (default: the i-th).

    `packed` is `[D, p]`, or a list of D buffers `[p]` that lie anywhere.

    >>> C, q = np.array([[1.0, 2.0, 5.0], [1.0, 0.0, 1.0]]), np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> packed_lookup_many(C, q).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    >>> packed_lookup_many(C, q, documents=[1, 0]).tolist()
    [[1.0, 0.0], [11.0, 26.0]]
    """
    q = in_step(array_of("queries", queries))
    if q.ndim != 2 or q.shape[1] == 0:
        raise ShapeError("queries", "[m, k] with k ≥ 1", str(list(q.shape)))
    m, k = q.shape
    rows = rows_of(packed, k, q.dtype)
    chosen = range(len(rows)) if documents is None else places_of(documents, len(rows))
    if len(chosen) != m:
        wanted = f"one for each of {m} queries"
        raise ShapeError("packed" if documents is None else "documents", wanted, str(len(chosen)))
    R = np.empty_like(q) if out is None else output_of(out, q)
    multiply_each(rows, chosen, q, R)
    return as_came(R, queries, out)


def multiply_each(rows: Array | list[Array], chosen: Sequence[int], q: Array, R: Array) -> None:
    """R ← C q for each of the queries `[m, k]`, by the product that is there."""
    compiled = (COMPILED.module or COMPILED.missed(len(q))) if q.dtype == np.float32 else None
    if compiled is None:
        k, x, y = q.shape[1], q.reshape(-1), R.reshape(-1)
        spmv = KERNELS[q.dtype].spmv(k)
        for document, at in zip(chosen, range(0, q.size, k), strict=True):
            spmv(k, 1.0, rows[document], x, 1, at, 0.0, y, 1, at, 0, 1)
    else:
        look_up_at(compiled, places_at(addresses_of(rows, chosen)), q, R)


def addresses_of(rows: Array | list[Array], chosen: Sequence[int]) -> Array:
    """Where each of the chosen memories lies."""
    if isinstance(rows, list):
        return np.array([rows[document].ctypes.data for document in chosen], np.int64)
    places: Array = rows.itemsize * rows.shape[1] * np.array(chosen, np.int64)
    return places + rows.ctypes.data


def packed_update(
    packed: npt.NDArray[Any] | Tensor | memoryview | bytearray,
    f: Numbers,
    weight: float | Sequence[float] | Numbers = 1.0,
) -> None:
    """C ← C + Σ w_t f_t f_tᵀ, in place, for one f `[k]` or several `[r, k]`, with one weight or one for each.

    A negative weight takes out again what was written.

    >>> C, f = np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0])
    >>> packed_update(C, f); C.tolist()
    [2.0, 2.0, 5.0]
    >>> packed_update(C, f, weight=-1.0); C.tolist()
    [1.0, 0.0, 1.0]
    """
    F = in_step(array_of("f", f))
    if F.ndim not in (1, 2) or F.shape[-1] == 0:
        raise ShapeError("f", "[k] or [r, k] with k ≥ 1", str(list(F.shape)))
    k = F.shape[-1]
    C = writable("packed", triangle_in(packed, k, F.dtype))
    weights = weights_of(weight, F.size // k)
    kernels = KERNELS[F.dtype]
    if len(weights) < PRODUCT_FROM:
        spr, x = kernels.spr(k), F.reshape(-1)
        for at, w in enumerate(weights):
            spr(k, w, x, C, 1, at * k, 0, 1)
    else:
        product = (F * np.array(weights, F.dtype)[:, None]).T @ F
        # Its transpose is the same matrix in the order of columns, which LAPACK reads without a copy.
        np.add(C, kernels.trttp(product.T, "U")[0], out=C)


def weights_of(weight: Any, count: int) -> list[float]:
    """A weight for each of so many tokens.

    >>> weights_of(0.5, 2), weights_of(np.array([1.0, -1.0]), 2)
    ([0.5, 0.5], [1.0, -1.0])
    """
    if isinstance(weight, float):
        return [weight] * count
    weights = np.asarray(weight, np.float64)
    if weights.shape not in ((), (count,)):
        raise ShapeError("weight", f"one number, or [{count}]", str(list(weights.shape)))
    return [float(weights)] * count if weights.ndim == 0 else [float(w) for w in weights]


def triangle_in(packed: object, k: int, dtype: np.dtype[Any], what: str = "packed") -> Array:
    """The buffer of one memory as an array, if it holds the triangle for k."""
    C = array_of(what, packed, dtype)
    if C.size != triangle_of(k) or C.ndim != 1:
        raise ShapeError(what, f"[{triangle_of(k)}], the triangle for k = {k}", str(list(C.shape)))
    return C


def rows_of(packed: Any, k: int, dtype: np.dtype[Any]) -> Array | list[Array]:
    """Memories `[D, p]` as they are, or D buffers `[p]` as arrays."""
    if isinstance(packed, list | tuple):
        size = triangle_of(k) * dtype.itemsize
        # A store's own views, 256 at a time: checked here they take a third of the time (0.7 µs each).
        if all(type(row) is memoryview and row.nbytes == size and row.format == "B" for row in packed):
            return [in_step(np.frombuffer(row, dtype)) for row in packed]
        return [in_step(triangle_in(row, k, dtype, f"packed[{i}]")) for i, row in enumerate(packed)]
    whole = in_step(array_of("packed", packed, dtype))
    if whole.ndim != 2 or whole.shape[1] != triangle_of(k):
        raise ShapeError("packed", f"[D, {triangle_of(k)}], triangles for k = {k}", str(list(whole.shape)))
    return whole


def output_of(out: Any, like: Array) -> Array:
    """The caller's own array for readouts, checked."""
    found = writable("out", array_of("out", out, like.dtype))
    if found.shape != like.shape:
        raise ShapeError("out", str(list(like.shape)), str(list(found.shape)))
    return found


def as_came(readouts: Array, queries: Numbers, out: Numbers | None) -> Numbers:
    """Readouts in the kind of array that the queries came in; `out` itself where one was given."""
    if out is not None:
        return out
    return readouts if isinstance(queries, np.ndarray) else torch.from_numpy(readouts)
