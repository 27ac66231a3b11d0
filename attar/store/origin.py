"""Where a document came from: its file, its own date, and the parts of its text, such as pages."""

import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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


def place_in(parts: Parts, character: int) -> str | None:
    """The label of the part that holds a character.

    >>> parts = [(0, "page 1"), (900, "page 2"), (950, "")]
    >>> place_in(parts, 899), place_in(parts, 900), place_in(parts, 999), place_in([], 0)
    ('page 1', 'page 2', None, None)
    """
    at = bisect_right(parts, character, key=lambda part: part[0])
    return (parts[at - 1][1] or None) if at else None


def shifted(parts: Parts, characters: int) -> list[tuple[int, str]]:
    """The parts of a text that begins later in another.

    >>> shifted([(0, "page 1")], 50)
    [(50, 'page 1')]
    """
    return [(start + characters, label) for start, label in parts]


def joined_parts(texts: Iterable[tuple[str, Parts, int]], joint: int) -> list[tuple[int, str]]:
    """The parts of a text of several: each text's name, parts and length; they are `joint` characters apart.

    >>> joined_parts([("a.pdf", [(0, "page 1")], 50), ("b", [], 9)], 2)
    [(0, 'a.pdf, page 1'), (52, 'b')]
    """
    parts: list[tuple[int, str]] = []
    start = 0
    for name, own, length in texts:
        labelled = [(at, f"{name}, {label}" if label else name) for at, label in own]
        first = [] if labelled and labelled[0][0] == 0 else [(0, name)]
        parts += shifted([*first, *labelled], start)
        start += length + (joint if start + length else 0)
    return parts
