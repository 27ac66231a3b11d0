"""More than a server can do, and its speed, memory and patience while that lasts and after; and a long soak."""

import itertools
import threading
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from attar.bench.load import Load, drive_now
from attar.bench.server_process import Served
from attar.bench.server_rows import Row, asks, json_request, lookups, refuse_others
from attar.bench.tables import quantity

# Accepted requests wait no longer than this; the queue and the requests at a time are bounded.
LATEST = 1.0
# Memory is flat if it grows by less than this share.
FLAT = 0.05
# Full speed is back when so much of it is, within so many seconds, in windows of so many.
SHARE, BACK, WINDOW = 0.8, 2.0, 0.5
# One request in so many of a soak writes a document.
WRITES = 1_000

Say = Callable[[str], None]


def overload(served: Served, documents: int, connections: int, seconds: float) -> Row:
    """Four times as many questions as the server can answer, over eight times the connections."""
    requests = asks(documents)
    usual = min(5.0, seconds)
    before = drive_now(served.port, requests, connections, usual)
    memory = served.memory()
    load = drive_now(served.port, requests, 8 * connections, seconds, rate=4 * before.a_second)
    after = drive_now(served.port, requests, connections, usual)
    for part in (before, load, after):
        refuse_others("/ask, overload", part, [200, 503])
    grown, back = share_grown(memory, served.memory()), seconds_until_full_speed(after, before.a_second)
    late = load.percentile(99)
    met = late <= LATEST and (grown is None or grown <= FLAT) and back is not None and back <= BACK
    said = [
        f"{before.a_second:,.0f}/s before",
        f"{4 * before.a_second:,.0f}/s wanted by {8 * connections} connections, each with one at a time",
        f"{load.offered:,.0f}/s answered or refused",
        f"{load.statuses[503]:,} of {load.statuses.total():,} refused with 503, nothing else went wrong",
        f"memory {memory_said(memory, grown)}",
        "full speed not back" if back is None else f"full speed back within {back:.1f} s",
    ]
    target = f"503 alone, p99 ≤ {LATEST:g} s, memory flat, full speed in {BACK:g} s"
    row = Row(
        f"/ask, 4 × overload for {seconds:g} s", load.a_second, load.a_second, load.percentile(50), late
    )
    row.target, row.met, row.statuses, row.note = target, met, dict(load.statuses), "; ".join(said)
    return row


def seconds_until_full_speed(after: Load, full: float) -> float | None:
    """When the first window ends in which the server was as fast as before; None if it never was.

    >>> slow, quick = [0.1, 0.4], [0.5 + at / 100 for at in range(50)]
    >>> seconds_until_full_speed(Load(1.0, moments=slow + quick), 80.0)
    1.0
    """
    moments = np.array(after.moments)
    for start in np.arange(0.0, max(after.seconds, WINDOW), WINDOW).tolist():
        answered = int(((moments >= start) & (moments < start + WINDOW)).sum())
        if answered >= SHARE * full * WINDOW:
            return float(start + WINDOW)
    return None


def soak(served: Served, documents: int, connections: int, minutes: float, say: Say) -> Row:
    """Half of what the server can do, questions, lookups and now and then a document, for minutes."""
    requests = mixed(documents)
    seconds = 60 * minutes
    full = drive_now(served.port, requests, connections, min(5.0, seconds))
    memories: list[int | None] = []
    readers: list[float] = []
    ended = threading.Event()

    def look() -> None:
        # A hundred looks, whatever the time: the first tenth is not counted, while caches still fill.
        for at in itertools.count(1):
            if ended.wait(seconds / 100):
                return
            memories.append(served.memory())
            readers.append(served.metric("attar_store_readers"))
            say(f"soak, {at} % of {minutes:g} min, memory {quantity(memories[-1], 'B')}")

    looking = threading.Thread(target=look)
    looking.start()
    try:
        load = drive_now(served.port, requests, connections, seconds, rate=full.a_second / 2)
    finally:
        ended.set()
        looking.join()
    refuse_others("soak", load, [200, 201])
    tenth = max(1, len(memories) // 10)
    first, last = slice(tenth, 2 * tenth + 1), slice(-tenth, None)
    memory = middle(memories[first])
    grown = share_grown(memory, middle(memories[last]))
    # Each thread of the server keeps a place among the readers once it has read.
    held = max(readers[first]), max(readers[last])
    row = Row(
        f"half load for {minutes:g} min",
        load.a_second,
        load.a_second,
        load.percentile(50),
        load.percentile(99),
    )
    row.target = "memory flat, no reader left"
    row.met = held[1] <= held[0] and (grown is None or grown <= FLAT)
    row.statuses = dict(load.statuses)
    row.note = (
        f"{full.a_second:,.0f}/s at full load; memory {memory_said(memory, grown)}; "
        f"{held[0]:g} readers at first, {held[1]:g} at last"
    )
    return row


def mixed(documents: int) -> list[bytes]:
    """Questions and lookups in turn, and among a thousand of them one document that is written anew."""
    questions, vectors = asks(documents), lookups(documents)
    text = "Then Ann met Bob in Rome. Bob left for Paris, and Ann wrote to him every day. "
    requests = [each for pair in zip(questions, itertools.cycle(vectors), strict=False) for each in pair]
    for at in range(0, len(requests), WRITES):
        # Each another text than the one before: the same would change nothing.
        requests[at] = json_request("/v1/documents/soaked", {"text": text * (1 + at // WRITES)}, "PUT")
    return requests


def middle(memories: Sequence[int | None]) -> int | None:
    """The median of what was seen."""
    seen = [each for each in memories if each is not None]
    return round(median(seen)) if seen else None


def share_grown(before: int | None, after: int | None) -> float | None:
    """By what share memory has grown.

    >>> share_grown(100, 110), share_grown(None, 1)
    (0.1, None)
    """
    return None if before is None or after is None else (after - before) / before


def memory_said(before: int | None, grown: float | None) -> str:
    """Memory and its growth, for people.

    >>> memory_said(500_000_000, 0.012)
    '500 MB, +1.2 %'
    """
    return (
        "not known here"
        if before is None or grown is None
        else f"{quantity(before, 'B')}, {grown:+.1%}".replace("%", " %")
    )
