"""Company: which words and names stood in one sentence with each name, counted, to weigh for a question.

A name is known by the company it keeps. For name e and token w

    times(e, w) = Σ over sentences of (mentions of e in it) · [w occurs in it]

so that a name is in its own company as often as it is mentioned. Counts are exact, and add up as texts do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, ShapeError
from attar.memory import company_record
from attar.memory.company_record import Bytes
from attar.memory.entries import Integers, bits_for, entries_of, keys_of, summed
from attar.memory.forms import Floats

# log(1 + times) of all that fit into a byte.
LOGS: Floats = np.log1p(np.arange(256)).astype(np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Company:
    """The words and names that shared a sentence with each name, and how often (`attar.memory.entries`).

    A value, made by `attar.memory.counting`, `empty` or `from_bytes`. Here 2 and 3 are names 0 and 1, and 5 and 7
    words, in the sentences "2 5 2" and "3 2 7":

    >>> from attar.memory.counting import count_company
    >>> company = count_company([0, -1, 0, 1, 0, -1], [2, 5, 2, 3, 2, 7], [0, 0, 1, 0, 0, 1], count=2, first=2,
    ...     limit=3, common=0)
    >>> company
    <Company: 2 names, 7 entries, 33 bytes>
    >>> company.of(0), company.of(1)
    ({2: 3, 3: 1, 5: 2, 7: 1}, {2: 1, 3: 1, 7: 1})
    >>> company.mentions().tolist()
    [3.0, 1.0]
    """

    starts: NDArray[np.int32]  # [count + 1]: where each name's tokens begin in `ids`
    ids: Integers  # [e], of tokens, ascending within a name
    times: Integers  # [e]
    first: int  # the id that stands for name 0; name j has the id first + j
    limit: int  # so many ids are names'

    def __post_init__(self) -> None:
        for array in (self.starts, self.ids, self.times):
            array.flags.writeable = False

    @classmethod
    def empty(cls, count: int, first: int, limit: int) -> "Company":
        """The company of so many names before anything was read."""
        return cls(np.zeros(count + 1, np.int32), np.zeros(0, np.uint16), np.zeros(0, np.uint8), first, limit)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, name: int) -> dict[int, int]:
        """The tokens of one name's company and how often each was there."""
        at = slice(self.starts[name], self.starts[name + 1])
        return dict(zip(self.ids[at].tolist(), self.times[at].tolist(), strict=True))

    @property
    def nbytes(self) -> int:
        """How many bytes the counts take."""
        return self.starts.nbytes + self.ids.nbytes + self.times.nbytes

    def weighed(self, weights: Floats) -> Floats:
        """Of each name `[count]` the sum of weights[id] · log(1 + times), for weights `[V]` of all tokens."""
        try:
            values = weights.take(self.ids)
        except IndexError:
            wanted = f"[V] with V > {self.ids.max()}"
            raise ShapeError("weights", wanted, str(list(weights.shape))) from None
        return np.bincount(self._names, values * logs(self.times), len(self)).astype(np.float32)

    @cached_property
    def _names(self) -> Integers:
        """The name of each entry."""
        # Not by np.diff, which takes as long as all of the rest.
        return np.arange(len(self)).repeat(self.starts[1:] - self.starts[:-1])

    @cached_property
    def by_token(self) -> tuple[Integers, Integers, Floats]:
        """All entries in the order of their tokens: token, name, log(1 + times). Made once, and asked often."""
        order = self.ids.argsort(kind="stable")
        return self.ids[order].astype(np.int32), self._names[order], logs(self.times)[order]

    def mentions(self) -> Floats:
        """How often each name is mentioned `[count]`: its times with itself."""
        return self._mentions

    @cached_property
    def _mentions(self) -> Floats:  # asked for with every question
        found = np.zeros(len(self), np.float32)
        names = self._names
        itself = np.flatnonzero(self.ids == names + self.first)
        found[names[itself]] = self.times[itself]
        found.flags.writeable = False
        return found

    def with_room(self, count: int) -> "Company":
        """The same with names behind its own, up to so many, that have no company yet."""
        more = count - len(self)
        return self if more <= 0 else replace(self, starts=np.pad(self.starts, (0, more), mode="edge"))

    def added(self, later: "Company", places: Sequence[int], count: int) -> "Company":
        """The company of both texts for so many names, where name j of the later one is name places[j] here."""
        return self._combined("a + b", later, places, max(count, len(self)), 1)

    def subtracted(self, part: "Company", places: Sequence[int]) -> "Company":
        """The company without that of a part, whose name j is name places[j] here."""
        return self._combined("a - b", part, places, len(self), -1)

    def _combined(
        self, what: str, other: "Company", places: Sequence[int], count: int, sign: int
    ) -> "Company":
        self.check_alike(what, other)
        moved = np.asarray(places, np.int64)
        if len(moved) != len(other) or (len(moved) and not 0 <= moved.min() <= moved.max() < count):
            wanted = f"a place below {count} for each of {len(other)} names"
            raise ShapeError(what, wanted, str(list(places)[:9]))
        ids = other.ids.astype(np.int64)
        names = np.flatnonzero((ids >= self.first) & (ids < self.first + self.limit))
        ids[names] = moved[ids[names] - self.first] + self.first
        bits = max(bits_for(self.ids), bits_for(ids))
        keys = np.concatenate(
            (keys_of(self.starts, self.ids, bits), (moved << bits).repeat(np.diff(other.starts)) | ids)
        )
        times = np.concatenate((self.times.astype(np.int64), sign * other.times.astype(np.int64)))
        keys, times = summed(keys, times)
        if times.min(initial=0) < 0:
            came = "words and names more often together than in a"
            raise OptionError(what, "a part of what a was read from", came)
        return Company(*entries_of(keys, times, bits, count), self.first, self.limit)

    def check_alike(self, what: str, other: "Company") -> None:
        """Refuse company whose ids mean other things."""
        if (self.first, self.limit) != (other.first, other.limit):
            ours, theirs = (f"{one.limit} names from id {one.first} on" for one in (self, other))
            raise OptionError(what, f"company of {ours}", theirs, "read both texts with one reader")

    def to_bytes(self) -> bytes:
        """The company as bytes, laid out as `attar.memory.company_record` says."""
        return company_record.write_company(self)

    @classmethod
    def from_bytes(cls, buffer: Bytes, *, check: bool = True) -> "Company":
        """The company of such bytes, over the buffer's own; `check=False` looks at sizes only."""
        return cls(*company_record.read_company(buffer, check))

    def __reduce__(self) -> tuple[Any, ...]:
        return Company.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Company):
            return NotImplemented
        return (
            (self.first, self.limit) == (other.first, other.limit)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.times, other.times)
        )

    __hash__ = None  # type: ignore[assignment]  # equal by its counts, which are many

    def __repr__(self) -> str:
        return f"<Company: {len(self)} names, {len(self.ids)} entries, {self.nbytes} bytes>"


def weighed_many(
    companies: Sequence[Company], asked_ids: Integers, asked_weights: Floats, asked_starts: Integers
) -> Floats:
    """Of each name the sum of weight · log(1 + times), for question q over companies[q]: `[Q, width, j]`.

    The tokens of question q and their weights `[t, j]` are those from asked_starts[q] up to asked_starts[q + 1]; a
    token that is there twice has the sum. Behind a company's last name are zeros.
    """
    count = len(companies)
    if len(asked_starts) != count + 1:
        wanted = f"[{count + 1}], for a question to each of {count} companies"
        raise ShapeError("asked_starts", wanted, str([len(asked_starts)]))
    if asked_ids.min(initial=0) < 0:
        raise OptionError("asked_ids", "ids of tokens, from 0 up", str(asked_ids.min()))
    width = max(map(len, companies), default=0)
    scores = np.zeros((count, width, asked_weights.shape[1]), np.float32)
    if not width:
        return scores
    # Most of a company is not asked for: tokens are found in its index, and what they have is summed for all at once.
    indexes = {id(company): company.by_token for company in companies}
    places = dict(zip(indexes, np.cumsum([0, *(len(each[0]) for each in indexes.values())]), strict=False))
    _, names, amounts = (np.concatenate(parts) for parts in zip(*indexes.values(), strict=True))
    begin, stop = np.empty((2, len(asked_ids)), np.int64)
    for company, (first, last) in zip(companies, pairwise(np.asarray(asked_starts).tolist()), strict=True):
        known, place = indexes[id(company)][0], places[id(company)]
        begin[first:last] = known.searchsorted(asked_ids[first:last]) + place
        stop[first:last] = known.searchsorted(asked_ids[first:last], "right") + place
    sizes = stop - begin
    stops = sizes.cumsum()
    among = (begin - stops + sizes).repeat(sizes) + np.arange(stops[-1] if len(stops) else 0)
    question = np.arange(count).repeat(np.diff(asked_starts))
    into, amount = (question * width).repeat(sizes) + names[among], amounts[among]
    for column, weights in enumerate(asked_weights.T):
        sums = np.bincount(into, weights.repeat(sizes) * amount, count * width)
        scores[:, :, column] = sums.reshape(count, width)
    return scores


def logs(times: Integers) -> Floats:
    """log(1 + times)."""
    if times.itemsize == 1:
        return LOGS.take(times, mode="clip")  # all are in it, and "clip" need not look
    return np.log1p(times, dtype=np.float64).astype(np.float32)
