"""Exponents of costs that grow as a power of n, and the places where two costs meet."""

from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.special import stdtrit


class Slope(msgspec.Struct, frozen=True):
    """A line through points on log-log paper: the exponent, and how far it may be off (95 %)."""

    exponent: float
    margin: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.margin:.2f}".replace("-0.00", "0.00")


class Meeting(msgspec.Struct, frozen=True):
    """Where one cost falls below another for good; None where it does so outside of what was measured."""

    at: float | None
    first: float
    last: float
    always: bool = False

    def __str__(self) -> str:
        if self.at is not None:
            return short(self.at)
        return f"below {short(self.first)}" if self.always else f"beyond {short(self.last)}"


def slope_of(sizes: Sequence[float], costs: Sequence[float]) -> Slope | None:
    """The least-squares exponent of costs in sizes with Student's interval; None of fewer than three points.

    >>> str(slope_of([1, 10, 100], [5, 50, 500])), slope_of([1, 10], [5, 50])
    ('1.00 ± 0.00', None)
    """
    if len(sizes) < 3:
        return None
    x, y = np.log(sizes), np.log(costs)
    x = x - x.mean()
    exponent = x @ y / (x @ x)
    rest = y - y.mean() - exponent * x
    free = len(sizes) - 2
    error = np.sqrt(rest @ rest / free / (x @ x))
    return Slope(float(exponent), float(stdtrit(free, 0.975) * error))


def meeting_of(sizes: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> Meeting:
    """The size from which on ours is the lesser cost, between two sizes as on log-log paper.

    >>> str(meeting_of([1, 100], [5, 5], [1, 100]))
    '5'
    >>> str(meeting_of([1, 100], [1, 1], [2, 200])), str(meeting_of([1, 100], [3, 300], [2, 200]))
    ('below 1', 'beyond 100')
    """
    gaps = np.log(ours) - np.log(theirs)
    dearer = np.flatnonzero(gaps > 0)
    if not len(dearer):
        return Meeting(None, sizes[0], sizes[-1], always=True)
    left = int(dearer[-1])
    if left == len(sizes) - 1:
        return Meeting(None, sizes[0], sizes[-1])
    share = gaps[left] / (gaps[left] - gaps[left + 1])
    x = np.log(sizes[left : left + 2])
    return Meeting(float(np.exp(x[0] + share * (x[1] - x[0]))), sizes[0], sizes[-1])


def short(number: float) -> str:
    """A number with three digits, or all that it has before the point.

    >>> short(50.52), short(1903.2), short(1.166666)
    ('50.5', '1,903', '1.17')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
