"""Predictions for Table 1 and their measured values: exponents, and the sizes from which a memory pays.

There are two predictions: Table 1's terms as they stand (n k against k²), and multiply-adds counted one by one,
where softmax costs 2 n k (scores and sum), a lookup k², writing n k², and writing with a gate 2 n k².
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from scipy.special import stdtrit

from attar.paper.table1 import ENCODER, Costs, Point, Sizes, Spread

Cost = Literal["query_time", "stored_bytes", "encoding_time", "batch_time"]
# Multiply-adds of writing a token, in units of k²; a GRU has three gates, each with k² for input and for state.
WRITING = {"linear": 1, "gated": 2}
GRU_WORK = 6
# Which numbers of two spreads are compared: the medians, then opposite quartiles.
OPPOSITE = (("median", "median"), ("low", "high"), ("high", "low"))


class Slope(msgspec.Struct, frozen=True):
    """The exponent of a fitted power law, and the half-width of its 95 % interval."""

    exponent: float
    margin: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.margin:.2f}".replace("-0.00", "0.00")


class Exponent(msgspec.Struct, frozen=True):
    """How a method's cost grows with n, or with m for batches."""

    cost: Cost
    method: str
    predicted: float
    measured: Slope | None


class Prediction(msgspec.Struct, frozen=True):
    """A size or a ratio, predicted twice and measured; `low` and `high` compare opposite quartiles."""

    what: str
    by_table: float | None
    by_count: float | None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    shown: str = "–"


class Crossing(NamedTuple):
    """Where one cost falls below another for good: at a size, or if None as the text says."""

    at: float | None
    text: str


def fit_slope(sizes: Sequence[float], costs: Sequence[float]) -> Slope | None:
    """The least-squares exponent on log-log axes with Student's interval; None for fewer than three points.

    >>> str(fit_slope([1, 10, 100], [5, 50, 500])), fit_slope([1, 10], [5, 50])
    ('1.00 ± 0.00', None)
    """
    if len(sizes) < 3:
        return None
    x, y = np.log(sizes), np.log(costs)
    x = x - x.mean()
    exponent = x @ y / (x @ x)
    residual = y - y.mean() - exponent * x
    degrees = len(sizes) - 2
    error = np.sqrt(residual @ residual / degrees / (x @ x))
    return Slope(float(exponent), float(stdtrit(degrees, 0.975) * error))


def find_crossing(sizes: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> Crossing:
    """The size from which ours costs less, interpolated on log-log axes.

    >>> find_crossing([1, 100], [5, 5], [1, 100]).text
    '5'
    >>> find_crossing([1, 100], [1, 1], [2, 200]).text, find_crossing([1, 100], [3, 300], [2, 200]).text
    ('below 1', 'beyond 100')
    """
    gaps = np.log(ours) - np.log(theirs)
    higher = np.flatnonzero(gaps > 0)
    if not len(higher):
        return Crossing(None, f"below {short(sizes[0])}")
    left = int(higher[-1])
    if left == len(sizes) - 1:
        return Crossing(None, f"beyond {short(sizes[-1])}")
    x, share = np.log(sizes[left : left + 2]), gaps[left] / (gaps[left] - gaps[left + 1])
    at = float(np.exp(x[0] + share * (x[1] - x[0])))
    return Crossing(at, short(at))


def short(number: float) -> str:
    """A number with three digits, or all those before the point.

    >>> short(50.52), short(1903.2), short(1.166666)
    ('50.5', '1,903', '1.17')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def fit_exponents(costs: Costs, sizes: Sizes) -> list[Exponent]:
    """All exponents, over the sizes where the fixed cost of a call no longer shows."""
    exponents = []
    parts: tuple[Cost, ...] = ("query_time", "stored_bytes", "encoding_time", "batch_time")
    for cost in parts:
        least = sizes.fit_batches_from if cost == "batch_time" else sizes.fit_from
        points = [point for point in getattr(costs, cost) if size_of(cost, point) >= least]
        for method in method_names(points):
            predicted = 1.0
            if cost == "batch_time":
                predicted = _batch_exponent(method, points)
            elif cost != "encoding_time" and costs.kinds[method] == "memory":
                predicted = 0.0
            with_it = [point for point in points if method in point.costs]
            slope = fit_slope([size_of(cost, p) for p in with_it], [p.costs[method].median for p in with_it])
            exponents.append(Exponent(cost, method, predicted, slope))
    return exponents


def _batch_exponent(method: str, points: Sequence[Point]) -> float:
    """The slope of (w n + m) k² on log-log axes over these m; softmax's 2 m n k has slope 1."""
    if method not in WRITING:
        return 1.0
    work = [WRITING[method] * point.tokens + point.questions for point in points]
    slope = fit_slope([point.questions for point in points], work)
    return 1.0 if slope is None else slope.exponent


def predict(costs: Costs, sizes: Sizes, device: str) -> list[Prediction]:
    """Break-even points, the gain at the longest document, and what a memory adds to encoding."""
    k, n = sizes.k, sizes.tokens
    packed, stored = ("packed ", (k + 1) / 2) if device == "cpu" else ("", float(k))
    per_call = "one question" if sizes.per_call == 1 else f"{sizes.per_call:,} questions"
    predictions = [
        _break_even(
            Prediction(f"n from which a lookup is faster than softmax, {per_call} per call", k, k / 2),
            costs,
            "query_time",
        ),
        _break_even(
            Prediction(f"n from which a {packed}memory is smaller than H", k, stored), costs, "stored_bytes"
        ),
    ]
    for method, work in WRITING.items():
        by_table = n * k / (n - k) if method == "linear" and n > k else None
        by_count = work * n * k / (2 * n - k) if 2 * n > k else None
        what = f"m from which {method} is cheaper than softmax, writing included, n = {n:,}"
        if sizes.per_call == 1:
            one = Prediction(f"{what}, one question per call", by_table, by_count)
            predictions += _paid_back(one, costs, method, n)
        batch = Prediction(f"{what}, all in one call", by_table, by_count)
        predictions.append(_break_even(batch, costs, "batch_time", method))
    pairs = _with_softmax(costs.query_time, costs, "linear")
    if pairs:
        point, softmax = pairs[-1]
        n, lookup = point.tokens, point.costs["linear"]
        gain = Prediction(f"times that a lookup is faster than softmax, n = {n:,}", n / k, 2 * n / k)
        predictions.append(_measured(gain, lambda a, b: a / b, softmax, lookup))
    for method, work in WRITING.items():
        points = [p for p in costs.encoding_time if method in p.costs and ENCODER in p.costs]
        if points:
            n, written, read = points[-1].tokens, points[-1].costs[method], points[-1].costs[ENCODER]
            what = f"times that encoding takes longer with {method} than for softmax, n = {n:,}"
            added = Prediction(what, None, 1 + work / GRU_WORK)
            predictions.append(_measured(added, lambda a, b: 1 + a / b, written, read))
    return predictions


def _measured(
    prediction: Prediction,
    ratio: Callable[[float, float], float | None],
    top: Spread,
    bottom: Spread,
    none: str = "–",
) -> Prediction:
    """The prediction with the ratio of two costs, and its range from their opposite quartiles."""
    median, low, high = (ratio(getattr(top, a), getattr(bottom, b)) for a, b in OPPOSITE)
    shown = "{} ({} … {})".format(*(none if x is None else short(x) for x in (median, low, high)))
    return msgspec.structs.replace(prediction, measured=median, low=low, high=high, shown=shown)


def _break_even(prediction: Prediction, costs: Costs, cost: Cost, method: str = "linear") -> Prediction:
    """The prediction with the size from which a memory costs less than the fastest softmax."""
    pairs = _with_softmax(getattr(costs, cost), costs, method)
    if not pairs:
        return prediction
    sizes = [size_of(cost, point) for point, _ in pairs]
    middle, early, late = (
        find_crossing(
            sizes, [getattr(p.costs[method], a) for p, _ in pairs], [getattr(t, b) for _, t in pairs]
        )
        for a, b in OPPOSITE
    )
    shown = middle.text if early.text == late.text else f"{middle.text} ({early.text} … {late.text})"
    return msgspec.structs.replace(prediction, measured=middle.at, low=early.at, high=late.at, shown=shown)


def _paid_back(prediction: Prediction, costs: Costs, method: str, n: int) -> list[Prediction]:
    """The prediction with the time of writing over what each question saves."""
    asked = [pair for pair in _with_softmax(costs.query_time, costs, method) if pair[0].tokens == n]
    written = [p.costs[method] for p in costs.encoding_time if p.tokens == n and method in p.costs]
    if not asked or not written:
        return []
    softmax, lookup = asked[0][1], asked[0][0].costs[method]
    saved = Spread(softmax.median - lookup.median, softmax.low - lookup.high, softmax.high - lookup.low)

    def questions(written: float, saved: float) -> float | None:
        return written / saved if saved > 0 else None

    return [_measured(prediction, questions, written[0], saved, none="never")]


def _with_softmax(points: Sequence[Point], costs: Costs, method: str) -> list[tuple[Point, Spread]]:
    """The points that have the method and a softmax, with the fastest softmax of each."""
    pairs = [(point, fastest_softmax(costs, point)) for point in points if method in point.costs]
    return [(point, softmax) for point, softmax in pairs if softmax is not None]


def fastest_softmax(costs: Costs, point: Point) -> Spread | None:
    """The cost of the fastest softmax at a size."""
    found = [cost for name, cost in point.costs.items() if costs.kinds.get(name) == "softmax"]
    return min(found, key=lambda cost: cost.median, default=None)


def method_names(points: Sequence[Point]) -> list[str]:
    """The methods that were measured at any of the points, in order."""
    return list(dict.fromkeys(name for point in points for name in point.costs))


def size_of(cost: Cost, point: Point) -> int:
    """The size that a cost is drawn against: m for batches, n otherwise."""
    return point.questions if cost == "batch_time" else point.tokens
