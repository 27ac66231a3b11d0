"""Lookups in stored memories: queries in, readouts out.

This is the plain implementation. `fast_lookups` has the same functions, compiled. Neither verifies checksums, which
would take longer than the lookup; `Store.check` does.
"""

import sys
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import ShapeError
from attar.memory.forms import Floats
from attar.memory.memory import Memory
from attar.store.format import Buffer, unwrap

if TYPE_CHECKING:
    from attar.ops.packed.products import LazyModule

_FLOAT = np.dtype(np.float32)
# Bits of an array's flags: C-contiguous and aligned.
_CONTIGUOUS_ALIGNED = 0x001 | 0x100

# LMDB puts smaller values anywhere inside a page; larger ones have pages of their own, and are aligned.
_INLINE = 2048


def look_up(value: Buffer, name: str, queries: NDArray[Any]) -> Floats:
    """Return the readouts of queries `[m, k]` from the memory in one stored value."""
    return memory_in(value, name).lookup(as_queries(queries))


def look_up_each(values: list[Buffer], names: Sequence[str], queries: NDArray[Any]) -> Floats:
    """Return the readout of each of the queries `[m, k]` from its own value."""
    q = as_queries(queries, len(values))
    rows = [
        memory_in(value, name).lookup(query[None])
        for value, name, query in zip(values, names, q, strict=True)
    ]
    check_widths({row.shape[1] for row in rows})
    return np.concatenate(rows) if rows else np.empty_like(q)


def memory_in(value: Buffer, name: str, check: bool = False) -> Memory:
    """Return the memory in a stored value, on its bytes where they are aligned."""
    payload = unwrap(b"m", value, name, check)
    return Memory.from_bytes(payload if len(payload) >= _INLINE else bytes(payload), check=False)


def as_queries(queries: NDArray[Any], count: int | None = None) -> Floats:
    """Return queries `[m, k]` as contiguous, aligned float32; `count` is the expected m."""
    if (
        type(queries) is np.ndarray
        and queries.dtype is _FLOAT
        and queries.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
    ):
        q: Floats = queries
    else:
        q = np.array(queries, _FLOAT, order="C")
    if q.ndim != 2 or not q.shape[1]:
        raise ShapeError.expected("queries", "[m, k] with k ≥ 1", str(list(q.shape)))
    if count not in (None, len(q)):
        raise ShapeError.expected("queries", f"one for each of {count} names", str(len(q)))
    return q


def check_widths(widths: set[int]) -> None:
    """Raise unless readouts have one width, so that they fit into one array."""
    if len(widths) > 1:
        came = ", ".join(map(str, sorted(widths)))
        raise ShapeError.expected("readouts", "one width for all documents", came, "look these up one by one")


def fastest(count: int) -> ModuleType:
    """Return the module to make `count` lookups with: `fast_lookups` once it is compiled, else this one."""
    fast = _fast()
    return fast.module or fast.missed(count) or sys.modules[__name__]


def compile_lookups() -> None:
    """Compile the fast lookups and wait for that; without numba (the extra `fast`) there are none."""
    _fast().now()


@lru_cache(maxsize=1)
def _fast() -> "LazyModule":
    # Imported here: attar.ops loads torch, which opening and listing a store do not need.
    from attar.ops.packed.products import LazyModule

    return LazyModule("attar.store.fast_lookups")
