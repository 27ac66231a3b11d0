"""The bytes of a memory, and of the co-occurrence counts in it. Arrays are used in the buffer, not copied.

A memory:

    at      bytes   contents
    0       4       "attm"
    4       4       CRC-32 of everything after it
    8       2       version of this layout: 2 with co-occurrence counts, 3 with an index of phrases, else 1
    10      1       form: triangle 0, rectangle 1, names 2, states 3, hidden 4, last 5, phrases 6, ridge 7
    11      1       precision: float32 0, float16 1, int8 2
    12      1       mechanism: none 0, softmax 1, linear 2, gated 3, decayed 4, adaptive 5, keyed 6, named 7,
                    phrases 8, ridge 9
    13      1       0
    14      2       r, the length of the reader's fingerprint
    16      4       k
    20      4       the other dimension of the numbers: names, tokens or the values' size; 0 if there is none
    24      4       s, the size of the encoder's state
    28      4       t, the length of the names
    32      8       number of tokens
    40      4       c, the length of the co-occurrence counts or of the index of phrases; 0 in version 1
    44      20      0
    64              numbers, padded with zeros to a multiple of 4 bytes
            4 each  scales, if the numbers are int8: k for a triangle, 1 for a last state, else one per row
            4 s     the encoder's state, float32
            r       the reader's fingerprint, UTF-8
            t       the table of names, as written by `NameTable.to_bytes`
                    in versions 2 and 3, zeros up to a multiple of 4 bytes
            c       the co-occurrence counts, or the index as written by `PhraseIndex.to_bytes`

Co-occurrence counts:

    at      bytes       contents
    0       4           the id of name 0
    4       4           how many ids are reserved for names
    8       4           n, the number of names
    12      4           e, the number of entries
    16      1           i, the bytes per id: 2 or 4
    17      1           t, the bytes per count: 1, 2 or 4
    18      2           0
    20      4 (n + 1)   where each name's entries begin; the last is e
            i e         ids, ascending within a name, padded with zeros to a multiple of 4 bytes
            t e         counts, at least 1

All little-endian. Nothing follows: the header gives the length.
"""

import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from attar.errors import RecordError
from attar.memory.counting import ID_TYPES, TIMES_TYPES, Integers, narrow
from attar.memory.forms import (
    FORMS,
    FORMS_OF,
    INDEXED,
    MECHANISMS,
    PRECISIONS,
    count_in,
    scale_count,
    shape_for,
)

if TYPE_CHECKING:
    from attar.memory.cooccurrence import Cooccurrence
    from attar.memory.memory import Memory

# The largest k of a memory without numbers, whose k no bytes vouch for: C [k, k] of it takes 1 GB.
_LARGEST_EMPTY = 2**14
# A memory without co-occurrence counts is written as version 1, which every Attar can read.
MAGIC, VERSION, _WITH_COOCCURRENCE, _WITH_PHRASES = b"attm", 1, 2, 3
_START = struct.Struct("<4sI")
_HEADER = struct.Struct("<HBBBxHIIIIQI20x")
NUMBERS_AT = _START.size + _HEADER.size
DTYPES = tuple(np.dtype(precision).newbyteorder("<") for precision in PRECISIONS)
FLOAT = DTYPES[0]

_COUNTS = "co-occurrence"
_COUNTS_HEADER = struct.Struct("<IIIIBBxx")
_COUNTS_START = np.dtype("<i4")
_ID_DTYPES, _TIMES_DTYPES = (
    {np.dtype(kind).itemsize: np.dtype(kind).newbyteorder("<") for kind in kinds}
    for kinds in (ID_TYPES, TIMES_TYPES)
)

Bytes: TypeAlias = bytes | bytearray | memoryview


class RecordLayout:
    """Constants of the layout above, for code that reads numbers in place; offsets in bytes from the start."""

    MAGIC, VERSION, NUMBERS_AT = MAGIC, VERSION, NUMBERS_AT
    # Version, form and dtype are four bytes in a row.
    VERSION_AT, READER_LENGTH_AT, SIZE_AT, STATE_SIZE_AT, NAMES_LENGTH_AT = 8, 14, 16, 24, 28


def write_record(memory: "Memory", names: bytes) -> bytes:
    """The bytes of a memory, given those of its table of names."""
    reader = memory.reader.encode()
    part = memory.phrases if memory.form in INDEXED else memory.cooccurrence
    counts = b"" if part is None else part.to_bytes()
    with_part = _WITH_PHRASES if memory.form in INDEXED else _WITH_COOCCURRENCE
    numbers = memory.numbers.astype(DTYPES[PRECISIONS.index(memory.dtype)], copy=False)
    header = _HEADER.pack(
        with_part if counts else VERSION,
        FORMS.index(memory.form),
        PRECISIONS.index(memory.dtype),
        MECHANISMS.index(memory.mechanism),
        len(reader),
        memory.size,
        count_in(memory.form, numbers.shape),
        memory.state.size,
        len(names),
        memory.tokens,
        len(counts),
    )
    scales = b"" if memory.scales is None else memory.scales.astype(FLOAT, copy=False).tobytes()
    state = memory.state.astype(FLOAT, copy=False).tobytes()
    parts = [header, numbers.tobytes(), bytes(-numbers.nbytes % 4), scales, state, reader, names]
    if counts:
        parts += [bytes(-(len(reader) + len(names)) % 4), counts]
    body = b"".join(parts)
    return _START.pack(MAGIC, zlib.crc32(body)) + body


def read_record(buffer: Bytes, check: bool) -> dict[str, Any]:
    """The attributes of a memory by name; arrays are views of the buffer.

    Names, co-occurrence counts and phrases are returned as bytes: `written_names` and so on.
    """
    view = _view(buffer)
    length = len(view)
    if length < NUMBERS_AT:
        raise RecordError.expected(
            "memory", f"{NUMBERS_AT} bytes or more", f"{length}", "the record is cut short"
        )
    magic, checksum = _START.unpack_from(view)
    if magic != MAGIC:
        raise RecordError.expected("memory", f"a record that begins with {MAGIC!r}", repr(magic))
    fields = _HEADER.unpack_from(view, _START.size)
    version, form_code, precision, mechanism_code, r, size, count, s, t, tokens, c = fields
    if version not in (VERSION, _WITH_COOCCURRENCE, _WITH_PHRASES):
        remedy = "it was written by a newer Attar: update this one" if version else "the record is damaged"
        expected = f"a record of version {VERSION} to {_WITH_PHRASES}"
        raise RecordError.expected("memory", expected, f"version {version}", remedy)
    if check and zlib.crc32(view[_START.size :]) != checksum:
        raise RecordError.expected(
            "memory", f"the checksum {checksum:08x}", "another", "the record is damaged or cut"
        )
    if form_code >= len(FORMS) or precision >= len(PRECISIONS) or mechanism_code >= len(MECHANISMS):
        codes = f"form {form_code}, precision {precision}, mechanism {mechanism_code}"
        raise _damaged("memory", "codes of its version", codes)
    form, mechanism = FORMS[form_code], MECHANISMS[mechanism_code]
    if form not in FORMS_OF[mechanism] or not size:
        raise _damaged("memory", f"a form of {mechanism}", f"{form} of size {size}")
    forms_of_version = {VERSION: FORMS[:6], _WITH_COOCCURRENCE: ("names",), _WITH_PHRASES: INDEXED}
    if (c > 0) != (version != VERSION) or form not in forms_of_version[version]:
        came = f"{c} bytes in a record of version {version}, form {form}"
        raise _damaged("memory", "co-occurrence in version 2 and phrases in version 3 only", came)
    if form == "ridge" and count <= size:
        raise _damaged("memory", f"more than {size} columns", str(count))
    shape, dtype = shape_for(form, size, count), DTYPES[precision]
    rows = scale_count(form, size, shape) if precision == 2 else 0
    total = shape[0] if len(shape) == 1 else shape[0] * shape[1]
    if not total and size > _LARGEST_EMPTY:
        raise _damaged("memory", f"a size of at most {_LARGEST_EMPTY} without numbers", str(size))
    scales_at = NUMBERS_AT + total * dtype.itemsize
    scales_at += -scales_at % 4
    state_at = scales_at + 4 * rows
    reader_at = state_at + 4 * s
    names_at = reader_at + r
    counts_at = names_at + t
    counts_at += -counts_at % 4 if c else 0
    end = counts_at + c
    if end != length:
        remedy = "the record is damaged or cut"
        raise RecordError.expected("memory", f"{end} bytes, as its header says", str(length), remedy)
    try:
        reader = str(view[reader_at:names_at], "utf-8")
    except UnicodeDecodeError as fault:
        raise _damaged("memory", "a reader's fingerprint in UTF-8", str(fault)) from None
    names_of_part = {_WITH_COOCCURRENCE: "written_cooccurrence", _WITH_PHRASES: "written_phrases"}
    return {
        "form": form,
        "numbers": np.ndarray(shape, dtype, view, NUMBERS_AT),
        "scales": np.ndarray(rows, FLOAT, view, scales_at) if precision == 2 else None,
        "tokens": tokens,
        "size": size,
        "state": np.ndarray(s, FLOAT, view, state_at),
        "written_names": bytes(view[names_at : names_at + t]),
        "mechanism": mechanism,
        "reader": reader,
        **({} if version == _WITH_COOCCURRENCE else {"cooccurrence": None}),
        **({} if version == _WITH_PHRASES else {"phrases": None}),
        **({names_of_part[version]: view[counts_at:]} if c else {}),
    }


def write_cooccurrence(counts: "Cooccurrence") -> bytes:
    """The bytes of co-occurrence counts."""
    starts, ids, times = counts.starts, counts.ids, counts.times
    parts = (
        _COUNTS_HEADER.pack(counts.first, counts.limit, len(counts), len(ids), ids.itemsize, times.itemsize),
        starts.astype(_COUNTS_START, copy=False).tobytes(),
        ids.astype(_ID_DTYPES[ids.itemsize], copy=False).tobytes(),
        bytes(-ids.nbytes % 4),
        times.astype(_TIMES_DTYPES[times.itemsize], copy=False).tobytes(),
    )
    return b"".join(parts)


def read_cooccurrence(buffer: Bytes, check: bool) -> tuple[Any, ...]:
    """The fields of co-occurrence counts in order; arrays are views of the buffer."""
    view = _view(buffer)
    if len(view) < _COUNTS_HEADER.size:
        raise _damaged(_COUNTS, f"{_COUNTS_HEADER.size} bytes or more", str(len(view)))
    first, limit, count, entries, id_bytes, times_bytes = _COUNTS_HEADER.unpack_from(view)
    if id_bytes not in _ID_DTYPES or times_bytes not in _TIMES_DTYPES:
        came = f"{id_bytes} and {times_bytes}"
        raise _damaged(_COUNTS, "ids of 2 or 4 bytes and counts of 1, 2 or 4", came)
    ids_at = _COUNTS_HEADER.size + 4 * (count + 1)
    times_at = ids_at + id_bytes * entries
    times_at += -times_at % 4
    end = times_at + times_bytes * entries
    if end != len(view):
        raise _damaged(_COUNTS, f"{end} bytes, as its header says", str(len(view)))
    starts: Integers = np.ndarray(count + 1, _COUNTS_START, view, _COUNTS_HEADER.size)
    ids: Integers = np.ndarray(entries, _ID_DTYPES[id_bytes], view, ids_at)
    times: Integers = np.ndarray(entries, _TIMES_DTYPES[times_bytes], view, times_at)
    if starts[0] != 0 or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
        raise _damaged(_COUNTS, f"ascending starts from 0 to {entries}", "others")
    if check:
        _check_entries(starts, ids, times, first, limit)
    return starts, ids, times, first, limit


def _check_entries(starts: Integers, ids: Integers, times: Integers, first: int, limit: int) -> None:
    """Refuse entries that counting cannot produce."""
    same_name = np.ones(max(len(ids) - 1, 0), np.bool_)
    borders = starts[1:-1]
    same_name[borders[(borders > 0) & (borders < len(ids))] - 1] = False
    if (ids[1:] <= ids[:-1])[same_name].any():
        raise _damaged(_COUNTS, "ids that ascend within a name", "others")
    if ids.min(initial=first) < first:
        raise _damaged(_COUNTS, f"ids from {first} up", str(ids.min()))
    count = len(starts) - 1
    if count > limit:
        raise _damaged(_COUNTS, f"at most {limit} names", str(count))
    unknown = (ids >= first + count) & (ids < first + limit)
    if unknown.any():
        raise _damaged(_COUNTS, f"ids of the {count} names or of words", str(ids[unknown][0]))
    if not times.all():
        raise _damaged(_COUNTS, "counts from 1 up", "0")
    smallest = narrow(ids, ID_TYPES).itemsize, narrow(times, TIMES_TYPES).itemsize
    if smallest != (ids.itemsize, times.itemsize):
        came = f"{ids.dtype} and {times.dtype}"
        raise _damaged(_COUNTS, "the smallest types that hold the ids and counts", came)


def _view(buffer: Bytes) -> memoryview:
    """A read-only view of the buffer's bytes."""
    view = memoryview(buffer).toreadonly()
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _damaged(what: str, expected: str, came: str) -> RecordError:
    return RecordError.expected(what, expected, came, "the record is damaged")
