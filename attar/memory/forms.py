"""The two forms of a memory: the shape of its numbers, how a query reads it, int8, and the envelope around bytes.

form        numbers         lookup                  contents
phrases     [count, k]      C q                     one vector per phrase, one score per phrase
ridge       [k, d + k]      Cᵀ (G + λI)⁻¹ q         C = Σ key valueᵀ of phrases, next to G = Σ key keyᵀ

Numbers are kept in int8 with one scale per row, its largest |x_ij|: x_ij ≈ scale_i Q_ij / 127.
"""

import struct
import zlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, RecordError

Floats = NDArray[np.float32]
Form = Literal["phrases", "ridge"]

# The position is the code in a record.
FORMS: tuple[Form, ...] = ("phrases", "ridge")
# The largest |Q_ij|.
_LEVELS = 127
# λ of the ridge, compared with the mean of G's diagonal.
RIDGE = 0.1


def quantize(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows in int8, and their scales.

    >>> [array.tolist() for array in quantize(np.array([[4.0, -2.0], [0.0, 0.0]], np.float32))]
    [[[127, -64], [0, 0]], [4.0, 0.0]]
    """
    scales = np.abs(numbers).max(-1, keepdims=True, initial=0.0)
    levels = np.divide(numbers, scales, out=np.zeros_like(numbers), where=scales > 0) * _LEVELS
    return np.rint(levels).astype(np.int8), scales.reshape(-1)


def dequantize(numbers: NDArray[np.int8], scales: Floats) -> Floats:
    """Rows in float32.

    >>> dequantize(np.array([[127, -127]], np.int8), np.array([3.0], np.float32)).tolist()
    [[3.0, -3.0]]
    """
    floats: Floats = numbers * (scales[:, None] / np.float32(_LEVELS))
    return floats


def look_up_ridge(sums: Floats, queries: Floats) -> Floats:
    """Cᵀ (G + λI)⁻¹ q per query `[m, k]`, of C `[k, d]` next to G `[k, k]`; zeros if nothing was written.

    >>> look_up_ridge(np.array([[3.0, 0.9, 0.0], [5.0, 0.0, 0.9]], np.float32), np.eye(2, dtype=np.float32)).round(2)
    array([[3.03],
           [5.05]], dtype=float32)
    """
    k = len(sums)
    C, G = sums[:, :-k].astype(np.float64), sums[:, -k:].astype(np.float64)
    ridge = RIDGE * np.trace(G) / k
    if ridge <= 0:
        return np.zeros((len(queries), C.shape[1]), np.float32)
    readouts: Floats = (queries @ np.linalg.solve(G + ridge * np.eye(k), C)).astype(np.float32)
    return readouts


Buffer = bytes | bytearray | memoryview

VERSION = 1
# Nobody has written a memory or a text of 4 GB; the length has four bytes.
MOST_BYTES = 2**32 - 4096
# Magic, version, kind; then the checksum and the length.
_START = struct.Struct("<4sHcx")
_HEADER = struct.Struct("<8sII")
_MAGIC = b"Attr"
_LENGTH_AT = 12
_REMEDY = "add the document again, or restore the store from a copy"


def wrap(kind: bytes, payload: Buffer, what: str) -> bytes:
    """Put a payload into an envelope; `what` names it in an error message.

    >>> bytes(unwrap(b"f", wrap(b"f", b"an entry", "entry"), "entry"))
    b'an entry'
    """
    if len(payload) > MOST_BYTES:
        expected = f"at most {MOST_BYTES:,} bytes"
        raise OptionError.expected(what, expected, f"{len(payload):,}", "split the document")
    start, length = _START.pack(_MAGIC, VERSION, kind), len(payload).to_bytes(4, "little")
    checksum = zlib.crc32(payload, zlib.crc32(start + length))
    return b"".join((start, checksum.to_bytes(4, "little"), length, payload))


def unwrap(kind: bytes, value: Buffer, what: str) -> memoryview:
    """Return the payload of an envelope, without copying, its checksum verified."""
    view = memoryview(value)
    if len(view) < _HEADER.size:
        raise RecordError(f"{what} is damaged: {len(view)} bytes are left", _REMEDY)
    start, checksum, length = _HEADER.unpack_from(view)
    magic, version, written_kind = _START.unpack(start)
    if magic != _MAGIC:
        raise RecordError(f"{what} is damaged, or not a record of Attar", _REMEDY)
    if zlib.crc32(view[_LENGTH_AT:], zlib.crc32(start)) != checksum or length != len(view) - _HEADER.size:
        raise RecordError(f"{what} is damaged: its checksum is wrong", _REMEDY)
    if version != VERSION:
        raise RecordError(f"{what} was written by a newer Attar, in version {version}", "update attar")
    if written_kind != kind:
        raise RecordError(f"{what} is a record of another kind", _REMEDY)
    return view[_HEADER.size :]
