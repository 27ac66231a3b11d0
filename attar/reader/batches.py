"""Texts on their way into a network: cut at sentence ends, and padded in batches of bounded size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from attar.memory.memory import Memory
from attar.nn.network import Documents
from attar.progress import Progress, ignore_progress
from attar.text.name_table import NameTable
from attar.text.reading import ReadText

# Tokens per batch, whatever the length of the texts: a batch takes about 1 KB per token (k = 128).
TOKENS_PER_BATCH = 32_768
LONGEST_PIECE, _SHORTEST_PIECE = 4_096, 512


@dataclass(frozen=True)
class PendingText:
    """A text in ids, its table of names, and the memory that it extends, if any."""

    text: ReadText
    names: NameTable
    memory: Memory | None = None

    def with_own_names(self) -> "PendingText":
        """The same with a copy of the names, which does not change when the table learns more."""
        return replace(self, names=self.names.copy())


def piece_length(longest: int, count: int) -> int:
    """How many tokens of each of `count` texts are read per batch: equal pieces, so that the last is not short.

    >>> piece_length(1_000, 32), piece_length(5_000, 1), piece_length(5_000, 32)
    (1000, 2500, 1000)
    """
    most = min(LONGEST_PIECE, max(_SHORTEST_PIECE, TOKENS_PER_BATCH // max(count, 1)))
    pieces = -(-longest // most)
    return -(-longest // max(pieces, 1))


def split_at_sentences(text: ReadText, tokens: int) -> list[ReadText]:
    """The text in pieces of whole sentences: each ends with the sentence that reaches `tokens`.

    >>> ends = np.array([False, True, False, False, True, True])
    >>> text = ReadText(np.arange(6, dtype=np.int32), ends, np.full(6, -1, np.int32))
    >>> [piece.ids.tolist() for piece in split_at_sentences(text, 3)]
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


def pad_texts(texts: Sequence[ReadText], names: int) -> Documents:
    """A batch of texts, padded to the longest, with `names` candidates each."""
    lengths = np.array([len(text) for text in texts], np.int64)
    shape = (len(texts), int(lengths.max(initial=0)))
    inside = np.arange(shape[1]) < lengths[:, None]

    def padded(rows: list[NDArray[np.int32]], padding: int) -> torch.Tensor:
        batch = np.full(shape, padding, np.int32)
        batch[inside] = np.concatenate(rows)
        return torch.from_numpy(batch)

    ends = np.zeros(shape, np.bool_)
    ends[inside] = np.concatenate([text.sentence_ends for text in texts])
    return Documents(
        padded([text.ids for text in texts], 0),
        torch.from_numpy(lengths),
        torch.from_numpy(ends),
        padded([text.names for text in texts], -1),
        # Reading needs only the number of candidates, not which they are.
        torch.empty(len(texts), names, dtype=torch.int64),
    )


def iterate_batches(
    pending: Sequence[PendingText], *, whole: bool = False, progress: Progress = ignore_progress
) -> Iterator[tuple[list[int], list[int], Documents]]:
    """Yield batches of the texts' next pieces until all have ended; `whole` keeps each text in one piece.

    With each batch: the indices of its texts, and the rows that these texts had in the batch before.
    """
    longest = max(len(each.text) for each in pending)
    tokens = longest if whole else piece_length(longest, len(pending))
    pieces = [split_at_sentences(each.text, tokens) for each in pending]
    names = max(len(each.names) for each in pending)
    texts = rows = list(range(len(pending)))
    total, done, at = sum(len(each.text) for each in pending), 0, 0
    while texts:
        progress("reading", done, total)
        done += sum(len(pieces[text][at]) for text in texts)
        yield texts, rows, pad_texts([pieces[text][at] for text in texts], names)
        at += 1
        rows = [row for row, text in enumerate(texts) if at < len(pieces[text])]
        texts = [texts[row] for row in rows]
