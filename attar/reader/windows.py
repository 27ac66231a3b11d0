"""Texts cut into windows of whole sentences: what a phrase reader's encoder reads at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attar.text import PieceTokenizer, sentence_spans

if TYPE_CHECKING:
    import torch

# Pieces per window, and from which on a window ends at a blank line.
WINDOW, PARAGRAPH = 318, 128
# Sentences tokenized at a time.
_SENTENCES = 2_000


@dataclass(frozen=True)
class Window:
    """Whole sentences in word pieces: ids `[n]`, the place of each piece `[n, 2]`, its sentence's number `[n]`."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    sentences: NDArray[np.int64]


def cut_windows(tokenizer: PieceTokenizer, text: str) -> list[Window]:
    """A text in windows of whole sentences, each decided by what is before its end."""
    spans = list(sentence_spans(text))
    windows: list[Window] = []
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
    count = 0

    def close() -> None:
        nonlocal parts, count
        if parts:
            numbers = [np.full(len(ids), at) for ids, _, at in parts]
            ids, places = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
            windows.append(Window(ids, places, np.concatenate(numbers)))
        parts, count = [], 0

    for first in range(0, len(spans), _SENTENCES):
        chunk = spans[first : first + _SENTENCES]
        read = tokenizer.read_sentences([text[start:end] for start, end in chunk])
        for at, ((start, _), (ids, places)) in enumerate(zip(chunk, read, strict=True), first):
            new_paragraph = at > 0 and "\n\n" in text[spans[at - 1][1] : start].replace(" ", "")
            if count + len(ids) > WINDOW or (new_paragraph and count >= PARAGRAPH):
                close()
            for cut in range(0, len(ids), WINDOW):
                if count and cut:
                    close()
                piece = slice(cut, cut + WINDOW)
                parts.append((ids[piece], places[piece] + start, at))
                count += len(ids[piece])
    close()
    return windows


def pad(
    rows: Sequence[NDArray[Any]], first: int, last: int
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Rows between two values, padded with 0; where they are, and where they are without the two."""
    import torch

    width = max(len(row) for row in rows) + 2
    values = np.zeros((len(rows), width), np.int64)
    inside = np.zeros((len(rows), width), np.bool_)
    mask = np.zeros((len(rows), width), np.bool_)
    for at, row in enumerate(rows):
        values[at, 0], values[at, 1 : len(row) + 1], values[at, len(row) + 1] = first, row, last
        inside[at, 1 : len(row) + 1] = mask[at, : len(row) + 2] = True
        mask[at, : len(row) + 2] = True
    return torch.from_numpy(values), torch.from_numpy(mask), torch.from_numpy(inside)


def whole_words(ids: "torch.Tensor", continuing: NDArray[np.bool_]) -> "torch.Tensor":
    """Where a span neither starts nor ends inside a word, `[B, n, w]`; `continuing` says which pieces are inside."""
    import torch

    from attar.nn import following

    inner = torch.from_numpy(continuing[ids.numpy()])
    ends = torch.nn.functional.pad(~inner[:, 1:], (0, 1), value=True)
    return ~inner[..., None] & (following(ends.float()) > 0)


def distinct_spans(ids: "torch.Tensor", priors: "torch.Tensor", tokenizer: PieceTokenizer) -> "torch.Tensor":
    """Priors `[B, n, w]` with only the likeliest of the spans that are the same answer; -inf for the others.

    They differ in an article before them or in punctuation around them: "the boat" and "boat,".
    """
    import torch

    from attar.nn import following

    count, pieces = ids.shape[1], ids.numpy()
    at = torch.arange(count)
    # The first piece from here on that counts, and the last one up to here.
    marks = tokenizer.marks[pieces]
    after = torch.where(torch.from_numpy(tokenizer.articles[pieces] | marks), count, at)
    after = after.flip(1).cummin(1).values.flip(1)
    before = torch.where(torch.from_numpy(marks), -1, at).cummax(1).values
    first, last = after[..., None], following(before.float(), -1.0).long()
    spans = torch.arange(priors[0].numel()).view(priors.shape[1:]) + count * count
    same = torch.where(first <= last, first * count + last, spans).flatten(1)
    best = torch.full((len(ids), count * count + spans.numel()), float("-inf"))
    best = best.scatter_reduce(1, same, priors.flatten(1), "amax")
    return priors.masked_fill((priors.flatten(1) < best.gather(1, same)).view_as(priors), float("-inf"))
