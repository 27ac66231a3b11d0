"""Questions put to memories where they lie in the file: numbers are read in place, and no Memory is made.

One look at the envelope and the header together says whether the numbers can be used as they lie: float32 in
a record that is whole. All else goes the way of `Memory`, which also says what is wrong with a broken one.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import ShapeError
from attar.memory import record
from attar.memory.forms import FORMS, LOOKUPS, Floats, shape_for, spmv_for
from attar.store import seal
from attar.store.seal import Buffer

START, ENVELOPE = seal.EXPECTED[b"m"]
HEADERS = struct.Struct(
    seal.HEADER.format
    + f"{seal.PADDING[b'm']}x"
    + record.START.format.lstrip("<")
    + record.HEADER.format.lstrip("<")
)
NUMBERS_AT = START + record.NUMBERS_AT
TRIANGLE, FLOAT32 = FORMS.index("triangle"), 0

# What makes a Memory of one name's record and asks it, for all that cannot be read in place.
Ask = Callable[[str, Floats], Floats]


@lru_cache(maxsize=256)
def shape_of(form: int, size: int, count: int) -> tuple[tuple[int, ...], int]:
    """The shape of a form's numbers, by the form's code, and how many they are.

    >>> shape_of(TRIANGLE, 4, 0), shape_of(FORMS.index("names"), 4, 7)
    (((10,), 10), ((7, 4), 28))
    """
    shape = shape_for(FORMS[form], size, count)
    return shape, int(np.prod(shape))


def numbers_in(value: Buffer, size: int) -> tuple[int, Floats] | None:
    """A record's form and its numbers where they lie, if they are float32 of this size and all is in order."""
    if len(value) < NUMBERS_AT:
        return None
    fields = HEADERS.unpack_from(value)
    envelope, _, length, magic, _, version, form, precision, _, r, k, count, s, t, _ = fields
    if (
        envelope != ENVELOPE
        or length != len(value) - START
        or magic != record.MAGIC
        or version != record.VERSION
        or precision != FLOAT32
        or k != size
        or form >= len(FORMS)
    ):
        return None
    shape, total = shape_of(form, k, count)
    if record.NUMBERS_AT + 4 * (total + s) + r + t != length or not total:
        return None
    numbers = np.frombuffer(value, record.FLOAT, total, NUMBERS_AT)
    return form, numbers if len(shape) == 1 else numbers.reshape(shape)


def look_up_one(value: Buffer, name: str, queries: NDArray[Any], ask: Ask) -> Floats:
    """The readouts of queries `[m, k]` from the memory of one record."""
    q = in_order(queries)
    found = numbers_in(value, q.shape[1])
    if found is None:
        return ask(name, q)
    form, numbers = found
    return LOOKUPS[FORMS[form]](numbers, q)


def look_up_each(values: Sequence[Buffer], names: Sequence[str], queries: NDArray[Any], ask: Ask) -> Floats:
    """The readout of each of the queries `[m, k]` from its own record; they must be of one width."""
    q = in_order(queries)
    m, k = q.shape
    if len(values) != m:
        raise ShapeError("queries", f"one for each of {len(values)} names", str(m))
    readouts, spmv = np.empty_like(q), spmv_for(k)
    x, y = q.reshape(-1), readouts.reshape(-1)
    others: dict[int, Floats] = {}
    for row, (value, at) in enumerate(zip(values, range(0, m * k, k), strict=True)):
        found = numbers_in(value, k)
        if found is not None and found[0] == TRIANGLE:
            spmv(k, 1.0, found[1], x, 1, at, 0.0, y, 1, at, 0, 1)
        elif found is not None:
            others[row] = LOOKUPS[FORMS[found[0]]](found[1], q[row : row + 1])
        else:
            others[row] = ask(names[row], q[row : row + 1])
    return put_together(readouts, others, names) if others else readouts


def put_together(readouts: Floats, others: dict[int, Floats], names: Sequence[str]) -> Floats:
    """All readouts in one array, those of triangles and the others."""
    widths = {found.shape[1]: names[row] for row, found in others.items()}
    if len(others) < len(readouts):
        widths.setdefault(readouts.shape[1], "triangles")
    if len(widths) > 1:
        came = ", ".join(str(width) for width in sorted(widths))
        raise ShapeError("readouts", "one width for all names", came, "look each of them up by itself")
    (width,) = widths
    together = readouts if width == readouts.shape[1] else np.empty((len(readouts), width), np.float32)
    for row, found in others.items():
        together[row] = found[0]
    return together


def in_order(queries: NDArray[Any]) -> Floats:
    """Queries `[m, k]` as BLAS takes them."""
    q = np.ascontiguousarray(queries, np.float32)
    if q.ndim != 2 or not q.shape[1]:
        raise ShapeError("queries", "[m, k] with k ≥ 1", str(list(q.shape)))
    return q
