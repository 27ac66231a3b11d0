"""Metrics for Prometheus. Worker processes share them in a folder, by prometheus_client's own multiprocess mode."""

import os
import platform
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

import attar

if TYPE_CHECKING:
    from attar.store.maintenance import Stats

# prometheus_client reads this variable when it is imported; `attar.server.run` sets it for several workers.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_STORE = {
    "documents": "Documents in the store.",
    "tokens": "Tokens of all documents.",
    "memory_bytes": "Bytes of all memories.",
    "file_bytes": "Bytes of the store's file.",
    "readers": "Reader slots in use.",
}


class Metrics:
    """Requests, latencies, batches and the queue of questions.

    >>> metrics = Metrics()
    >>> metrics.count_request("ask", 200, 0.003)
    >>> b'attar_requests_total{route="ask",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._folder = os.environ.get(FOLDER)
        # What a killed worker had in flight is lost with it; its counts stay.
        for process in _processes(self._folder):
            if not _is_alive(process):
                mark_process_dead(process)  # type: ignore[no-untyped-call]
        own = self._own = CollectorRegistry()
        self._requests = Counter("attar_requests", "Answered requests.", ["route", "status"], registry=own)
        self._latencies = Histogram(
            "attar_request_seconds",
            "Seconds from a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=own,
        )
        self._batches = Histogram("attar_batch_size", "Questions per batch.", buckets=_SIZES, registry=own)
        live = partial(Gauge, multiprocess_mode="livesum", registry=own)
        self.in_flight = live("attar_requests_in_flight", "Requests that are being answered.")
        self._queue = live("attar_queue_length", "Questions that wait.")

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, str(status)).inc()
        self._latencies.labels(route).observe(seconds)

    def count_batch(self, size: int) -> None:
        """Count a batch of questions."""
        self._batches.observe(size)

    def set_queue_length(self, length: int) -> None:
        """Set the number of questions that wait."""
        self._queue.set(length)

    def text(self, stats: "Stats | None" = None) -> bytes:
        """All metrics in Prometheus's text format, summed over worker processes, with the totals of a store."""
        registry = CollectorRegistry(auto_describe=False)
        if self._folder is None:
            registry.register(self._own)
        else:
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        registry.register(_Server(stats, _processes(self._folder) or [os.getpid()]))
        return generate_latest(registry)


class _Server(Collector):
    """The version, the reader, the store, and what each process uses."""

    def __init__(self, stats: "Stats | None", processes: list[int]) -> None:
        self._stats, self._processes = stats, processes

    def collect(self) -> Iterator[Metric]:
        reader = "" if self._stats is None else self._stats.reader or ""
        versions = {"version": attar.__version__, "python": platform.python_version(), "reader": reader}
        yield InfoMetricFamily(
            "attar_build", "Versions of the package and of Python, and the reader.", versions
        )
        for name, text in _STORE.items() if self._stats is not None else ():
            yield GaugeMetricFamily(f"attar_store_{name}", text, getattr(self._stats, name))
        families: dict[str, Metric] = {}
        for process in filter(_is_alive, self._processes):
            for metric in ProcessCollector(pid=partial(int, process), registry=None).collect():
                family = families.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                for sample in metric.samples:
                    family.add_sample(sample.name, {"worker": str(process)}, sample.value)
        yield from families.values()


def _processes(folder: str | None) -> list[int]:
    """The processes that share a folder, dead or alive: each has a file of gauges there."""
    files = Path(folder).glob("gauge_livesum_*.db") if folder is not None else ()
    return sorted(int(number[0]) for file in files if (number := re.findall(r"\d+", file.name)))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
