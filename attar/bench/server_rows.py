"""Rows of `attar bench server`: what is sent, how it is driven, and what came of it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from attar.bench.load import Load, drive_now, request_for
from attar.bench.server_process import Served
from attar.bench.server_wrk import drive_by_wrk, wrk
from attar.bench.tables import quantity
from attar.errors import OptionError
from attar.wire import MEDIA, pack_queries

COLUMNS = ["what", "requests/s", "each/s", "p50", "p99", "target", ""]
QUESTION = "___ left the house before the night ."
SIZE, TOKENS = 128, 750
# Requests made beforehand, sent in turn.
VARIANTS = 200
# The shortest load, in seconds, for which wrk is worth its start.
WRK_FROM = 1.0


@dataclass(frozen=True)
class Drive:
    """A row before it is measured: requests, how much each asks for, and what is to be reached."""

    what: str
    requests: list[bytes]
    each: int
    connections: int
    least: float | None = None  # of what is asked for, a second
    p99: float | None = None  # seconds


class Row(msgspec.Struct):
    """What a server reached; `each_a_second` counts questions or lookups, of which a request may have many."""

    what: str
    requests_a_second: float | None
    each_a_second: float | None
    p50: float | None
    p99: float | None
    target: str = "–"
    met: bool | None = None
    statuses: dict[int, int] = {}
    note: str = ""

    def cells(self) -> list[str]:
        """As a row of the table."""
        verdict = {None: "", True: "met", False: "not met"}[self.met]
        rates = [
            "–" if rate is None else f"{rate:,.0f}" for rate in (self.requests_a_second, self.each_a_second)
        ]
        return [self.what, *rates, quantity(self.p50, "s"), quantity(self.p99, "s"), self.target, verdict]


def asks(documents: int, count: int = 10 * VARIANTS) -> list[bytes]:
    """Requests of one question each, of documents at random."""
    chosen = random.Random(0)
    return [
        json_request("/v1/ask", {"document": f"story {chosen.randrange(documents)}", "question": QUESTION})
        for _ in range(count)
    ]


def lookups(documents: int) -> list[bytes]:
    """Requests of one vector each, as JSON."""
    numbers = np.random.default_rng(0).standard_normal((VARIANTS, SIZE), np.float32)
    return [
        json_request(
            "/v1/lookup", {"document": f"triangle {at % min(documents, VARIANTS)}", "vector": each.tolist()}
        )
        for at, each in enumerate(numbers)
    ]


def packed_lookups(kind: str, documents: int) -> list[bytes]:
    """Requests of 1,024 vectors each, packed, each for a document of its own."""
    names = [f"{kind} {at % min(documents, VARIANTS)}" for at in range(1_024)]
    vectors = np.random.default_rng(0).standard_normal((4, 1_024, SIZE), np.float32)
    return [request_for("/v1/lookup", pack_queries(names, each), MEDIA) for each in vectors]


def many_asks(documents: int) -> list[bytes]:
    """Requests of 256 questions each."""
    chosen = random.Random(1)
    return [
        json_request(
            "/v1/ask",
            {
                "documents": [f"story {chosen.randrange(documents)}" for _ in range(256)],
                "questions": [QUESTION] * 256,
            },
        )
        for _ in range(VARIANTS // 10)
    ]


def json_request(path: str, body: object, method: str = "POST") -> bytes:
    """A request with a JSON body."""
    return request_for(path, msgspec.json.encode(body), method=method)


def drives_for(documents: int, connections: int) -> list[Drive]:
    """The rows: questions and raw lookups, alone and many at a time, and softmax beside them."""
    few = max(1, connections // 8)
    triangles, states = packed_lookups("triangle", documents), packed_lookups("states", documents)
    return [
        Drive("/lookup, one vector, JSON", lookups(documents), 1, connections, 6_000, 0.040),
        Drive("/ask, one question", asks(documents), 1, connections, 2_500, 0.060),
        Drive("/ask, 256 questions", many_asks(documents), 256, few, 10_000),
        Drive("/lookup, 1,024 vectors, packed", triangles, 1_024, few, 100_000),
        Drive(f"the same by softmax over {TOKENS} states", states, 1_024, few),
    ]


def measure(served: Served, each: Drive, seconds: float) -> Row:
    """Drive one row, after a while that warms up; an answer that is not good is a failure."""
    warm = drive_now(served.port, each.requests, each.connections, min(1.0, seconds))
    refuse_others(each.what, warm, [200])
    if wrk() is None or seconds < WRK_FROM:
        load = drive_now(served.port, each.requests, each.connections, seconds)
        refuse_others(each.what, load, [200])
        return row_of(each, load)
    driven = drive_by_wrk(served.port, each.requests, each.connections, seconds)
    if driven.refused or driven.lost:
        came = f"{driven.refused:,} refusals, and {driven.lost:,} that never came"
        raise OptionError(each.what, "good answers", came)
    return judged(each, driven.answers / driven.seconds, driven.p50, driven.p99, {200: driven.answers})


def refuse_others(what: str, load: Load, statuses: Sequence[int]) -> None:
    """Refuse to count what was answered otherwise."""
    if set(load.statuses) - set(statuses):
        raise OptionError(what, f"answers with status {statuses}", str(dict(load.statuses)))


def row_of(each: Drive, load: Load) -> Row:
    """What came of a row that the built-in client drove, and whether that is enough."""
    return judged(each, load.a_second, load.percentile(50), load.percentile(99), dict(load.statuses))


def judged(each: Drive, a_second: float, p50: float, p99: float, statuses: dict[int, int]) -> Row:
    """A row beside its target."""
    rate = a_second * each.each
    wishes = [f"≥ {each.least:,.0f}/s"] if each.least is not None else []
    wishes += [f"p99 ≤ {quantity(each.p99, 's')}"] if each.p99 is not None else []
    met = None
    if each.least is not None:
        met = rate >= each.least and (each.p99 is None or p99 <= each.p99)
    return Row(each.what, a_second, rate, p50, p99, ", ".join(wishes) or "–", met, statuses)
