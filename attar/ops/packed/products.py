"""The products with packed memories: BLAS's, and a compiled one once it is loaded.

SciPy's BLAS holds the GIL. The compiled product can release it, and does so in long calls only: with another thread
busy in Python each hand-over may cost the switch interval of 5 ms. Measured at 2 shared cores, two threads that look
up at once are 0.9 times as fast as one when each call of 3 µs (k = 100) hands it over, and 1.9 times at k = 512.
"""

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

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


class Kernels(NamedTuple):
    """The BLAS of one dtype, in place.

    spmv(k, 1.0, packed, x, 1, offset_x, 0.0, y, 1, offset_y, 0, 1) fills y with C x, spr(k, α, x, packed, 1, 0, 0, 1)
    adds α x xᵀ to packed, and trttp gives a matrix's packed triangle.
    """

    spmv: Callable[..., Array]
    spr: Callable[..., Array]
    trttp: Callable[..., tuple[Array, int]]


KERNELS: dict[np.dtype[Any], Kernels] = {
    np.dtype(np.float32): Kernels(blas.sspmv, blas.sspr, lapack.strttp),
    np.dtype(np.float64): Kernels(blas.dspmv, blas.dspr, lapack.dtrttp),
}
