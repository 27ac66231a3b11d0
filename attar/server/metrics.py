"""Metrics for Prometheus, summed over all worker processes.

Counting is ours, since every request does it: 0.6 µs, for which prometheus_client's counters of several processes
take 4 to 6, leave a file for each process that ever was, and have no `process_…`. The text is prometheus_client's.
"""

import fcntl
import mmap
import os
import platform
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

import attar
from attar.errors import OptionError
from attar.server.problems import TITLES
from attar.store.maintenance import Stats

# More rows than one machine runs worker processes.
_MAX_PROCESSES = 64
# Routes that are none of the API: static files, paths below /v1 that there are not, and what is refused as HTTP.
PAGE, UNMATCHED, CONNECTION = "page", "unmatched", "connection"
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

Work = Literal["ask"]
_WORK: tuple[Work, ...] = ("ask",)
Counts = NDArray[np.float64]


class SharedCounters:
    """Counters of several processes in one file: each process writes its own row, any of them sums all rows.

    A process holds its row by a lock on one byte of the file. When it is killed the lock is released, and the next
    process takes the row over with its counts: totals never go down.

    >>> counters = SharedCounters(3)
    >>> counters.own[1] += 2
    >>> counters.all().tolist()
    [[0.0, 2.0, 0.0]]
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

    def all(self) -> Counts:
        """The counts of all processes `[processes, width]`."""
        return self._all.copy()

    def _lock_free_row(self) -> int:
        for row in range(_MAX_PROCESSES):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
            except OSError:
                continue
            return row
        raise OptionError.expected("--workers", f"at most {_MAX_PROCESSES} processes", "more")


class Metrics(Collector):
    """Requests, latencies, batches and queues of the given routes.

    >>> metrics = Metrics(["ask"])
    >>> metrics.count_request("ask", 200, 0.003)
    >>> b'attar_requests_total{route="ask",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self, routes: Sequence[str], path: Path | None = None) -> None:
        self._width = 0
        labels = *routes, PAGE, UNMATCHED, CONNECTION
        self._requests = {route: self._columns(len(_STATUSES)) for route in labels}
        # A histogram is its buckets, the one without a limit, and the sum.
        self._latencies = {route: self._columns(len(_SECONDS) + 2) for route in labels}
        self._batches = {work: self._columns(len(_SIZES) + 2) for work in _WORK}
        self._gauges = self._columns(1 + len(_WORK))
        self._process = self._columns(1)
        self._counters = SharedCounters(self._width, path)
        self._counters.own[self._gauges] = 0
        self._counters.own[self._process] = os.getpid()
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
        """Count a batch of questions."""
        self._observe(self._batches[work], _SIZES, size)

    def set_in_flight(self, requests: int) -> None:
        """Set the number of requests that are being answered."""
        self._own[self._gauges.start] = requests

    def set_queue_length(self, work: Work, length: int) -> None:
        """Set the number of questions that wait."""
        self._own[self._gauges.start + 1 + _WORK.index(work)] = length

    def _observe(self, columns: slice, limits: Sequence[float], value: float) -> None:
        self._own[columns.start + bisect_left(limits, value)] += 1
        self._own[columns.stop - 1] += value

    def text(self, store: Stats | None = None, reader: str = "") -> bytes:
        """All metrics in Prometheus's text format, with the totals of a store and the fingerprint of its reader."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        registry.register(_Server(store, reader))
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the sums over all processes, and what each of them uses."""
        rows = self._counters.all()
        sums = rows.sum(0)
        requests = CounterMetricFamily("attar_requests", "Answered requests.", labels=["route", "status"])
        for route, columns in self._requests.items():
            for status, count in zip(_STATUSES, sums[columns], strict=True):
                if count:
                    requests.add_metric([route, "other" if status == _OTHER else str(status)], count)
        yield requests
        yield _histogram(
            "attar_request_seconds",
            "Seconds from a request to its answer.",
            "route",
            _SECONDS,
            self._latencies,
            sums,
        )
        yield _histogram("attar_batch_size", "Questions per batch.", "work", _SIZES, self._batches, sums)
        # What a killed process had in flight is lost with it.
        processes = {
            row: int(each) for row, each in enumerate(rows[:, self._process.start]) if _is_alive(int(each))
        }
        in_flight, *waiting = rows[list(processes), self._gauges].sum(0)
        yield GaugeMetricFamily("attar_requests_in_flight", "Requests that are being answered.", in_flight)
        queues = GaugeMetricFamily("attar_queue_length", "Questions that wait.", labels=["work"])
        for work, length in zip(_WORK, waiting, strict=True):
            queues.add_metric([work], length)
        yield queues
        yield from _processes(processes)


class _Server(Collector):
    """The version, the reader and the store."""

    def __init__(self, store: Stats | None, reader: str) -> None:
        self._store, self._reader = store, reader

    def collect(self) -> Iterator[Metric]:
        versions = {"version": attar.__version__, "python": platform.python_version(), "reader": self._reader}
        yield InfoMetricFamily(
            "attar_build", "Versions of the package and of Python, and the reader.", versions
        )
        for name, text in _STORE.items() if self._store is not None else ():
            yield GaugeMetricFamily(f"attar_store_{name}", text, getattr(self._store, name))


def _histogram(
    name: str, text: str, label: str, limits: Sequence[float], columns: dict[Any, slice], sums: Counts
) -> Metric:
    """A histogram, without the labels for which nothing was counted."""
    family = HistogramMetricFamily(name, text, labels=[label])
    bounds = [*(f"{limit:g}" for limit in limits), "+Inf"]
    for value, where in columns.items():
        *counts, total = sums[where]
        if any(counts):
            cumulative = np.cumsum(counts).tolist()
            family.add_metric([value], list(zip(bounds, cumulative, strict=True)), total)
    return family


def _is_alive(process: int) -> bool:
    if not process:
        return False  # a row that was never taken
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _processes(processes: Mapping[int, int]) -> list[Metric]:
    """Memory, CPU time and open files of each process, labelled by its row."""
    families: dict[str, Metric] = {}
    for row, process in processes.items():
        for metric in ProcessCollector(pid=partial(int, process), registry=None).collect():
            family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            for sample in metric.samples:
                family.add_sample(sample.name, {"worker": str(row)}, sample.value)
    return list(families.values())
