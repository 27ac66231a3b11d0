"""The products with packed memories: BLAS's, with the GIL held or released, and a compiled one once it is loaded.

SciPy's own wrappers hold the GIL; the same functions called by address through ctypes release it. Both take
the wrappers' arguments, and work in place on the arrays they are given.

Measured at k = 100, 2 shared cores: a call takes 3.2 µs through the wrapper and 3.7 µs by address. Two threads that
look up at once are 0.9 times as fast as one when each call of 3 µs hands the GIL over, 1.3 times at k = 256, 1.9 times
at k = 512. And with another thread busy in Python each hand-over may cost the switch interval of 5 ms. So short calls
hold it, and long ones release it.
"""

import ctypes
import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, cython_blas, lapack

Array = npt.NDArray[Any]

RELEASE_FROM = 512  # the k from which a call is long enough (75 µs) to release the GIL
# Lookups made before compiling starts. A program that makes a few never pays for it; one that makes many has run for
# a hundredth of a second by then.
PATIENCE = 1_000


class LazyModule:
    """A module that takes seconds to compile: a thread imports it once it was missed often enough; nobody waits.

    It needs numba (`pip install '.[fast]'`). Without numba, `module` stays None and the plain path is used.
    """

    def __init__(self, name: str, patience: int = PATIENCE) -> None:
        self.module: ModuleType | None = None
        self._name, self._left = name, patience
        self._importing = threading.Lock()

    def missed(self, times: int = 1) -> ModuleType | None:
        """Count calls that would have used it; returns it if it is loaded by now."""
        if self._left > 0:
            self._left -= times
            if self._left <= 0 and self.possible:
                # Not a daemon: a program that ends now waits for the compiler, which must not be interrupted.
                threading.Thread(target=self.now, name=f"import {self._name}").start()
        return self.module

    def now(self) -> ModuleType | None:
        """Import it here and wait for it: for benchmarks, and for a server before its first request."""
        with self._importing:
            if self.module is None and self.possible:
                self._left = 0
                try:
                    self.module = importlib.import_module(self._name)
                except Exception as fault:  # a compiler may fail in many ways; the plain path is only slower
                    reason = str(fault).strip().split("\n", 1)[0]
                    message = f"{self._name} could not be compiled, lookups are slower: {reason}"
                    warnings.warn(message, RuntimeWarning, stacklevel=2)
        return self.module

    @property
    def possible(self) -> bool:
        """Whether there is a compiler, and memory has the byte order of files."""
        return sys.byteorder == "little" and importlib.util.find_spec("numba") is not None


COMPILED = LazyModule("attar.ops.packed.fast_lookup")


def product_in_use() -> str:
    """The product that multiplies packed float32 memories now; `COMPILED.now()` waits for the compiled one."""
    if COMPILED.module is None:
        return "BLAS (sspmv)"
    import numba

    return f"compiled (numba {numba.__version__})"


def places_at(addresses: Array, width: int = 4) -> Array:
    """Addresses as the compiled product takes them: address, scales (0: none) and bytes per value.

    >>> places_at(np.array([64, 4096])).tolist()
    [[64, 0, 4], [4096, 0, 4]]
    """
    places = np.zeros((len(addresses), 3), np.int64)
    places[:, 0], places[:, 2] = addresses, width
    return places


def look_up_at(compiled: ModuleType, places: Array, queries: Array, readouts: Array) -> None:
    """C q for memories at places `[m, 3]` and queries `[m, k]`; long calls release the GIL."""
    is_long = queries.size * queries.shape[1] >= RELEASE_FROM**2
    (compiled.look_up_each_released if is_long else compiled.look_up_each)(places, queries, readouts)


@dataclass(frozen=True)
class Kernels:
    """The BLAS of one dtype: y ← C x, C ← C + α x xᵀ, and a matrix's packed triangle."""

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


def _address_of(name: str) -> int:
    """The address of SciPy's BLAS function."""
    functions: dict[str, Any] = {**cython_blas.__pyx_capi__}
    capsule = functions[name]
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    address: int = pointer_of(capsule, name_of(capsule))
    return address


def _pointer_to(number: int) -> Any:
    """A pointer to an integer; 64 bits serve a 32-bit BLAS too, whose bytes come first."""
    return ctypes.byref(ctypes.c_int64(number))


def _released_spmv(name: str, real: type[Any]) -> Callable[..., Array]:
    """?spmv by address: ctypes releases the GIL around the call."""
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 9)(_address_of(name))

    def spmv(
        k: int, alpha: float, packed: Array, x: Array, step_x: int, start_x: int, beta: float,
        y: Array, step_y: int, start_y: int, *_: int,
    ) -> Array:  # fmt: skip
        scale, keep = ctypes.byref(real(alpha)), ctypes.byref(real(beta))
        from_x, to_y = _vector(x, step_x, start_x), _vector(y, step_y, start_y)
        call(_UPPER, _pointer_to(k), scale, packed.ctypes.data, *from_x, keep, *to_y)
        return y

    return spmv


def _released_spr(name: str, real: type[Any]) -> Callable[..., Array]:
    """?spr by address: ctypes releases the GIL around the call."""
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(_address_of(name))

    def spr(k: int, alpha: float, x: Array, packed: Array, step_x: int, start_x: int, *_: int) -> Array:
        scale, from_x = ctypes.byref(real(alpha)), _vector(x, step_x, start_x)
        call(_UPPER, _pointer_to(k), scale, *from_x, packed.ctypes.data)
        return packed

    return spr


def _vector(x: Array, step: int, start: int) -> tuple[int, Any]:
    """The address of a vector's first value, and a pointer to its step, as BLAS takes them."""
    return x.ctypes.data + start * x.itemsize, _pointer_to(step)


_UPPER = ctypes.create_string_buffer(b"U")
KERNELS: dict[np.dtype[Any], Kernels] = {
    np.dtype(real): Kernels(
        *(getattr(blas, f"{prefix}spmv"), _released_spmv(f"{prefix}spmv", real)),
        *(getattr(blas, f"{prefix}spr"), _released_spr(f"{prefix}spr", real)),
        getattr(lapack, f"{prefix}trttp"),
    )
    for prefix, real in (("s", ctypes.c_float), ("d", ctypes.c_double))
}
