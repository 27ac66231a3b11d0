"""Metrics for Prometheus, and the middleware that counts and logs each request.

Worker processes share their metrics in a folder, by prometheus_client's own multiprocess mode.
"""

import asyncio
import logging
import os
import platform
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import attar
from attar.server.problems import DISCONNECTED, OverloadedError, printable

if TYPE_CHECKING:
    from attar.store.store import Stats

log = logging.getLogger("attar.server")

# prometheus_client reads this variable when it is imported; `attar.server.run` sets it for several workers.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Keys of a request's scope: the name of its route.
ROUTE = "attar.route"
# Its id.
REQUEST_ID = "attar.request_id"
# Its headers by name; of one that is sent twice the last.
HEADERS = "attar.headers"
# Whether its token may only ask.
READ_ONLY = "attar.read_only"
# The error that it was refused with, and the problem for that.
ERROR = "attar.error"
# The key of the lifespan's state with the metrics, in which connections count what they refuse.
METRICS = "attar.metrics"
# Labels of requests that have no route: static files, and paths below /v1 that do not exist.
_PAGE = "page"
_UNMATCHED = "unmatched"
# A client's own request id is kept if it is safe to log.
_SAFE_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
# Characters of a path in the log.
_MAX_PATH = 200
# Characters of a client's address in the log, which may be what a proxy was told.
_MAX_CLIENT = 60
# Seconds between two log lines about refusals of an overloaded server.
_LOG_SECONDS = 1.0
_STORE = {
    "documents": "Documents in the store.",
    "memory_bytes": "Bytes of all memories.",
    "file_bytes": "Bytes of the store's file.",
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
            if not is_alive(process):
                mark_process_dead(process)  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "attar_requests", "Answered requests.", ["route", "status"], registry=registry
        )
        self._latencies = Histogram(
            "attar_request_seconds",
            "Seconds from a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "attar_batch_size", "Questions per batch.", buckets=_SIZES, registry=registry
        )
        self._questions = Counter(
            "attar_questions", "Answered questions, to one document or to all.", ["to"], registry=registry
        )
        live = partial(Gauge, multiprocess_mode="livesum", registry=registry)
        self.in_flight = live("attar_requests_in_flight", "Requests that are being answered.")
        self.queue = live("attar_queue_length", "Work of the questions that wait, in milliseconds.")

    def count_request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._latencies.labels(route).observe(seconds)

    def count_questions(self, count: int, *, to_all: bool) -> None:
        self._questions.labels("all" if to_all else "one").inc(count)

    def text(self, stats: "Stats | None" = None) -> bytes:
        """All metrics in Prometheus's text format, summed over worker processes, with the totals of a store."""
        registry = self._of_all_processes()
        registry.register(_Server(stats, _processes(self._folder) or [os.getpid()]))
        return generate_latest(registry)

    def _of_all_processes(self) -> CollectorRegistry:
        registry = CollectorRegistry(auto_describe=False)
        if self._folder is None:
            registry.register(self._registry)
        else:
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        return registry

    def questions(self) -> int:
        """How many questions were answered."""
        samples = [sample for family in self._of_all_processes().collect() for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name == "attar_questions_total"))


_LOST = "the handler is closed"


class Observe:
    """Gives each request an id, counts it, and logs it in one line."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Mapping[tuple[str, str], str]) -> None:
        self.app, self._metrics, self._routes = app, metrics, routes
        self._overloads = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = scope[HEADERS] = dict(scope["headers"])
        request_id = scope[REQUEST_ID] = _request_id(headers.get(b"x-request-id", b""))
        status = DISCONNECTED

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                with_id = [*message["headers"], (b"x-request-id", request_id.encode())]
                message = {**message, "headers": with_id}
            try:
                await send(message)
            except RuntimeError as fault:
                # uvloop has lost the connection, and uvicorn has not heard of it yet.
                if _LOST not in str(fault):
                    raise
                status = DISCONNECTED

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # An error refers to its frames, which refer to the scope: without `pop` a cycle that holds the body.
        error, problem = scope.pop(ERROR, (None, None))
        method, path = scope["method"], scope["path"]
        other = _UNMATCHED if path.startswith("/v1/") else _PAGE
        # A request that was refused before routing counts for the route that it asked for.
        route = scope.get(ROUTE) or self._routes.get((method, path), other)
        self._metrics.count_request(route, status, seconds)
        if isinstance(error, OverloadedError):
            self._note_overload()
            return
        is_bug = error is not None and problem is None
        is_fault = is_bug or (problem is not None and problem.server_fault)
        level = logging.ERROR if is_fault else logging.WARNING if status >= 400 else logging.INFO
        if not log.isEnabledFor(level):
            return
        fields = {
            "request": scope[REQUEST_ID],
            "client": printable((scope.get("client") or ["unknown"])[0], _MAX_CLIENT),
            "method": method,
            # Percent-encoded, as it was sent: a name may contain line ends.
            "path": printable((scope.get("raw_path") or b"").decode("latin-1"), _MAX_PATH),
            "status": status,
            "seconds": round(seconds, 6),
        }
        if error is not None and not isinstance(error, HTTPException):
            fields["fault"] = printable(str(error)) or type(error).__name__
        log.log(level, "request", extra={"fields": fields}, exc_info=error if is_bug else None)

    def _note_overload(self) -> None:
        if not self._overloads:
            asyncio.get_running_loop().call_later(_LOG_SECONDS, self._log_overloads)
        self._overloads += 1

    def _log_overloads(self) -> None:
        log.warning("overload", extra={"fields": {"status": 503, "refused": self._overloads}})
        self._overloads = 0


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
        for process in filter(is_alive, self._processes):
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


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def new_request_id() -> str:
    """An id for a request that has none that can be used."""
    return secrets.token_hex(8)


def _request_id(sent: bytes) -> str:
    return sent.decode() if _SAFE_ID.fullmatch(sent) else new_request_id()
