"""The envelope around everything that the store writes: what it is, in which version, and a checksum.

| bytes | what |
|---|---|
| 0–3 | `Attr` |
| 4–5 | the format's version, little-endian as all of these |
| 6 | kind: `a` about the store, `f` facts, `m` memory, `t` text |
| 7 | p, the zero bytes between this header and the payload |
| 8–11 | CRC-32 of the header without these four bytes, and of all that follows |
| 12–15 | the payload's length |
| 16+p … | the payload |
"""

import struct
import zlib
from typing import Literal

from attar.errors import OptionError, RecordError
from attar.store.faults import quoted

Buffer = bytes | memoryview
Kind = Literal[b"a", b"f", b"m", b"t"]

VERSION = 1
MAGIC = b"Attr"
FIXED = struct.Struct("<4sHcB")
HEADER = struct.Struct("<8sII")
LIMIT = 2**32 - 4096

# LMDB puts a large value 16 bytes after a page's start. With these a memory starts at 64, a cache line.
PADDING: dict[Kind, int] = {b"a": 0, b"f": 0, b"m": 32, b"t": 0}
# Where the payload starts, and how the header does.
EXPECTED = {kind: (16 + p, FIXED.pack(MAGIC, VERSION, kind, p)) for kind, p in PADDING.items()}
WHAT: dict[Kind, str] = {b"a": "head", b"f": "facts", b"m": "memory", b"t": "text"}


def seal(kind: Kind, payload: Buffer, version: int | None = None) -> bytes:
    """Put a payload into its envelope.

    >>> bytes(payload_of(b"f", seal(b"f", b"some facts"), "emma"))
    b'some facts'
    """
    if len(payload) > LIMIT:
        raise OptionError(WHAT[kind], f"at most {LIMIT:,} bytes", f"{len(payload):,}", "split the document")
    padding = PADDING[kind]
    start = FIXED.pack(MAGIC, VERSION if version is None else version, kind, padding)
    length = len(payload).to_bytes(4, "little")
    zeros = bytes(padding)
    crc = zlib.crc32(payload, zlib.crc32(start + length + zeros))
    return b"".join((start, crc.to_bytes(4, "little"), length, zeros, payload))


def payload_of(kind: Kind, value: Buffer, name: str, check: bool = True) -> memoryview:
    """Give the payload of an envelope, without copying; `check=False` skips the checksum only."""
    view = value if type(value) is memoryview else memoryview(value)
    start, expected = EXPECTED[kind]
    whole = len(view)
    if whole < start:
        raise _broken(kind, name, f"{whole} bytes of it")
    fixed, crc, length = HEADER.unpack_from(view)
    if fixed != expected:
        raise _unexpected(kind, name, view)
    if length != whole - start:
        raise _broken(kind, name, f"{whole - start:,} of {length:,} bytes")
    if check and crc != checksum(view):
        raise _broken(kind, name, "a wrong checksum")
    return view[start:]


def version_of(value: Buffer) -> int:
    """Give the version that an envelope was written in; 0 where it is none.

    >>> version_of(seal(b"a", b"")), version_of(b"something else")
    (1, 0)
    """
    if len(value) < 16 or bytes(value[:4]) != MAGIC:
        return 0
    return int.from_bytes(value[4:6], "little")


def checksum(value: Buffer) -> int:
    """Work out the checksum that belongs into an envelope."""
    view = memoryview(value)
    return zlib.crc32(view[12:], zlib.crc32(view[:8]))


def _unexpected(kind: Kind, name: str, view: memoryview) -> RecordError:
    version = version_of(view)
    # A flipped bit in the version must not pass for a newer one.
    if version in (0, VERSION) or checksum(view) != HEADER.unpack_from(view)[1]:
        return _broken(kind, name, "other bytes")
    remedy = (
        "update attar" if version > VERSION else "open the store for writing once, which brings it up to date"
    )
    return RecordError(f"{WHAT[kind]} of {quoted(name)}", f"version {VERSION}", f"version {version}", remedy)


def _broken(kind: Kind, name: str, came: str) -> RecordError:
    remedy = "add the document again, or restore the store from a copy"
    return RecordError(f"{WHAT[kind]} of {quoted(name)}", "a whole record", came, remedy)
