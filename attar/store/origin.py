"""Where a document came from: its file, its own date, and the parts of its text, such as pages."""

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple

import msgspec

from attar.errors import RecordError, quoted

# Where each part begins, in characters of the text, and its label; an empty label ends the part before.
Parts = Sequence[tuple[int, str]]

# The most bytes of a document's parts, decompressed.
_MOST = 2**24
_parts = msgspec.msgpack.Decoder(list[tuple[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)], str]])


class Origin(NamedTuple):
    """The file that a document was read from, its own date, its parts, and what of the file its text is without."""

    source: str = ""
    date: str = ""
    parts: Parts = ()
    incomplete: str = ""


def pack_parts(parts: Parts) -> bytes:
    """The bytes that keep the parts of a text: decoded only for an answer, so that lists stay quick.

    >>> unpack_parts(pack_parts([(0, "page 1"), (900, "page 2")]), "emma")
    [(0, 'page 1'), (900, 'page 2')]
    """
    return zlib.compress(msgspec.msgpack.encode(list(parts)), 1) if parts else b""


def unpack_parts(data: bytes, name: str) -> list[tuple[int, str]]:
    """The parts of a text, checked: they are in the order of their places."""
    if not data:
        return []
    try:
        decompressor = zlib.decompressobj()
        parts = _parts.decode(decompressor.decompress(data, _MOST))
        if not decompressor.eof or any(a > b for (a, _), (b, _) in pairwise(parts)):
            raise ValueError("too many, or not in order")
    except (zlib.error, msgspec.DecodeError, ValueError) as fault:
        raise RecordError.expected(f"parts of {quoted(name)}", "places and labels", str(fault)) from fault
    return parts
