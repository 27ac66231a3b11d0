"""A memory as bytes that say what they are; numbers are read where they lie.

    at      bytes   what
    0       4       "attm"
    4       4       CRC-32 of all that follows
    8       2       version of this layout: 2 where the names' company is kept, else 1
    10      1       form: triangle 0, rectangle 1, names 2, states 3, hidden 4, last 5
    11      1       type of number: float32 0, float16 1, int8 2
    12      1       mechanism: none 0, softmax 1, linear 2, gated 3, decayed 4, adaptive 5, keyed 6, named 7
    13      1       0
    14      2       r, the length of the reader's fingerprint
    16      4       k
    20      4       the numbers' other side: names, tokens or the values' size; 0 where there is none
    24      4       s, how many numbers the encoder's state has
    28      4       t, the length of the names
    32      8       tokens read
    40      4       c, the length of the names' company; 0 in version 1
    44      20      0
    64              numbers, then zeros up to a multiple of 4 bytes
            4 each  scales, where the numbers are int8: k for a triangle, 1 for a last state, else one a row
            4 s     the encoder's state, float32
            r       the reader's fingerprint, UTF-8
            t       the table of names, as `NameTable.to_bytes` writes it
                    in version 2, zeros up to a multiple of 4 bytes
            c       the company of each name, as `Company.to_bytes` writes it

Little-endian throughout. Nothing follows; the length is known from the header.
"""

import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.memory.company import Company
from attar.memory.forms import FORMS, FORMS_OF, MECHANISMS, count_in, shape_for
from attar.memory.precision import PRECISIONS, scale_count

if TYPE_CHECKING:
    from attar.memory.memory import Memory

# What has no company is written as before there was any, byte for byte.
MAGIC, VERSION, WITH_COMPANY = b"attm", 1, 2
START = struct.Struct("<4sI")
HEADER = struct.Struct("<HBBBxHIIIIQI20x")
NUMBERS_AT = START.size + HEADER.size
DTYPES = tuple(np.dtype(precision).newbyteorder("<") for precision in PRECISIONS)
FLOAT = DTYPES[0]

Bytes: TypeAlias = bytes | bytearray | memoryview


class RecordLayout:
    """Constants of the layout above, for code that reads numbers in place; offsets in bytes from the start."""

    MAGIC, VERSION, NUMBERS_AT = MAGIC, VERSION, NUMBERS_AT
    # Version, form and dtype are four bytes in a row.
    VERSION_AT, READER_LENGTH_AT, SIZE_AT, STATE_SIZE_AT, NAMES_LENGTH_AT = 8, 14, 16, 24, 28


def write_record(memory: "Memory", names: bytes) -> bytes:
    """The memory's bytes, its table of names written already."""
    reader = memory.reader.encode()
    company = b"" if memory.company is None else memory.company.to_bytes()
    numbers = memory.numbers.astype(DTYPES[PRECISIONS.index(memory.dtype)], copy=False)
    header = HEADER.pack(
        WITH_COMPANY if company else VERSION,
        FORMS.index(memory.form),
        PRECISIONS.index(memory.dtype),
        MECHANISMS.index(memory.mechanism),
        len(reader),
        memory.size,
        count_in(memory.form, numbers.shape),
        memory.state.size,
        len(names),
        memory.tokens,
        len(company),
    )
    scales = b"" if memory.scales is None else memory.scales.astype(FLOAT, copy=False).tobytes()
    state = memory.state.astype(FLOAT, copy=False).tobytes()
    parts = [header, numbers.tobytes(), bytes(-numbers.nbytes % 4), scales, state, reader, names]
    if company:
        parts += [bytes(-(len(reader) + len(names)) % 4), company]
    body = b"".join(parts)
    return START.pack(MAGIC, zlib.crc32(body)) + body


def read_record(buffer: Bytes, check: bool) -> dict[str, Any]:
    """A memory's attributes by name, arrays over the buffer itself; names as they are written.

    Their company too, unless it is to be checked.
    """
    view = memoryview(buffer).toreadonly()
    if view.format != "B" or view.ndim != 1:
        view = view.cast("B")
    length = len(view)
    if length < NUMBERS_AT:
        raise RecordError("memory", f"{NUMBERS_AT} bytes or more", f"{length}", "the record is cut short")
    magic, checksum = START.unpack_from(view)
    if magic != MAGIC:
        raise RecordError("memory", f"a record that begins with {MAGIC!r}", repr(magic))
    version, form, precision, mechanism, r, size, count, s, t, tokens, c = HEADER.unpack_from(
        view, START.size
    )
    if version not in (VERSION, WITH_COMPANY):
        remedy = "a later Attar wrote it: update this one" if version else "the record is damaged"
        wanted = f"a record of version {VERSION} or {WITH_COMPANY}"
        raise RecordError("memory", wanted, f"version {version}", remedy)
    if check and zlib.crc32(view[START.size :]) != checksum:
        raise RecordError("memory", f"the checksum {checksum:08x}", "another", "the record is damaged or cut")
    if form >= len(FORMS) or precision >= len(PRECISIONS) or mechanism >= len(MECHANISMS):
        came = f"form {form}, type of number {precision}, mechanism {mechanism}"
        raise RecordError("memory", "codes of its version", came, "the record is damaged")
    if FORMS[form] not in FORMS_OF[MECHANISMS[mechanism]] or not size:
        came = f"{FORMS[form]} of size {size}"
        raise RecordError("memory", f"a form of {MECHANISMS[mechanism]}", came, "the record is damaged")
    if (c > 0) != (version == WITH_COMPANY) or (c and FORMS[form] != "names"):
        came = f"{c} bytes in a record of version {version}, {FORMS[form]}"
        raise RecordError("memory", "company in version 2, of names", came, "the record is damaged")
    shape, dtype = shape_for(FORMS[form], size, count), DTYPES[precision]
    rows = scale_count(FORMS[form], size, shape) if precision == 2 else 0
    total = shape[0] if len(shape) == 1 else shape[0] * shape[1]
    scales_at = NUMBERS_AT + total * dtype.itemsize
    scales_at += -scales_at % 4
    state_at = scales_at + 4 * rows
    reader_at = state_at + 4 * s
    names_at = reader_at + r
    company_at = names_at + t
    company_at += -company_at % 4 if c else 0
    end = company_at + c
    if end != length:
        remedy = "the record is damaged or cut"
        raise RecordError("memory", f"{end} bytes, as its header says", str(length), remedy)
    try:
        reader = str(view[reader_at:names_at], "utf-8")
    except UnicodeDecodeError as fault:
        raise RecordError("memory", "a reader's fingerprint in UTF-8", str(fault), "it is damaged") from None
    found: dict[str, Any] = {
        "form": FORMS[form],
        "numbers": np.ndarray(shape, dtype, view, NUMBERS_AT),
        "scales": np.ndarray(rows, FLOAT, view, scales_at) if precision == 2 else None,
        "tokens": tokens,
        "size": size,
        "state": np.ndarray(s, FLOAT, view, state_at),
        "written_names": bytes(view[names_at : names_at + t]),
        "mechanism": MECHANISMS[mechanism],
        "reader": reader,
    }
    if not c:
        found["company"] = None
    elif check:
        found["company"] = company_in(view[company_at:], found["numbers"], check=True)
    else:
        found["written_company"] = view[company_at:]
    return found


def company_in(written: Bytes, numbers: NDArray[Any], *, check: bool = False) -> Company:
    """The company of the names that have these vectors, over its own bytes in a record."""
    company = Company.from_bytes(written, check=check)
    if len(company) != len(numbers):
        wanted = f"company of {len(numbers)} names, as it has vectors"
        raise RecordError("memory", wanted, f"of {len(company)}", "the record is damaged")
    return company
