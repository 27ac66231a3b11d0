"""BLAS on packed symmetric matrices, with the GIL held or released.

SciPy's own wrappers hold the GIL; the same functions called by address through ctypes release it. Both take
the wrappers' arguments, and work on the arrays they are given, in place.

Measured at k = 100, 2 shared cores: a call takes 3.2 µs through the wrapper and 3.7 µs by address. Two
threads that look up at once run 0.9 times as fast as one when each call of 3 µs hands the GIL over, 1.3 times
at k = 256, 1.9 times at k = 512. And beside a thread busy with Python each hand-over may cost the switch
interval of 5 ms. So short calls hold it, and long ones let go.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, cython_blas, lapack

Array = npt.NDArray[Any]

RELEASE_FROM = 512  # the k from which a call is long enough (75 µs) to let go of the GIL


@dataclass(frozen=True)
class Kernels:
    """The BLAS of one type of number: y ← C x, C ← C + α x xᵀ, and a matrix's packed triangle."""

    spmv_held: Callable[..., Array]
    spmv_released: Callable[..., Array]
    spr_held: Callable[..., Array]
    spr_released: Callable[..., Array]
    trttp: Callable[..., tuple[Array, int]]

    def spmv(self, k: int) -> Callable[..., Array]:
        """The product for this size: f(k, 1.0, packed, x, 1, offset_x, 0.0, y, 1, offset_y, 0, 1) fills y."""
        return self.spmv_held if k < RELEASE_FROM else self.spmv_released

    def spr(self, k: int) -> Callable[..., Array]:
        """The update for this size: f(k, α, x, packed, 1, 0, 0, 1) adds α x xᵀ to packed."""
        return self.spr_held if k < RELEASE_FROM else self.spr_released


def address_of(name: str) -> int:
    """Where SciPy's BLAS function of that name lies."""
    functions: dict[str, Any] = {**cython_blas.__pyx_capi__}
    capsule = functions[name]
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    address: int = pointer_of(capsule, name_of(capsule))
    return address


def whole(number: int) -> Any:
    """A pointer to a whole number; 64 bits serve a BLAS of 32 too, whose bytes come first."""
    return ctypes.byref(ctypes.c_int64(number))


def released_spmv(name: str, real: type[Any]) -> Callable[..., Array]:
    """?spmv by address: ctypes lets go of the GIL around the call."""
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 9)(address_of(name))
    upper = ctypes.create_string_buffer(b"U")

    def spmv(
        k: int,
        alpha: float,
        packed: Array,
        x: Array,
        step_x: int,
        start_x: int,
        beta: float,
        y: Array,
        step_y: int,
        start_y: int,
        *_: int,
    ) -> Array:
        scale, keep = ctypes.byref(real(alpha)), ctypes.byref(real(beta))
        from_x, to_y = (v.ctypes.data + start * v.itemsize for v, start in ((x, start_x), (y, start_y)))
        call(upper, whole(k), scale, packed.ctypes.data, from_x, whole(step_x), keep, to_y, whole(step_y))
        return y

    return spmv


def released_spr(name: str, real: type[Any]) -> Callable[..., Array]:
    """?spr by address: ctypes lets go of the GIL around the call."""
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(address_of(name))
    upper = ctypes.create_string_buffer(b"U")

    def spr(k: int, alpha: float, x: Array, packed: Array, step_x: int, start_x: int, *_: int) -> Array:
        from_x = x.ctypes.data + start_x * x.itemsize
        call(upper, whole(k), ctypes.byref(real(alpha)), from_x, whole(step_x), packed.ctypes.data)
        return packed

    return spr


KERNELS: dict[np.dtype[Any], Kernels] = {
    np.dtype(np.float32): Kernels(
        blas.sspmv,
        released_spmv("sspmv", ctypes.c_float),
        blas.sspr,
        released_spr("sspr", ctypes.c_float),
        lapack.strttp,
    ),
    np.dtype(np.float64): Kernels(
        blas.dspmv,
        released_spmv("dspmv", ctypes.c_double),
        blas.dspr,
        released_spr("dspr", ctypes.c_double),
        lapack.dtrttp,
    ),
}
