"""Which product reads packed memories: the compiled one where it is there, BLAS's otherwise."""

from types import ModuleType

import numpy as np

from attar.ops.packed.blas import RELEASE_FROM, Array
from attar.ops.packed.later import Later

COMPILED = Later("attar.ops.packed.compiled")


def product_in_use() -> str:
    """What multiplies packed float32 memories now, in words; `COMPILED.now()` waits for the compiled one."""
    if COMPILED.module is None:
        return "BLAS (sspmv)"
    import numba

    return f"compiled (numba {numba.__version__})"


def places_at(addresses: Array, width: int = 4) -> Array:
    """Where memories lie, as the compiled product is told: address, scales (none here) and bytes a number.

    >>> places_at(np.array([64, 4096])).tolist()
    [[64, 0, 4], [4096, 0, 4]]
    """
    places = np.zeros((len(addresses), 3), np.int64)
    places[:, 0], places[:, 2] = addresses, width
    return places


def look_up_at(compiled: ModuleType, places: Array, queries: Array, readouts: Array) -> None:
    """C q for memories at places `[m, 3]` and queries `[m, k]`; what takes long lets go of the GIL meanwhile."""
    is_long = queries.size * queries.shape[1] >= RELEASE_FROM**2
    (compiled.look_up_each_aside if is_long else compiled.look_up_each)(places, queries, readouts)
