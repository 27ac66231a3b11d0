"""Refitting the search of a library with Ray, or of one in shards: statistics are sums, which actors make in parts.

The result does not depend on the number of actors: each batch of texts is read by one, and sums are added in order.
"""

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attar.cluster.connection import connected
from attar.cluster.encoding import ReaderFiles, Workers, in_one_line
from attar.cluster.shards import is_sharded, shard_paths
from attar.library.library import Library
from attar.library.refitting import RefitCalls, RefitReader, calls_here, refit
from attar.progress import Progress, ignore_progress
from attar.results import Refit

# Batches that wait in an actor while it reads one.
_WAITING = 2
# How often a batch is read again whose actor died.
_RETRIES = 3


def fit_statistics(
    folder: str | os.PathLike[str],
    *,
    ray: bool = True,
    address: str | None = None,
    workers: Workers | None = None,
    reader: str | os.PathLike[str] | None = None,
    size: int | None = None,
    dtype: str | None = None,
    leave_out: bool = False,
    progress: Progress = ignore_progress,
) -> Refit:
    """Fit the statistics of search to the texts of a library, or of one in shards, and make all signatures again.

    All shards get the same statistics, and signatures of the `size` and `dtype` given, or else those of before. The
    actors of the cluster at `address` read (None starts Ray on this machine), or without `ray` this process does.
    """
    folder, path = Path(folder), None if reader is None else Path(reader)
    paths = shard_paths(folder) if is_sharded(folder) else [folder]
    with contextlib.ExitStack() as stack:
        libraries = [stack.enter_context(Library(each, path, create=False)) for each in paths]
        if ray:
            workers = workers or Workers()
            stack.enter_context(connected(address, (workers.actors or 1) * workers.threads))
            stack.enter_context(in_one_line())
            call = _calls_of_actors(ReaderFiles.of(libraries[0], path), workers)
        else:
            call = calls_here(libraries[0].reader)
        stores = [library.store for library in libraries]
        return refit(stores, call, size=size, dtype=dtype, leave_out=leave_out, progress=progress)


class _Actor:
    """Holds the reader, and reads batches of texts."""

    def __init__(self, files: ReaderFiles, workers: Workers) -> None:
        self._files, self._workers = files, workers
        self._reader: RefitReader | None = None

    def call(self, method: str, texts: list[str], *shared: Any) -> Any:
        """A method of `RefitReader`."""
        # Not when the actor starts: an error of a call comes back as it is.
        if self._reader is None:
            self._reader = RefitReader(self._files.load(self._workers))
        return getattr(self._reader, method)(texts, *shared)


def _calls_of_actors(files: ReaderFiles, workers: Workers) -> RefitCalls:
    """Calls of actors, in turn; a batch whose actor dies is read again by the one that Ray starts for it."""
    import ray

    kind = ray.remote(max_restarts=-1, max_task_retries=_RETRIES, **workers.resources())(_Actor)
    sent = ray.put(files)
    actors = [kind.remote(sent, workers) for _ in range(workers.count())]

    def call(method: str, batches: Iterable[list[str]], *shared: Any) -> Iterator[Any]:
        known = [ray.put(each) for each in shared]
        waiting: deque[Any] = deque()
        for number, batch in enumerate(batches):
            if len(waiting) >= _WAITING * len(actors):
                yield ray.get(waiting.popleft())
            waiting.append(actors[number % len(actors)].call.remote(method, batch, *known))
        while waiting:
            yield ray.get(waiting.popleft())

    return call
