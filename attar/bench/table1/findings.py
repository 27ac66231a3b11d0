"""Predicted and measured side by side: exponents, and the sizes from which a memory pays.

Two predictions: Table 1's terms taken as they stand (n k beside k²), and multiply-adds counted one by one, where
softmax costs 2 n k (once for the scores, once for the sum), a lookup k², writing n k² and with a gate 2 n k².
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from attar.bench.table1.costs import READING, Costs, Sizes
from attar.bench.table1.slopes import Slope, meeting_of, short, slope_of
from attar.bench.table1.turns import Point, Spread

Cost = Literal["asking", "keeping", "encoding", "sharing"]
# Multiply-adds of writing a token, in units of k²; a GRU has three gates, each with k² for input and for state.
WRITING = {"linear": 1, "gated": 2}
GRU_WORK = 6


class Exponent(msgspec.Struct, frozen=True):
    """How a way's cost grows with n, or with m where questions share a document."""

    cost: Cost
    way: str
    predicted: float
    measured: Slope | None


class Finding(msgspec.Struct, frozen=True):
    """A size or a ratio, predicted twice and measured; `low` and `high` set quartiles against each other."""

    what: str
    by_table: float | None
    by_count: float | None
    measured: float | None
    low: float | None
    high: float | None
    shown: str


def exponents(costs: Costs, sizes: Sizes) -> list[Exponent]:
    """All exponents, over the sizes where a call's own cost no longer shows."""
    found = []
    for cost in ("asking", "keeping", "encoding"):
        points = [point for point in getattr(costs, cost) if point.tokens >= sizes.fit_from]
        for way in names_in(points):
            fixed = cost != "encoding" and costs.kinds[way] == "memory"
            found.append(Exponent(cost, way, 0.0 if fixed else 1.0, fitted(points, way, in_n)))
    points = [point for point in costs.sharing if point.questions >= sizes.fit_heaps_from]
    found += [
        Exponent("sharing", way, sharing_exponent(way, points), fitted(points, way, in_m))
        for way in names_in(points)
    ]
    return found


def sharing_exponent(way: str, points: Sequence[Point]) -> float:
    """What (w n + m) k² looks like on log-log paper over these m; softmax's 2 m n k is 1 everywhere."""
    if way not in WRITING:
        return 1.0
    work = [WRITING[way] * point.tokens + point.questions for point in points]
    line = slope_of([point.questions for point in points], work)
    return 1.0 if line is None else line.exponent


def fitted(points: Sequence[Point], way: str, size: Callable[[Point], int]) -> Slope | None:
    """The exponent of a way's middle costs."""
    with_it = [point for point in points if way in point.costs]
    return slope_of([size(point) for point in with_it], [point.costs[way].middle for point in with_it])


def findings(costs: Costs, sizes: Sizes, device: str) -> list[Finding]:
    """Break-even points, the gain at the longest document, and what writing adds to reading."""
    k, n = sizes.k, sizes.tokens
    kept = (k + 1) / 2 if device == "cpu" else float(k)
    form = "packed " if device == "cpu" else ""
    a_call = "one question a call" if sizes.together == 1 else f"{sizes.together:,} questions a call"
    found = [
        meeting(
            f"n from which a lookup is quicker than softmax, {a_call}", k, k / 2, costs.asking, costs, in_n
        ),
        meeting(f"n from which a {form}memory is smaller than H", k, kept, costs.keeping, costs, in_n),
    ]
    for way, work in WRITING.items():
        paid = n * k / (n - k) if way == "linear" and n > k else None
        counted = work * n * k / (2 * n - k) if 2 * n > k else None
        what = f"m from which {way} is cheaper than softmax, writing included, n = {n:,}"
        if sizes.together == 1:
            found += paid_back(f"{what}, one question a call", paid, counted, costs, way, n)
        found.append(meeting(f"{what}, all in a call", paid, counted, costs.sharing, costs, in_m, way))
    found += gain(costs, k)
    for way, work in WRITING.items():
        found += added(costs, way, 1 + work / GRU_WORK)
    return found


def meeting(
    what: str,
    by_table: float | None,
    by_count: float | None,
    points: Sequence[Point],
    costs: Costs,
    size: Callable[[Point], int],
    way: str = "linear",
) -> Finding:
    """Where a memory's cost falls below the quickest softmax's for good."""
    pairs = [(size(point), point.costs[way], softmax) for point, softmax in both(points, costs, way)]
    if not pairs:
        return Finding(what, by_table, by_count, None, None, None, "–")
    sizes, ours, theirs = zip(*pairs, strict=True)
    middle = meeting_of(sizes, [o.middle for o in ours], [t.middle for t in theirs])
    early = meeting_of(sizes, [o.low for o in ours], [t.high for t in theirs])
    late = meeting_of(sizes, [o.high for o in ours], [t.low for t in theirs])
    shown = str(middle) if str(early) == str(late) else f"{middle} ({early} … {late})"
    return Finding(what, by_table, by_count, middle.at, early.at, late.at, shown)


def paid_back(
    what: str, by_table: float | None, by_count: float | None, costs: Costs, way: str, n: int
) -> list[Finding]:
    """Writing's time over what each question saves."""
    asked = [pair for pair in both(costs.asking, costs, way) if pair[0].tokens == n]
    written = [point.costs[way] for point in costs.encoding if point.tokens == n and way in point.costs]
    if not asked or not written:
        return []
    (point, softmax), write = asked[0], written[0]
    lookup = point.costs[way]

    def questions(write: float, softmax: float, lookup: float) -> float | None:
        return write / (softmax - lookup) if softmax > lookup else None

    middle = questions(write.middle, softmax.middle, lookup.middle)
    low = questions(write.low, softmax.high, lookup.low)
    high = questions(write.high, softmax.low, lookup.high)
    return [Finding(what, by_table, by_count, middle, low, high, shown_range(middle, low, high, "never"))]


def gain(costs: Costs, k: int) -> list[Finding]:
    """How many times quicker a lookup is than softmax, at the longest document."""
    asked = both(costs.asking, costs, "linear")
    if not asked:
        return []
    point, softmax = asked[-1]
    n, lookup = point.tokens, point.costs["linear"]
    middle, low, high = (
        softmax.middle / lookup.middle,
        softmax.low / lookup.high,
        softmax.high / lookup.low,
    )
    what = f"times that a lookup is quicker than softmax, n = {n:,}"
    return [Finding(what, n / k, 2 * n / k, middle, low, high, shown_range(middle, low, high))]


def added(costs: Costs, way: str, by_count: float) -> list[Finding]:
    """What encoding costs with a memory over what it costs without, (λ + 1) / λ, at the longest document."""
    points = [point for point in costs.encoding if way in point.costs and READING in point.costs]
    if not points:
        return []
    write, read = points[-1].costs[way], points[-1].costs[READING]
    middle, low, high = (
        1 + write.middle / read.middle,
        1 + write.low / read.high,
        1 + write.high / read.low,
    )
    what = f"times that encoding takes longer with {way} than for softmax, n = {points[-1].tokens:,}"
    return [Finding(what, None, by_count, middle, low, high, shown_range(middle, low, high))]


def both(points: Sequence[Point], costs: Costs, way: str) -> list[tuple[Point, Spread]]:
    """The points that have the way and a softmax, with the quickest softmax of each."""
    pairs = [(point, quickest_softmax(costs, point)) for point in points if way in point.costs]
    return [(point, softmax) for point, softmax in pairs if softmax is not None]


def quickest_softmax(costs: Costs, point: Point) -> Spread | None:
    """What softmax costs at a size, in its best way there."""
    found = [cost for name, cost in point.costs.items() if costs.kinds.get(name) == "softmax"]
    return min(found, key=lambda cost: cost.middle, default=None)


def names_in(points: Sequence[Point]) -> list[str]:
    """The ways that were measured somewhere, in their order."""
    return list(dict.fromkeys(name for point in points for name in point.costs))


def shown_range(middle: float | None, low: float | None, high: float | None, none: str = "–") -> str:
    """A number and its range as people read them.

    >>> shown_range(1750.2, 900.0, None, "never")
    '1,750 (900 … never)'
    """
    return "{} ({} … {})".format(*(none if x is None else short(x) for x in (middle, low, high)))


def in_n(point: Point) -> int:
    """The document's length."""
    return point.tokens


def in_m(point: Point) -> int:
    """How many questions share the document."""
    return point.questions
