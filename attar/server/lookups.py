"""Raw lookups of requests: at once where that is soon done, on a thread where it is not."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attar.errors import AttarError, OptionError, ShapeError
from attar.memory import Floats
from attar.server.requests import all_finite
from attar.store import Snapshot, Store

# Lookups that take less time, some 10 µs each, than it takes to wake a thread and to be woken, in memories of
# so many bytes together; softmax over a long document takes its time.
AT_ONCE, AT_ONCE_BYTES = 16, 2**19


class LookupJob(NamedTuple):
    """Vectors `[m, k]` of one request; one name for all, or one for each; packed, readouts are of one width."""

    names: list[str]
    vectors: Floats
    packed: bool


class Read(NamedTuple):
    """Readouts, one for each vector, and the memories' bytes."""

    readouts: Sequence[Floats] | Floats
    bytes: int


def look_up_at_once(store: Store, job: LookupJob) -> Read | None:
    """What is soon looked up; None where that takes its time, or where there is something to say about it."""
    if len(job.vectors) > AT_ONCE:
        return None
    try:
        with store.snapshot() as now:
            names = job.names if len(job.names) == 1 else set(job.names)
            read = sum([len(now.view(name)) for name in names])
            if read > AT_ONCE_BYTES:
                return None
            readouts = readouts_of(now, job)
    except AttarError:
        return None
    return Read(readouts, read) if finite(readouts) else None


def look_up(store: Store, job: LookupJob) -> Read | Exception:
    """What is looked up, or what is wrong with it."""
    try:
        with store.snapshot() as now:
            readouts = readouts_of(now, job)
            # Nobody is told of packed ones, and to look at a thousand names takes as long as the lookups.
            read = 0 if job.packed else sum(len(now.view(name)) for name in set(job.names))
    except AttarError as fault:
        return fault
    if not finite(readouts):
        return OptionError("vectors", "numbers whose readouts a float32 can hold", "larger ones")
    return Read(readouts, read)


def readouts_of(now: Snapshot, job: LookupJob) -> Sequence[Floats] | Floats:
    """The readout of each vector; packed ones as one array, the narrower filled up with zeros."""
    names, vectors, packed = job
    if len(names) == 1:
        return now.lookup(names[0], vectors)
    if packed:
        # Refused where widths differ, or where sizes do not fit: then each says for itself which.
        with contextlib.suppress(ShapeError):
            return now.lookup_many(names, vectors)
    each = [now.lookup(name, vector[None])[0] for name, vector in zip(names, vectors, strict=True)]
    if not packed:
        return each
    filled = np.zeros((len(each), max(map(len, each))), np.float32)
    for row, readout in zip(filled, each, strict=True):
        row[: len(readout)] = readout
    return filled


def finite(readouts: Sequence[Floats] | Floats) -> bool:
    """Whether every number of every readout is one."""
    return all_finite(readouts) if isinstance(readouts, np.ndarray) else all(map(all_finite, readouts))
