"""The envelope around all that is kept, a memory and every value of a store: what it is, and one checksum.

Little-endian:

| bytes | content |
|---|---|
| 0-3 | `Attr` |
| 4-5 | the format's version, 1 |
| 6 | the kind: `m` for a memory; `attar.store.records` has the others |
| 7 | 0 |
| 8-11 | CRC-32 of the header without these four bytes, and of all that follows |
| 12-15 | the payload's length |
| 16 … | the payload |
"""

import struct
import zlib

from attar.errors import OptionError, RecordError

Buffer = bytes | bytearray | memoryview

VERSION = 1
# Nobody has written a memory or a text of 4 GB; the length has four bytes.
MOST_BYTES = 2**32 - 4096
# Magic, version, kind; then the checksum and the length.
_START = struct.Struct("<4sHcx")
_HEADER = struct.Struct("<8sII")
# What is before the payload.
ENVELOPE_BYTES = _HEADER.size
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
