"""What is left of documents when sentences of them have become questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.cloze import DrawnQuestions, EncodedSplit, Ids, Offsets, concatenate_ranges


@dataclass(frozen=True)
class Remaining:
    """What of a split's documents is read in an epoch: all but the sentences that are questions now."""

    ids: Ids
    names: Ids
    sentence_ends: NDArray[np.bool_]
    starts: Offsets  # [D + 1], in tokens

    @classmethod
    def of(cls, split: EncodedSplit, drawn: DrawnQuestions | None) -> "Remaining":
        """The tokens that are left, one behind the other: found at once, so that a batch is made of slices."""
        held = held_out(split, drawn)
        if drawn is None or held is None:
            return cls(split.ids, split.names, split.sentence_ends, split.document_starts)
        document = np.repeat(np.arange(len(split)), np.diff(drawn.document_questions))
        gone = np.diff(split.sentence_starts)[drawn.sentences]
        left = split.lengths - np.bincount(document, gone, len(split)).astype(np.int64)
        kept = ~held
        starts = np.concatenate(([0], np.cumsum(left)))
        return cls(split.ids[kept], split.names[kept], split.sentence_ends[kept], starts)


def side_by_side(values: NDArray[Any], rows: Sequence[tuple[int, int]], padding: np.generic) -> NDArray[Any]:
    """Slices of an array as the rows of a rectangle.

    >>> side_by_side(np.arange(9), [(0, 2), (5, 8)], np.int64(-1)).tolist()
    [[0, 1, -1], [5, 6, 7]]
    """
    padded = np.full((len(rows), max((stop - start for start, stop in rows), default=0)), padding)
    for row, (start, stop) in zip(padded, rows, strict=True):
        row[: stop - start] = values[start:stop]
    return padded


def held_out(split: EncodedSplit, drawn: DrawnQuestions | None) -> NDArray[np.bool_] | None:
    """True for the tokens of sentences that are questions now, and no part of their documents."""
    if drawn is None:
        return None
    held = np.zeros(len(split.ids), np.bool_)
    held[
        concatenate_ranges(split.sentence_starts[drawn.sentences], split.sentence_starts[drawn.sentences + 1])
    ] = True
    return held
