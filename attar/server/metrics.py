"""What a server counts, in Prometheus's text format: requests, latencies, batches, queues and the store."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attar.server.board import Board, Counts
from attar.store import Stats

ROUTES = (
    "ask",
    "lookup",
    "explain",
    "compare",
    "list_documents",
    "put_document",
    "append_text",
    "show_document",
    "remove_document",
    "merge_documents",
    "remove_documents",
    "health",
    "readiness",
    "metrics",
    "openapi",
    "docs",
    "page",
)
STATUSES = (200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 413, 415, 421, 422, 499, 500, 501, 503, 504, 0)
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
WORK = ("ask", "lookup")
# Of gauges: requests in flight, then what waits for each work.
GAUGES = 1 + len(WORK)
IN_FLIGHT, WAITING = 0, {work: at for at, work in enumerate(WORK, 1)}

# One row of the board: how often each route gave each status, each route's latencies, each work's batches.
LATENCIES_AT = len(ROUTES) * len(STATUSES)
LATENCY_WIDTH = len(SECONDS) + 2  # buckets, the one without a limit, the sum
BATCHES_AT = LATENCIES_AT + len(ROUTES) * LATENCY_WIDTH
BATCH_WIDTH = len(SIZES) + 2
GAUGES_AT = BATCHES_AT + len(WORK) * BATCH_WIDTH
WIDTH = GAUGES_AT + GAUGES

ROUTE_AT = {route: at for at, route in enumerate(ROUTES)}
STATUS_AT = {status: at for at, status in enumerate(STATUSES)}


class Metrics:
    """Counts of one process on a board that all worker processes share.

    >>> metrics = Metrics()
    >>> metrics.answered("ask", 200, 0.003)
    >>> [line for line in metrics.lines() if line.startswith("attar_requests_total")]
    ['attar_requests_total{route="ask",status="200"} 1']
    """

    def __init__(self, board: Path | None = None) -> None:
        self.board = Board(WIDTH, board)
        # What a killed process, whose row this was, had in its hands is in nobody's.
        self.board.own[GAUGES_AT:] = 0
        # A view of the row whose numbers Python counts up in a third of the time that numpy takes.
        self._own: Any = memoryview(self.board.own)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        own, at = self._own, ROUTE_AT[route]
        own[at * len(STATUSES) + STATUS_AT.get(status, len(STATUSES) - 1)] += 1
        start = LATENCIES_AT + at * LATENCY_WIDTH
        own[start + bisect_left(SECONDS, seconds)] += 1
        own[start + LATENCY_WIDTH - 1] += seconds

    def worked(self, work: str, size: int) -> None:
        """Count a batch."""
        own, start = self._own, BATCHES_AT + WORK.index(work) * BATCH_WIDTH
        own[start + bisect_left(SIZES, size)] += 1
        own[start + BATCH_WIDTH - 1] += size

    def now(self, gauge: int, value: float) -> None:
        """Say how many there are at the moment."""
        self._own[GAUGES_AT + gauge] = value

    def lines(self, store: Stats | None = None) -> Iterator[str]:
        """Yield the text format's lines, the sums over all processes."""
        sums = self.board.sums()
        yield from request_lines(sums)
        yield from about("attar_request_seconds", "histogram", "From a request's arrival to its answer.")
        for at, route in enumerate(ROUTES):
            found = sums[LATENCIES_AT + at * LATENCY_WIDTH :][:LATENCY_WIDTH]
            yield from histogram("attar_request_seconds", f'route="{route}"', SECONDS, found)
        yield from about(
            "attar_batch_size", "histogram", "Questions, or lookups, that were answered at once."
        )
        for at, work in enumerate(WORK):
            found = sums[BATCHES_AT + at * BATCH_WIDTH :][:BATCH_WIDTH]
            yield from histogram("attar_batch_size", f'work="{work}"', SIZES, found)
        yield from about("attar_requests_in_flight", "gauge", "Requests that are being answered.")
        yield f"attar_requests_in_flight {plain(sums[GAUGES_AT])}"
        yield from about("attar_queue_length", "gauge", "Questions, or lookups, that wait.")
        for at, work in enumerate(WORK, 1):
            yield f'attar_queue_length{{work="{work}"}} {plain(sums[GAUGES_AT + at])}'
        if store is not None:
            yield from store_lines(store)


def request_lines(sums: Counts) -> Iterator[str]:
    """Yield how often each route gave each status, as far as it did."""
    yield from about("attar_requests_total", "counter", "Requests that were answered.")
    for at, count in enumerate(sums[:LATENCIES_AT]):
        if count:
            route, status = ROUTES[at // len(STATUSES)], STATUSES[at % len(STATUSES)]
            said = str(status) if status else "other"
            yield f'attar_requests_total{{route="{route}",status="{said}"}} {plain(count)}'


def histogram(name: str, label: str, limits: Sequence[float], found: Counts) -> Iterator[str]:
    """Yield a histogram's lines, none if nothing was counted.

    >>> import numpy as np
    >>> list(histogram("size", 'work="ask"', [1], np.array([2.0, 1.0, 7.0])))[1:3]
    ['size_bucket{work="ask",le="+Inf"} 3', 'size_sum{work="ask"} 7']
    """
    total = found[:-1].sum()
    if not total:
        return
    below = found[:-1].cumsum()
    for limit, count in zip(limits, below, strict=False):
        yield f'{name}_bucket{{{label},le="{limit:g}"}} {plain(count)}'
    yield f'{name}_bucket{{{label},le="+Inf"}} {plain(total)}'
    yield f"{name}_sum{{{label}}} {plain(found[-1])}"
    yield f"{name}_count{{{label}}} {plain(total)}"


def store_lines(store: Stats) -> Iterator[str]:
    """Yield how large the store is."""
    told = {
        "documents": "Documents in the store.",
        "tokens": "Tokens that were read into it.",
        "memory_bytes": "Bytes of its memories.",
        "file_bytes": "Bytes of its file.",
        "readers": "Places that its readers hold.",
    }
    for word, what in told.items():
        yield from about(f"attar_store_{word}", "gauge", what)
        yield f"attar_store_{word} {getattr(store, word)}"


def about(name: str, kind: str, what: str) -> Iterator[str]:
    """Yield the two lines that explain a metric."""
    yield f"# HELP {name} {what}"
    yield f"# TYPE {name} {kind}"


def plain(value: float) -> str:
    """A number as it is read best.

    >>> plain(3.0), plain(0.25)
    ('3', '0.25')
    """
    return str(int(value)) if value == int(value) else repr(float(value))
