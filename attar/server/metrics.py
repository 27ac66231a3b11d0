"""Metrics in Prometheus's text format, summed over all worker processes."""

import fcntl
import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.server.problems import TITLES
from attar.store import Stats

# More rows than one machine runs worker processes.
_MAX_PROCESSES = 64
# Static files, and requests that match no route.
PAGE = "page"
_OTHER = 0
_STATUSES = (200, 201, 204, 304, *TITLES, 499, _OTHER)
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_STORE = {
    "documents": "Documents in the store.",
    "tokens": "Tokens of all documents.",
    "memory_bytes": "Bytes of all memories.",
    "file_bytes": "Bytes of the store's file.",
    "readers": "Reader slots in use.",
}

Work = Literal["ask", "lookup"]
_WORK: tuple[Work, ...] = ("ask", "lookup")
Counts = NDArray[np.float64]


class SharedCounters:
    """Counters of several processes in one file: each process writes its own row, any of them sums all rows.

    A process holds its row by a lock on one byte of the file. When it is killed the lock is released, and the next
    process takes the row over with its counts: totals never go down.

    >>> counters = SharedCounters(3)
    >>> counters.own[1] += 2
    >>> counters.sums().tolist()
    [0.0, 2.0, 0.0]
    """

    def __init__(self, width: int, path: Path | None = None) -> None:
        if path is None:
            self._all: Counts = np.zeros((1, width))
            self.row = 0
        else:
            # Never closed: the lock must last as long as the process.
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            size = 8 * width * _MAX_PROCESSES
            os.ftruncate(self._file, size)
            self._all = np.frombuffer(mmap.mmap(self._file, size), np.float64).reshape(-1, width)
            self.row = self._lock_free_row()
        self.own = self._all[self.row]

    def sums(self) -> Counts:
        """The sums over all processes `[width]`."""
        total: Counts = self._all.sum(0)
        return total

    def _lock_free_row(self) -> int:
        for row in range(_MAX_PROCESSES):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
            except OSError:
                continue
            return row
        raise OptionError("--workers", f"at most {_MAX_PROCESSES} processes", "more")


class Metrics:
    """Requests, latencies, batches and queues of the given routes.

    >>> metrics = Metrics(["ask"])
    >>> metrics.count_request("ask", 200, 0.003)
    >>> [line for line in metrics.lines() if line.startswith("attar_requests_total")]
    ['attar_requests_total{route="ask",status="200"} 1']
    """

    def __init__(self, routes: Sequence[str], path: Path | None = None) -> None:
        self._width = 0
        self._requests = {route: self._columns(len(_STATUSES)) for route in (*routes, PAGE)}
        # A histogram is its buckets, the one without a limit, and the sum.
        self._latencies = {route: self._columns(len(_SECONDS) + 2) for route in self._requests}
        self._batches = {work: self._columns(len(_SIZES) + 2) for work in _WORK}
        self._gauges = self._columns(1 + len(_WORK))
        self._counters = SharedCounters(self._width, path)
        # What a killed process had in flight is lost with it.
        self._counters.own[self._gauges] = 0
        # Incrementing through a memoryview takes a third of the time that numpy takes.
        self._own: Any = memoryview(self._counters.own)

    def _columns(self, count: int) -> slice:
        self._width += count
        return slice(self._width - count, self._width)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        status = status if status in _STATUSES else _OTHER
        self._own[self._requests[route].start + _STATUSES.index(status)] += 1
        self._observe(self._latencies[route], _SECONDS, seconds)

    def count_batch(self, work: Work, size: int) -> None:
        """Count a batch of questions or lookups."""
        self._observe(self._batches[work], _SIZES, size)

    def set_in_flight(self, requests: int) -> None:
        """Set the number of requests that are being answered."""
        self._own[self._gauges.start] = requests

    def set_queue_length(self, work: Work, length: int) -> None:
        """Set the number of questions or lookups that wait."""
        self._own[self._gauges.start + 1 + _WORK.index(work)] = length

    def _observe(self, columns: slice, limits: Sequence[float], value: float) -> None:
        self._own[columns.start + bisect_left(limits, value)] += 1
        self._own[columns.stop - 1] += value

    def lines(self, store: Stats | None = None) -> Iterator[str]:
        """Yield the lines of the text format, with sums over all processes."""
        sums = self._counters.sums()
        yield from _header("attar_requests_total", "counter", "Answered requests.")
        for route, columns in self._requests.items():
            for status, count in zip(_STATUSES, sums[columns], strict=True):
                if count:
                    labels = f'route="{route}",status="{"other" if status == _OTHER else status}"'
                    yield f"attar_requests_total{{{labels}}} {_number(count)}"
        yield from _header("attar_request_seconds", "histogram", "Seconds from a request to its answer.")
        for route, columns in self._latencies.items():
            yield from _histogram("attar_request_seconds", f'route="{route}"', _SECONDS, sums[columns])
        yield from _header("attar_batch_size", "histogram", "Questions or lookups per batch.")
        for work, columns in self._batches.items():
            yield from _histogram("attar_batch_size", f'work="{work}"', _SIZES, sums[columns])
        in_flight, *waiting = sums[self._gauges]
        yield from _header("attar_requests_in_flight", "gauge", "Requests that are being answered.")
        yield f"attar_requests_in_flight {_number(in_flight)}"
        yield from _header("attar_queue_length", "gauge", "Questions or lookups that wait.")
        for work, length in zip(_WORK, waiting, strict=True):
            yield f'attar_queue_length{{work="{work}"}} {_number(length)}'
        for name, text in _STORE.items() if store is not None else ():
            yield from _header(f"attar_store_{name}", "gauge", text)
            yield f"attar_store_{name} {getattr(store, name)}"


def _histogram(name: str, label: str, limits: Sequence[float], counts: Counts) -> Iterator[str]:
    """Yield a histogram's lines; none if nothing was counted.

    >>> list(_histogram("size", 'work="ask"', [1], np.array([2.0, 1.0, 7.0])))[1:3]
    ['size_bucket{work="ask",le="+Inf"} 3', 'size_sum{work="ask"} 7']
    """
    *buckets, total = counts[:-1].cumsum()
    if not total:
        return
    for limit, count in zip(limits, buckets, strict=True):
        yield f'{name}_bucket{{{label},le="{limit:g}"}} {_number(count)}'
    yield f'{name}_bucket{{{label},le="+Inf"}} {_number(total)}'
    yield f"{name}_sum{{{label}}} {_number(counts[-1])}"
    yield f"{name}_count{{{label}}} {_number(total)}"


def _header(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _number(value: float) -> str:
    """A number without needless digits.

    >>> _number(3.0), _number(0.25)
    ('3', '0.25')
    """
    return str(int(value)) if value == int(value) else repr(float(value))
