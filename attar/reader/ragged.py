"""Arrays of different lengths as one: what a device and other processes get of many questions at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.reader.fast_spans import Pieces, Spans


@dataclass(frozen=True, eq=False)
class Ragged:
    """Arrays of different lengths one after another, which are sent to another process as one.

    >>> ragged = Ragged.of([np.array([1, 2]), np.array([3])])
    >>> [part.tolist() for part in ragged.at(np.array([1, 0]))]
    [[3], [1, 2]]
    """

    joined: NDArray[Any]
    bounds: NDArray[np.int64]  # where each begins, and the last ends

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> "Ragged":
        return cls.sized(np.concatenate(arrays), np.array([len(array) for array in arrays]))

    @classmethod
    def sized(cls, joined: NDArray[Any], sizes: NDArray[np.int64]) -> "Ragged":
        return cls(joined, np.concatenate(([0], np.cumsum(sizes))))

    @classmethod
    def chained(cls, parts: "Sequence[Ragged]") -> "Ragged":
        """Those of several, one after another."""
        sizes = np.concatenate([np.diff(part.bounds) for part in parts])
        return cls.sized(np.concatenate([part.joined for part in parts]), sizes)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self.joined[first:last] for first, last in pairwise(self.bounds.tolist()))

    def part(self, first: int, last: int) -> "Ragged":
        """Some of them."""
        bounds = self.bounds[first : last + 1]
        return Ragged(self.joined[bounds[0] : bounds[-1]], bounds - bounds[0])

    def at(self, order: NDArray[np.intp]) -> "Ragged":
        """Them in another order."""
        sizes = np.diff(self.bounds)[order]
        moved = np.repeat(self.bounds[order] - np.cumsum(sizes) + sizes, sizes)
        return Ragged.sized(self.joined[np.arange(len(moved)) + moved], sizes)


class JoinedPieces(NamedTuple):
    """`Pieces` of many inputs."""

    questions: Ragged
    texts: Ragged

    @classmethod
    def of(cls, inputs: Sequence[Pieces]) -> "JoinedPieces":
        return cls(*map(Ragged.of, zip(*inputs, strict=True)))

    @classmethod
    def chained(cls, parts: "Sequence[JoinedPieces]") -> "JoinedPieces":
        return cls(*map(Ragged.chained, zip(*parts, strict=True)))

    def at(self, order: NDArray[np.intp]) -> "JoinedPieces":
        return JoinedPieces(self.questions.at(order), self.texts.at(order))


class JoinedSpans(NamedTuple):
    """`Spans` of many inputs."""

    starts: Ragged
    ends: Ragged
    present: Floats

    @classmethod
    def chained(cls, parts: "Sequence[JoinedSpans]") -> "JoinedSpans":
        starts, ends, present = zip(*parts, strict=True)
        return cls(Ragged.chained(starts), Ragged.chained(ends), np.concatenate(present))

    def at(self, order: NDArray[np.intp]) -> "JoinedSpans":
        return JoinedSpans(self.starts.at(order), self.ends.at(order), self.present[order])

    def part(self, first: int, last: int) -> "JoinedSpans":
        return JoinedSpans(
            self.starts.part(first, last), self.ends.part(first, last), self.present[first:last]
        )

    def spans(self) -> list[Spans]:
        """Those of each input."""
        return list(map(Spans, self.starts, self.ends, self.present.tolist()))
