"""Counts that are mostly zero, in rows: of each row only the ids that occur, ascending, and how often.

    starts      [rows + 1]  int32                       where each row's entries begin
    ids         [e]         uint16, or int32            ascending within a row
    times       [e]         uint8, uint16 or uint32     from 1 up

Of the types the smallest that holds all: equal counts have equal bytes. A key is an id behind its row's number,
row · 2^bits + id, so that sorted keys are rows of ascending ids.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError

Integers: TypeAlias = NDArray[np.integer[Any]]
Entries: TypeAlias = tuple[NDArray[np.int32], Integers, Integers]

ID_TYPES = (np.uint16, np.int32)
TIMES_TYPES = (np.uint8, np.uint16, np.uint32)


def bits_for(ids: Integers) -> int:
    """How many bits the highest of the ids takes.

    >>> bits_for(np.array([3, 8])), bits_for(np.array([], int))
    (4, 0)
    """
    return int(ids.max(initial=0)).bit_length()


def entries_of(keys: Integers, times: Integers, bits: int, rows: int) -> Entries:
    """The rows of distinct ascending keys `[e]` and their times.

    >>> [part.tolist() for part in entries_of(np.array([1, 2, 5]), np.array([7, 8, 9]), 2, 3)]
    [[0, 2, 3, 3], [1, 2, 1], [7, 8, 9]]
    """
    starts = starts_of(keys, bits, rows).astype(np.int32)
    return starts, narrow_ids(keys & ((1 << bits) - 1)), narrow_times(times)


def starts_of(keys: Integers, bits: int, rows: int) -> NDArray[np.intp]:
    """Where each row's keys begin `[rows + 1]`, the last being where all end."""
    # In the keys' own type: for another, searchsorted would convert all keys.
    return keys.searchsorted(np.arange(rows + 1, dtype=keys.dtype) << bits)


def keys_of(starts: Integers, ids: Integers, bits: int) -> NDArray[np.int64]:
    """The keys `[e]` of rows."""
    rows = np.arange(len(starts) - 1, dtype=np.int64) << bits
    return rows.repeat(np.diff(starts)) | ids


def distinct(keys: Integers) -> tuple[Integers, Integers]:
    """The distinct keys, ascending, and how often each is there; sorts what it is given.

    >>> [part.tolist() for part in distinct(np.array([4, 2, 4]))]
    [[2, 4], [1, 2]]
    """
    keys.sort()
    borders = borders_of(keys)
    return keys.take(borders[:-1]), borders[1:] - borders[:-1]


def summed(keys: NDArray[np.int64], times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct keys, ascending, and the sum of each one's times; keys whose times cancel out are left.

    >>> [part.tolist() for part in summed(np.array([4, 2, 4, 9, 9]), np.array([1, 5, 2, 3, -3]))]
    [[2, 4], [5, 3]]
    """
    if not len(keys):
        return keys, times
    # Stable sorting merges runs that are sorted already, as those of two memories are: a sixth of the time.
    order = keys.argsort(kind="stable")
    keys = keys[order]
    firsts = borders_of(keys)[:-1]
    sums = np.add.reduceat(times[order], firsts)
    there = sums != 0
    return keys[firsts][there], sums[there]


def borders_of(keys: Integers) -> NDArray[np.intp]:
    """Where each distinct key of sorted ones begins, and where the last ends.

    >>> borders_of(np.array([2, 4, 4])).tolist(), borders_of(np.array([], int)).tolist()
    ([0, 1, 3], [0])
    """
    new = np.empty(len(keys) + 1, np.bool_)
    new[0] = new[-1] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:-1])
    return np.flatnonzero(new)


def narrow_ids(ids: Integers) -> Integers:
    """Ids in the type that they are kept in."""
    return narrowed(ids, ID_TYPES)


def narrow_times(times: Integers) -> Integers:
    """Times in the type that they are kept in.

    >>> [narrow_times(np.array([most])).dtype.name for most in (255, 256, 65536)]
    ['uint8', 'uint16', 'uint32']
    """
    return narrowed(times, TIMES_TYPES)


def narrowed(counts: Integers, kinds: tuple[type[np.integer[Any]], ...]) -> Integers:
    """Numbers from 0 up in the first of the types that holds them all."""
    if counts.dtype == kinds[0]:
        return counts
    most = int(counts.max(initial=0))
    for kind in kinds:
        if most <= np.iinfo(kind).max:
            return counts.astype(kind, copy=False)
    raise OptionError("company", f"ids and counts up to {np.iinfo(kinds[-1]).max}", str(most))
