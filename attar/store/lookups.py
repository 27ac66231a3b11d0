"""Questions put to packed memories where they lie in the file: no Memory is made on the way.

One look at the envelope (`seal`) and the record's header (`attar.memory.record`) says whether the numbers can
be used in place: a triangle of the query's size in a record that is whole. All else goes the way of `Memory`,
which also says what is wrong with a broken record. At k = 100 this takes a third of the time in which a Memory is
made (1.0 µs of 3.7). Compiled (`in_place`), both the look and the product take less, and int8 is read in place too.
No checksum is compared here, by neither way: that would take longer than the lookup. `Store.check` does.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import ShapeError
from attar.memory import FORMS, Floats, record, spmv_for
from attar.store import seal
from attar.store.seal import Buffer

if TYPE_CHECKING:
    from attar.ops import Later

START, ENVELOPE = seal.EXPECTED[b"m"]
NUMBERS_AT = START + record.NUMBERS_AT
# Of both headers what matters here: the envelope's kind and length; then the record's first letters, its
# version, form and type of number as they are written, and r, k, s and t.
HEADERS = struct.Struct(f"<8s4xI{seal.PADDING[b'm']}x4s4x4sxxHI4xII")
# The triangles that can be: those of float32 and, widened on the way, of float16.
TRIANGLES = {
    struct.pack("<HBB", record.VERSION, FORMS.index("triangle"), precision): record.DTYPES[precision]
    for precision in (0, 1)
}

# From this size on a lookup lets go of the GIL, which those of many do (see `attar.ops.packed.blas`).
LONG = 512

FLOAT = np.dtype(np.float32)
# Bits of an array's flags: without gaps, and in step with memory.
PLAIN = 0x001 | 0x100

# Asks the memory of a name, for what cannot be read in place.
Ask = Callable[[str, Floats], Floats]


def triangle_in(value: Buffer, k: int) -> Floats | None:
    """The numbers of a triangle, float32 where they lie; None for all else, and for what is not whole."""
    if len(value) < NUMBERS_AT:
        return None
    envelope, length, magic, kind, r, size, s, t = HEADERS.unpack_from(value)
    dtype = TRIANGLES.get(kind)
    if dtype is None or size != k or magic != record.MAGIC or envelope != ENVELOPE:
        return None
    count = k * (k + 1) // 2
    numbers = count * dtype.itemsize
    if len(value) - START != length or length != record.NUMBERS_AT + numbers + -numbers % 4 + 4 * s + r + t:
        return None
    C = np.frombuffer(value, dtype, count, NUMBERS_AT)
    return C if dtype is record.FLOAT else C.astype(np.float32)


def look_up(value: Buffer, name: str, queries: NDArray[Any], ask: Ask) -> Floats:
    """The readouts of queries `[m, k]` from one record."""
    q = in_order(queries)
    m, k = q.shape
    if m != 1:
        return ask(name, q)
    in_place = compiled().module
    if in_place is None or k >= LONG:
        return look_up_each([value], [name], q, ask)
    readout = np.empty((1, k), FLOAT)  # empty_like takes twice as long
    return readout if in_place.look_up_in(value, q, readout) else ask(name, q)


def look_up_each(values: list[Buffer], names: Sequence[str], queries: NDArray[Any], ask: Ask) -> Floats:
    """The readout of each of the queries `[m, k]` from its own record."""
    q = in_order(queries)
    if len(values) != len(q):
        raise ShapeError("queries", f"one for each of {len(values)} names", str(len(q)))
    readouts = np.empty_like(q)
    in_place = compiled().module or compiled().missed(len(q))
    look_up_in_each = by_blas if in_place is None else in_place.look_up_in_each
    others = {row: ask(names[row], q[row : row + 1]) for row in look_up_in_each(values, q, readouts)}
    return put_together(readouts, others) if others else readouts


def by_blas(values: list[Buffer], queries: Floats, readouts: Floats) -> list[int]:
    """Put the readouts of queries `[m, k]` into `readouts`; gives the rows whose values hold no such triangle."""
    k = queries.shape[1]
    spmv, x, y = spmv_for(k), queries.reshape(-1), readouts.reshape(-1)
    others = []
    for row, value in enumerate(values):
        C = triangle_in(value, k)
        if C is None:
            others.append(row)
        else:
            spmv(k, 1.0, C, x, 1, row * k, 0.0, y, 1, row * k, 0, 1)
    return others


@lru_cache(maxsize=1)
def compiled() -> "Later":
    """The compiled lookups (`in_place`), once they are there."""
    # Here and not above: the room of mathematics brings torch, without which a store can be opened and listed.
    from attar.ops import Later

    return Later("attar.store.in_place")


def put_together(readouts: Floats, others: dict[int, Floats]) -> Floats:
    """The readouts of triangles and of other memories in one array, which they must fit.

    >>> put_together(np.zeros((2, 1), np.float32), {0: np.ones((1, 1), np.float32)}).tolist()
    [[1.0], [0.0]]
    """
    widths = {found.shape[1] for found in others.values()}
    if len(others) < len(readouts):
        widths.add(readouts.shape[1])
    if len(widths) > 1:
        came = ", ".join(map(str, sorted(widths)))
        raise ShapeError("readouts", "one width for all documents", came, "look these up one by one")
    (width,) = widths
    together = readouts if width == readouts.shape[1] else np.empty((len(readouts), width), np.float32)
    for row, found in others.items():
        together[row] = found[0]
    return together


def in_order(queries: NDArray[Any]) -> Floats:
    """Queries `[m, k]` as both products take them: float32, without gaps, in step with memory."""
    if type(queries) is np.ndarray and queries.dtype is FLOAT and queries.flags.num & PLAIN == PLAIN:
        q: Floats = queries
    else:
        q = np.array(queries, FLOAT, order="C")
    if q.ndim != 2 or not q.shape[1]:
        raise ShapeError("queries", "[m, k] with k ≥ 1", str(list(q.shape)))
    return q
