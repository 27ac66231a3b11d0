"""Counting which tokens share a sentence with each name, as a sparse matrix in CSR form.

    starts      [rows + 1]  int32                       where each row's entries begin
    ids         [e]         uint16 or int32             column numbers, ascending within a row
    times       [e]         uint8, uint16 or uint32     counts, at least 1

Arrays have the smallest of their types that holds all values, so equal counts have equal bytes. All work is done on
keys, row · 2^bits + id: sorted keys are rows of ascending ids.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attar.errors import OptionError, ShapeError

Integers: TypeAlias = NDArray[np.integer[Any]]
Entries: TypeAlias = tuple[NDArray[np.int32], Integers, Integers]  # starts, ids, times

ID_TYPES = (np.uint16, np.int32)
TIMES_TYPES = (np.uint8, np.uint16, np.uint32)


def number_sentences(sentence_ends: ArrayLike, lengths: Sequence[int]) -> NDArray[np.int64]:
    """The number of each token's sentence `[n]`; the end of a text also ends a sentence.

    >>> number_sentences([0, 1, 0, 0, 0], [3, 2]).tolist()
    [0, 0, 1, 2, 2]
    """
    ends = np.array(sentence_ends, np.bool_)
    if ends.shape != (sum(lengths),):
        raise ShapeError.expected(
            "sentence ends", f"[{sum(lengths)}], as long as the texts", str(list(ends.shape))
        )
    ends[[stop - 1 for stop in accumulate(lengths) if stop]] = True
    sentences = ends.cumsum()
    sentences -= ends
    return sentences


def check_names(mentioned: Integers, ids: Integers, counts: Integers) -> None:
    """Refuse names that the text does not have, and names whose id belongs to another name."""
    wrong = (mentioned >= counts) | (ids != mentioned)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        expected = f"numbers below {counts[at]}, and name j with the id first + j"
        raise OptionError.expected("names", expected, f"name {mentioned[at]} with the id first + {ids[at]}")


def split_texts(keys: Integers, times: Integers, bits: int, rows: Integers) -> list[Entries]:
    """The entries of each text; text i has the rows from rows[i] up to rows[i + 1]."""
    starts, ids, times = entries_of(keys, times, bits, int(rows[-1]))
    if len(rows) == 2:
        return [(starts, ids, times)]
    entries = []
    for a, b in pairwise(rows.tolist()):
        part = slice(starts[a], starts[b])
        # Copied, so that one text's entries do not keep the arrays of all texts alive.
        own_ids, own_times = narrow(ids[part].copy(), ID_TYPES), narrow(times[part].copy(), TIMES_TYPES)
        entries.append((starts[a : b + 1] - starts[a], own_ids, own_times))
    return entries


def bits_for(ids: Integers) -> int:
    """How many bits the largest id takes.

    >>> bits_for(np.array([3, 8])), bits_for(np.array([], int))
    (4, 0)
    """
    return int(ids.max(initial=0)).bit_length()


def entries_of(keys: Integers, times: Integers, bits: int, rows: int) -> Entries:
    """The entries of distinct ascending keys `[e]` and their counts.

    >>> [part.tolist() for part in entries_of(np.array([1, 2, 5]), np.array([7, 8, 9]), 2, 3)]
    [[0, 2, 3, 3], [1, 2, 1], [7, 8, 9]]
    """
    starts = row_starts(keys, bits, rows).astype(np.int32)
    return starts, narrow(keys & ((1 << bits) - 1), ID_TYPES), narrow(times, TIMES_TYPES)


def row_starts(keys: Integers, bits: int, rows: int) -> NDArray[np.intp]:
    """Where each row's keys begin `[rows + 1]`; the last is where all end."""
    # In the type of the keys: otherwise searchsorted would convert all of them.
    return keys.searchsorted(np.arange(rows + 1, dtype=keys.dtype) << bits)


def sum_by_key(
    keys: NDArray[np.int64], times: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct keys, ascending, and the sum of counts of each; keys with the sum 0 are left out.

    >>> [part.tolist() for part in sum_by_key(np.array([4, 2, 4, 9, 9]), np.array([1, 5, 2, 3, -3]))]
    [[2, 4], [5, 3]]
    """
    if not len(keys):
        return keys, times
    # A stable sort merges parts that are sorted already, as those of two memories are: six times faster.
    order = keys.argsort(kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    sums = np.add.reduceat(times[order], firsts)
    nonzero = sums != 0
    return keys[firsts][nonzero], sums[nonzero]


def narrow(values: Integers, kinds: tuple[type[np.integer[Any]], ...]) -> Integers:
    """The values in the first of the types that holds them all.

    >>> [narrow(np.array([most]), TIMES_TYPES).dtype.name for most in (255, 256, 65536)]
    ['uint8', 'uint16', 'uint32']
    """
    if values.dtype == kinds[0]:
        return values
    largest = int(values.max(initial=0))
    for kind in kinds:
        if largest <= np.iinfo(kind).max:
            return values.astype(kind, copy=False)
    raise OptionError.expected(
        "co-occurrence", f"ids and counts up to {np.iinfo(kinds[-1]).max}", str(largest)
    )
