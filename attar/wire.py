r"""Raw vectors on the wire, `application/octet-stream`: all numbers little-endian, nothing between the parts.

asked       "ATLQ", u16 version, u16 0, u32 names d, u32 vectors m, u32 size k,
            d × u32 the names' lengths in bytes, the names in UTF-8, zeros up to a multiple of 4,
            m × k float32; one name for all vectors, or one for each
answered    "ATLR", u16 version, u16 0, u32 readouts m, u32 width w, u32 0, m × w float32;
            documents with fewer names than others have readouts that are filled up with zeros
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, OptionError, ShapeError

MEDIA = "application/octet-stream"
VERSION = 1
HEADER = struct.Struct("<4sHHIII")
ASKED, ANSWERED = b"ATLQ", b"ATLR"
FLOAT, COUNT = np.dtype("<f4"), np.dtype("<u4")

Floats = NDArray[np.float32]


def pack_queries(names: Sequence[str], vectors: NDArray[Any]) -> bytes:
    """The body that asks for the readouts of vectors `[m, k]`.

    >>> len(pack_queries(["emma"], np.zeros((2, 3))))
    52
    """
    q = np.ascontiguousarray(vectors, FLOAT)
    if q.ndim != 2:
        raise ShapeError("vectors", "[m, k]", str(list(q.shape)))
    try:
        written = [name.encode() for name in names]
    except UnicodeEncodeError:
        raise OptionError("names", "text", "half of a surrogate pair", "rename it") from None
    lengths = np.array([len(name) for name in written], COUNT).tobytes()
    text = b"".join(written)
    head = HEADER.pack(ASKED, VERSION, 0, len(written), *q.shape)
    return b"".join((head, lengths, text, bytes(-len(text) % 4), q.tobytes()))


def unpack_queries(body: bytes, limit: int) -> tuple[list[str], Floats]:
    """The names and the vectors `[m, k]` of a body, at most so many; what is not whole is refused.

    >>> names, vectors = unpack_queries(pack_queries(["emma"], np.ones((1, 2))), 10)
    >>> names, vectors.tolist()
    (['emma'], [[1.0, 1.0]])
    """
    d, m, k = header_of(body, ASKED)
    if m > limit or d > limit:
        raise OptionError("vectors", f"at most {limit:,} a request", f"{max(d, m):,}", "send them in parts")
    if d not in (1, m) or not m or not k:
        expected = "one name for all vectors or one for each, and one number each at least"
        raise ShapeError("vectors", expected, f"{d} names, {m} vectors of {k}")
    at = HEADER.size + 4 * d
    if len(body) < at:
        raise short(at, body)
    lengths = np.frombuffer(body, COUNT, d, HEADER.size).tolist()
    numbers_at = at + sum(lengths) + -sum(lengths) % 4
    if len(body) != numbers_at + 4 * m * k:
        raise short(numbers_at + 4 * m * k, body)
    names = []
    for length in lengths:
        try:
            names.append(body[at : at + length].decode())
        except UnicodeDecodeError as fault:
            raise FormatError("names", "UTF-8", f"the byte 0x{body[at + fault.start]:02x}") from fault
        at += length
    return names, np.frombuffer(body, FLOAT, m * k, numbers_at).reshape(m, k)


def pack_readouts(readouts: Floats) -> bytes:
    """The body that answers with readouts `[m, w]`.

    >>> len(pack_readouts(np.zeros((2, 3), np.float32)))
    44
    """
    head = HEADER.pack(ANSWERED, VERSION, 0, *readouts.shape, 0)
    return head + np.ascontiguousarray(readouts, FLOAT).tobytes()


def unpack_readouts(body: bytes) -> Floats:
    """The readouts `[m, w]` of an answer.

    >>> unpack_readouts(pack_readouts(np.ones((1, 2), np.float32))).tolist()
    [[1.0, 1.0]]
    """
    m, w, _ = header_of(body, ANSWERED)
    if len(body) != HEADER.size + 4 * m * w:
        raise short(HEADER.size + 4 * m * w, body)
    return np.frombuffer(body, FLOAT, m * w, HEADER.size).reshape(m, w)


def header_of(body: bytes, kind: bytes) -> tuple[int, int, int]:
    """The three counts that a body begins with."""
    if len(body) < HEADER.size:
        raise short(HEADER.size, body)
    magic, version, zero, *counts = HEADER.unpack_from(body)
    if (magic, version, zero) != (kind, VERSION, 0):
        came = f"{magic!r}, version {version}"
        raise FormatError("vectors", f"{kind!r}, version {VERSION}", came, "see attar.wire")
    a, b, c = counts
    return a, b, c


def short(wanted: int, body: bytes) -> FormatError:
    """The line for a body of another length than its header says."""
    return FormatError("vectors", f"{wanted:,} bytes, as the header says", f"{len(body):,}")
