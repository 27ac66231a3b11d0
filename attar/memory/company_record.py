"""A company as bytes that say what they are; its counts are read where they lie.

    at      bytes       what
    0       4           the id of name 0
    4       4           how many ids are names'
    8       4           c, how many names there are
    12      4           e, how many entries they have
    16      1           i, the bytes of an id: 2 or 4
    17      1           t, the bytes of a count: 1, 2 or 4
    18      2           0
    20      4 (c + 1)   where each name's entries begin; last e
            i e         ids, ascending within a name, then zeros up to a multiple of 4 bytes
            t e         how often each, from 1 up

Little-endian throughout. Nothing follows.
"""

import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from attar.errors import RecordError
from attar.memory.entries import Integers, narrow_ids, narrow_times

if TYPE_CHECKING:
    from attar.memory.company import Company

HEADER = struct.Struct("<IIIIBBxx")
START = np.dtype("<i4")
ID_TYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<u2"), 4: np.dtype("<i4")}
TIMES_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}

Bytes: TypeAlias = bytes | bytearray | memoryview


def write_company(company: "Company") -> bytes:
    """The company's bytes."""
    starts, ids, times = company.starts, company.ids, company.times
    header = HEADER.pack(company.first, company.limit, len(company), len(ids), ids.itemsize, times.itemsize)
    parts = (
        header,
        starts.astype(START, copy=False).tobytes(),
        ids.astype(ID_TYPES[ids.itemsize], copy=False).tobytes(),
        bytes(-ids.nbytes % 4),
        times.astype(TIMES_TYPES[times.itemsize], copy=False).tobytes(),
    )
    return b"".join(parts)


def read_company(buffer: Bytes, check: bool) -> tuple[Any, ...]:
    """A company's fields in their order, arrays over the buffer itself."""
    view = memoryview(buffer).toreadonly()
    if view.format != "B" or view.ndim != 1:
        view = view.cast("B")
    if len(view) < HEADER.size:
        raise damaged(f"{HEADER.size} bytes or more", str(len(view)))
    first, limit, count, entries, id_bytes, times_bytes = HEADER.unpack_from(view)
    if id_bytes not in ID_TYPES or times_bytes not in TIMES_TYPES:
        raise damaged("ids of 2 or 4 bytes and counts of 1, 2 or 4", f"{id_bytes} and {times_bytes}")
    ids_at = HEADER.size + 4 * (count + 1)
    times_at = ids_at + id_bytes * entries
    times_at += -times_at % 4
    if times_at + times_bytes * entries != len(view):
        wanted = f"{times_at + times_bytes * entries} bytes, as its header says"
        raise damaged(wanted, str(len(view)))
    starts: Integers = np.ndarray(count + 1, START, view, HEADER.size)
    ids: Integers = np.ndarray(entries, ID_TYPES[id_bytes], view, ids_at)
    times: Integers = np.ndarray(entries, TIMES_TYPES[times_bytes], view, times_at)
    if starts[0] != 0 or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
        raise damaged(f"names that share {entries} entries in order", "others")
    if check:
        check_entries(starts, ids, times, first, limit)
    return starts, ids, times, first, limit


def check_entries(starts: Integers, ids: Integers, times: Integers, first: int, limit: int) -> None:
    """Refuse entries that no counting gives."""
    inside = np.ones(max(len(ids) - 1, 0), np.bool_)
    borders = starts[1:-1]
    inside[borders[(borders > 0) & (borders < len(ids))] - 1] = False
    if (ids[1:] <= ids[:-1])[inside].any():
        raise damaged("ids that ascend within a name", "others")
    if ids.min(initial=first) < first:
        raise damaged(f"ids from {first} up", str(ids.min()))
    count = len(starts) - 1
    if count > limit:
        raise damaged(f"at most {limit} names", str(count))
    unmet = (ids >= first + count) & (ids < first + limit)
    if unmet.any():
        raise damaged(f"ids of the {count} names or of words", str(ids[unmet][0]))
    if not times.all():
        raise damaged("counts from 1 up", "0")
    if narrow_ids(ids).itemsize != ids.itemsize or narrow_times(times).itemsize != times.itemsize:
        raise damaged("ids and counts in as few bytes as hold them", f"{ids.dtype} and {times.dtype}")


def damaged(expected: str, came: str) -> RecordError:
    """What is said of bytes that no company was written as."""
    return RecordError("company", expected, came, "the record is damaged")
