"""Packed memories found in LMDB's own bytes by compiled code, without an object for each.

It asks of a record what `lookups.triangle_in` asks, takes int8 too, and says where the numbers lie. What objects
hold is asked of Python's own functions, so all this runs with the GIL. Importing it compiles it, as importing
`attar.ops.packed.fast_lookup` does. That product, and what `seal` and `record` say of layouts, are compiled in: whoever
changes one of them gives this file a new date, by which numba knows.
"""

import struct
from typing import no_type_check

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from attar.memory import FORMS, Floats, record
from attar.ops import LINE, MORE, READ_ROWS, WRITTEN_ROWS, fetch, look_up_at, multiply_one
from attar.ops.packed import fast_lookup as compiled
from attar.store import seal
from attar.store.seal import Buffer

START, ENVELOPE = seal.EXPECTED[b"m"]
NUMBERS_AT = START + record.NUMBERS_AT
NUMBERS_AFTER = record.NUMBERS_AT
ENVELOPE_START, ENVELOPE_END = struct.unpack("<II", ENVELOPE)
(RECORD_START,) = struct.unpack("<I", record.MAGIC)
# The record's version and form, and the type of number as its last byte: 0, 1, 2 for 4, 2, 1 bytes.
(TRIANGLE,) = struct.unpack("<I", struct.pack("<HBB", record.VERSION, FORMS.index("triangle"), 0))
# Of a document, what is asked for before its header has come: about as much as a core can wait for.
FETCHED = 2048

get_item = types.ExternalFunction("PyList_GetItem", types.intp(types.intp, types.intp))
get_buffer = types.ExternalFunction("PyObject_GetBuffer", types.int32(types.intp, types.intp, types.int32))
release_buffer = types.ExternalFunction("PyBuffer_Release", types.void(types.intp))
clear_error = types.ExternalFunction("PyErr_Clear", types.void())


@intrinsic
@no_type_check
def word_at(context, address):
    """The four bytes at any address as a number."""

    def generate(context, builder, signature, given):
        word = builder.load(builder.inttoptr(given[0], ir.IntType(32).as_pointer()), align=1)
        return builder.zext(word, ir.IntType(64))

    return types.int64(types.int64), generate


@njit
@no_type_check
def bytes_of(value, view):
    """The address and the length of what an object holds; 0 and 0 where it holds no bytes.

    `view` has room for Python's Py_buffer: the address first, the length third. What LMDB gives lies where it is
    until the reading ends, whoever has let go of the view.
    """
    if get_buffer(value, view.ctypes.data, 0):
        clear_error()
        return 0, 0
    address, length = view[0], view[2]
    release_buffer(view.ctypes.data)
    return address, length


@njit
@no_type_check
def triangle_in(value, length, k):
    """Where a record's triangle of size k lies, its scales, and the bytes of a number; 0 bytes where it is none."""
    if (
        length < NUMBERS_AT
        or word_at(value) != ENVELOPE_START
        or word_at(value + 4) != ENVELOPE_END
        or word_at(value + START) != RECORD_START
        or word_at(value + START + 16) != k
    ):
        return 0, 0, 0
    precision = (word_at(value + START + 8) - TRIANGLE) >> 24
    if not 0 <= precision <= 2 or word_at(value + START + 8) != TRIANGLE + (precision << 24):
        return 0, 0, 0
    width = 4 >> precision
    reader = word_at(value + START + 12) >> 16
    state, names = word_at(value + START + 24), word_at(value + START + 28)
    numbers = width * (k * (k + 1) // 2)
    numbers += -numbers % 4
    scales = 4 * k if width == 1 else 0
    whole = NUMBERS_AFTER + numbers + scales + 4 * state + reader + names
    if length - START != whole or word_at(value + 12) != whole:
        return 0, 0, 0
    C = value + NUMBERS_AT
    return C, C + numbers if scales else 0, width


@njit(types.boolean(types.int64, READ_ROWS, WRITTEN_ROWS), cache=True)
@no_type_check
def look_up_at_once(value, x, y):
    """Put C q into y `[1, k]`, q being x `[1, k]`, if the value of an object, given by its id, holds such a C."""
    k = x.size
    address, length = bytes_of(value, np.empty(10, np.int64))
    for line in range(address, address + min(length, FETCHED), LINE):
        fetch(line)
    C, scales, width = triangle_in(address, length, k)
    if width:
        space = np.empty(2 * k + MORE, np.float32)
        multiply_one(C, scales, width, k, x.reshape(-1), y.reshape(-1), 0, space, 0)
    return width > 0


@njit(types.int64(types.int64, types.int64, types.int64[:, ::1]), cache=True)
@no_type_check
def find_each(values, k, places):
    """What `triangle_in` says of each value of a list, given by its id, into places `[m, 3]`; counts those found."""
    view = np.empty(10, np.int64)
    for row in range(len(places)):
        address, length = bytes_of(get_item(values, row), view)
        places[row, 0], places[row, 1] = address, length
        # Asked for now, all headers come at the price of one.
        fetch(address)
        fetch(address + LINE)
    found = 0
    for row in range(len(places)):
        places[row] = triangle_in(places[row, 0], places[row, 1], k)
        found += places[row, 2] > 0
    return found


def look_up_in(value: Buffer, query: Floats, readout: Floats) -> bool:
    """Put the readout of a query `[1, k]` into `readout`, if the value holds a triangle of its size."""
    return bool(look_up_at_once(id(value), query, readout))


def look_up_in_each(values: list[Buffer], queries: Floats, readouts: Floats) -> list[int]:
    """Put the readouts of queries `[m, k]` into `readouts`; gives the rows whose values hold no such triangle."""
    m, k = queries.shape
    places = np.empty((m, 3), np.int64)
    found = find_each(id(values), k, places)
    look_up_at(compiled, places, queries, readouts)
    return [] if found == m else np.flatnonzero(places[:, 2] == 0).tolist()
