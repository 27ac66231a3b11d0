"""Texts on their way into a network: cut at sentences' ends, and side by side in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from attar.memory import Memory
from attar.nn import Documents
from attar.progress import Progress, tell_nobody
from attar.text import NameTable, ReadText

# So many tokens are read at a time, whatever a text's length: a step takes about 1 KB a token (k = 128).
TOKENS_AT_ONCE = 32_768
LONGEST_PIECE = 4_096
SHORTEST_PIECE = 512


@dataclass(frozen=True)
class Reading:
    """A text in ids, the names as they stood at its end, and the memory that it goes on from, if any."""

    text: ReadText
    names: NameTable
    before: Memory | None = None

    def standing(self) -> "Reading":
        """The same with the names as they stand now, whatever their table learns later."""
        return replace(self, names=self.names.copy())


def piece_length(longest: int, count: int) -> int:
    """How many tokens of each of so many texts are read at a time: all alike, so that no short piece is last.

    >>> piece_length(1_000, 32), piece_length(5_000, 1), piece_length(5_000, 32)
    (1000, 2500, 1000)
    """
    most = min(LONGEST_PIECE, max(SHORTEST_PIECE, TOKENS_AT_ONCE // max(count, 1)))
    pieces = -(-longest // most)
    return -(-longest // max(pieces, 1))


def cut_at_ends(text: ReadText, tokens: int) -> list[ReadText]:
    """The text in pieces of whole sentences: each ends with the sentence that reaches so many tokens.

    >>> ends = np.array([False, True, False, False, True, True])
    >>> text = ReadText(np.arange(6, dtype=np.int32), ends, np.full(6, -1, np.int32))
    >>> [piece.ids.tolist() for piece in cut_at_ends(text, 3)]
    [[0, 1, 2, 3, 4], [5]]
    """
    count = len(text)
    stops = np.append(np.flatnonzero(text.sentence_ends[:-1]) + 1, count)
    pieces, start = [], 0
    while count - start > tokens:
        stop = int(stops[stops.searchsorted(start + tokens)])
        pieces.append(slice(start, stop))
        start = stop
    if start < count or not count:
        pieces.append(slice(start, count))
    return [ReadText(text.ids[at], text.sentence_ends[at], text.names[at]) for at in pieces]


def side_by_side(texts: Sequence[ReadText], names: int) -> Documents:
    """A batch of texts, padded to the longest, with room for so many names each."""
    lengths = np.array([len(text) for text in texts], np.int64)
    shape = (len(texts), int(lengths.max(initial=0)))
    inside = np.arange(shape[1]) < lengths[:, None]

    def padded(rows: list[NDArray[np.int32]], padding: int) -> torch.Tensor:
        whole = np.full(shape, padding, np.int32)
        whole[inside] = np.concatenate(rows)
        return torch.from_numpy(whole)

    ends = np.zeros(shape, np.bool_)
    ends[inside] = np.concatenate([text.sentence_ends for text in texts])
    return Documents(
        padded([text.ids for text in texts], 0),
        torch.from_numpy(lengths),
        torch.from_numpy(ends),
        padded([text.names for text in texts], -1),
        # Only their number counts here: which of them a text holds is known to its own memory.
        torch.empty(len(texts), names, dtype=torch.int64),
    )


def in_step(
    readings: Sequence[Reading], *, whole: bool = False, progress: Progress = tell_nobody
) -> Iterator[tuple[list[int], list[int], Documents]]:
    """Batches of the texts' next pieces, until all have ended; in one piece each if they must be whole.

    With each batch comes which texts these are, and which rows of the batch before them.
    """
    longest = max(len(reading.text) for reading in readings)
    tokens = longest if whole else piece_length(longest, len(readings))
    pieces = [cut_at_ends(reading.text, tokens) for reading in readings]
    names = max(len(reading.names) for reading in readings)
    texts = rows = list(range(len(readings)))
    total, done, at = sum(len(reading.text) for reading in readings), 0, 0
    while texts:
        progress("reading", done, total)
        done += sum(len(pieces[text][at]) for text in texts)
        yield texts, rows, side_by_side([pieces[text][at] for text in texts], names)
        at += 1
        rows = [row for row, text in enumerate(texts) if at < len(pieces[text])]
        texts = [texts[row] for row in rows]
