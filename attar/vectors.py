"""Vectors that go over HTTP in binary, defined once for server and client.

They are sent as `application/octet-stream`; all numbers are little-endian, nothing is between the parts:

query       "ATLQ", u16 version, u16 0, u32 names d, u32 vectors m, u32 size k,
            d × u32 the names' lengths in bytes, the names in UTF-8, zeros up to a multiple of 4,
            m × k float32; one name for all vectors, or one for each
reply       "ATLR", u16 version, u16 0, u32 readouts m, u32 width w, u32 0, m × w float32;
            readouts of documents with fewer names than others are padded with zeros
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attar.errors import FormatError, OptionError, ShapeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_VERSION, HEADER = 1, struct.Struct("<4sHHIII")
_QUERY, _REPLY = b"ATLQ", b"ATLR"


def pack_queries(names: Sequence[str], vectors: "NDArray[Any]") -> bytes:
    """The body that asks for the readouts of vectors `[m, k]`."""
    # Here and below: numpy loads with the first vector, so that a client without vectors loads nothing heavy.
    import numpy as np

    q = np.ascontiguousarray(vectors, "<f4")
    if q.ndim != 2:
        raise ShapeError.expected("vectors", "[m, k]", str(list(q.shape)))
    try:
        encoded = [name.encode() for name in names]
    except UnicodeEncodeError:
        raise OptionError.expected("names", "text", "half of a surrogate pair", "rename it") from None
    lengths, text = struct.pack(f"<{len(encoded)}I", *map(len, encoded)), b"".join(encoded)
    head = HEADER.pack(_QUERY, _VERSION, 0, len(encoded), *q.shape)
    return b"".join((head, lengths, text, bytes(-len(text) % 4), q.tobytes()))


def unpack_queries(body: bytes, limit: int) -> "tuple[list[str], Floats]":
    """The names and the vectors `[m, k]` of a body, at most `limit` of each; a body that is cut is refused.

    >>> import numpy as np
    >>> names, vectors = unpack_queries(pack_queries(["emma"], np.ones((1, 2))), 10)
    >>> names, vectors.tolist()
    (['emma'], [[1.0, 1.0]])
    """
    import numpy as np

    d, m, k = _counts_in(body, _QUERY)
    if m > limit or d > limit:
        raise OptionError.expected(
            "vectors", f"at most {limit:,} per request", f"{max(d, m):,}", "send them in parts"
        )
    if d not in (1, m) or not m or not k:
        expected = "one name for all vectors or one for each, and vectors of size 1 or more"
        raise ShapeError.expected("vectors", expected, f"{d} names, {m} vectors of size {k}")
    at = HEADER.size + 4 * d
    if len(body) < at:
        raise _wrong_length(at, body)
    lengths = struct.unpack_from(f"<{d}I", body, HEADER.size)
    vectors_at = at + sum(lengths) + -sum(lengths) % 4
    if len(body) != vectors_at + 4 * m * k:
        raise _wrong_length(vectors_at + 4 * m * k, body)
    names = []
    for length in lengths:
        try:
            names.append(body[at : at + length].decode())
        except UnicodeDecodeError as fault:
            raise FormatError.expected(
                "names", "UTF-8", f"the byte 0x{body[at + fault.start]:02x}"
            ) from fault
        at += length
    return names, np.frombuffer(body, "<f4", m * k, vectors_at).reshape(m, k)


def pack_readouts(readouts: "Floats") -> bytes:
    """The body that replies with readouts `[m, w]`."""
    import numpy as np

    head = HEADER.pack(_REPLY, _VERSION, 0, *readouts.shape, 0)
    return head + np.ascontiguousarray(readouts, "<f4").tobytes()


def unpack_readouts(body: bytes) -> "Floats":
    """The readouts `[m, w]` of a reply.

    >>> import numpy as np
    >>> unpack_readouts(pack_readouts(np.ones((1, 2), np.float32))).tolist()
    [[1.0, 1.0]]
    """
    import numpy as np

    m, w, _ = _counts_in(body, _REPLY)
    if len(body) != HEADER.size + 4 * m * w:
        raise _wrong_length(HEADER.size + 4 * m * w, body)
    return np.frombuffer(body, "<f4", m * w, HEADER.size).reshape(m, w)


def _counts_in(body: bytes, magic: bytes) -> tuple[int, int, int]:
    """The three counts in a body's header."""
    if len(body) < HEADER.size:
        raise _wrong_length(HEADER.size, body)
    found, version, zero, a, b, c = HEADER.unpack_from(body)
    if (found, version, zero) != (magic, _VERSION, 0):
        expected, came = f"{magic!r}, version {_VERSION}", f"{found!r}, version {version}"
        raise FormatError.expected("vectors", expected, came, "see attar.vectors for the format")
    return a, b, c


def _wrong_length(expected: int, body: bytes) -> FormatError:
    """The error for a body whose length differs from what its header says."""
    return FormatError.expected("vectors", f"{expected:,} bytes, as the header says", f"{len(body):,}")
