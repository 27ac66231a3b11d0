"""Texts on their way to memories: cut into windows of whole sentences, encoded in batches, and put together again."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError
from attar.memory.forms import Floats
from attar.memory.phrases import JOINT, PhraseIndex
from attar.options import LONGEST
from attar.reader.reader import inference
from attar.text.pieces import PieceTokenizer
from attar.text.sentences import sentence_spans

if TYPE_CHECKING:
    import torch

# Pieces per window, and from which on a window ends at a blank line.
WINDOW, PARAGRAPH = 318, 128
# Sentences tokenized at a time.
_SENTENCES = 2_000
# The longest phrase, in characters: a word that the tokenizer does not know may be as long as the text.
_LONGEST_PHRASE = 1_000
# Characters of the texts that are read together.
_GROUP = 2**20

Phrases = list[tuple[int, int, int, float]]  # start, end, sentence, prior
_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Window:
    """Whole sentences in word pieces: ids `[n]`, the place of each piece `[n, 2]`, its sentence's number `[n]`."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    sentences: NDArray[np.int64]

    def likeliest(
        self, priors: "torch.Tensor", density: float
    ) -> "tuple[Phrases, torch.Tensor, torch.Tensor]":
        """The likeliest phrases by their priors `[n * w]`, `density` of them per piece, in the order of the text.

        Also returned: the first and the last piece of each, counted from 1.
        """
        import torch

        count = min(int(np.ceil(density * len(self.ids))), int(priors.isfinite().sum()))
        chosen = priors.topk(count).indices.sort().values
        first, last = chosen // LONGEST, chosen // LONGEST + chosen % LONGEST
        lengths = self.places[last.numpy() - 1, 1] - self.places[first.numpy() - 1, 0]
        short = torch.from_numpy(lengths <= _LONGEST_PHRASE)
        chosen, first, last = chosen[short], first[short], last[short]
        a, b = (first - 1).numpy(), (last - 1).numpy()
        starts, ends = self.places[a, 0].tolist(), self.places[b, 1].tolist()
        values = priors[chosen].tolist()
        return list(zip(starts, ends, self.sentences[a].tolist(), values, strict=True)), first, last


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


@dataclass(frozen=True)
class Draft:
    """A text that is read: with the last window of the memory that it extends, which is read again."""

    text: str
    windows: list[Window]

    @classmethod
    def of(cls, text: str, before: PhraseIndex | None, cut: Callable[[str], list[Window]]) -> "Draft":
        """What is read of a text; `cut` makes windows."""
        _check(text)
        if before is not None and before.characters:
            text = before.tail + JOINT + text
        return cls(text, cut(text))

    @property
    def tokens(self) -> int:
        """The number of its word pieces."""
        return sum(len(window.ids) for window in self.windows)

    def batches(self, size: int) -> list[list[int]]:
        """The numbers of windows that are encoded together: those of similar length, so that little is padding.

        They are of this text only: with windows of other texts they would be padded, and rounded, in another way, and
        a document must have the same bytes whatever is read with it. With a size of 1 it also has the same bytes
        whatever was read before it: extending equals reading at once.
        """
        order = sorted(range(len(self.windows)), key=lambda at: len(self.windows[at].ids))
        return [order[first : first + size] for first in range(0, len(order), size)]

    def index(self, encoded: Sequence[tuple[Phrases, Floats]], size: int) -> tuple[PhraseIndex, Floats]:
        """The phrases of the text and their vectors, from those of each window."""
        sentences = list(sentence_spans(self.text))
        vectors = [np.zeros((0, size), np.float32)]
        phrases: Phrases = []
        words: list[list[int]] = [[] for _ in sentences]
        last, sentence = (0, 0, 0), -1
        for window, (found, own) in zip(self.windows, encoded, strict=True):
            # The tail begins with a sentence, so that it is cut into the same sentences again.
            if window.sentences[0] > sentence:
                sentence = int(window.sentences[0])
                last = (sentences[sentence][0], len(phrases), sentence)
            sentence = int(window.sentences[-1])
            phrases += found
            vectors.append(own)
            for at in np.unique(window.sentences):
                words[at] += np.unique(window.ids[window.sentences == at]).tolist()
        return PhraseIndex.of(self.text, phrases, sentences, words, tail=last), np.concatenate(vectors)


def encode_batches(
    encode: Callable[[_Batch], _Result], batches: Sequence[_Batch], take: Callable[[_Batch, _Result], None]
) -> None:
    """Encode batches, and take the results in their order.

    Each is encoded by one thread, as many at a time as torch has threads: threads that share one wait for each other,
    and could round it in another way.
    """
    with inference() as threads, ThreadPoolExecutor(threads) as pool:
        several = min(threads, len(batches)) > 1
        results = pool.map(encode, batches) if several else map(encode, batches)
        for batch, result in zip(batches, results, strict=True):
            take(batch, result)


def text_groups(texts: Sequence[str]) -> list[list[tuple[int, str]]]:
    """Numbered texts that are read together: short ones fill batches, few long ones are in memory at once."""
    groups: list[list[tuple[int, str]]] = []
    size = _GROUP
    for at, text in enumerate(texts):
        _check(text)
        if size >= _GROUP:
            groups.append([])
            size = 0
        groups[-1].append((at, text))
        size += len(text)
    return groups


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

    from attar.nn.phrases import following

    inner = torch.from_numpy(continuing[ids.numpy()])
    ends = torch.nn.functional.pad(~inner[:, 1:], (0, 1), value=True)
    return ~inner[..., None] & (following(ends.float()) > 0)


def distinct_spans(ids: "torch.Tensor", priors: "torch.Tensor", tokenizer: PieceTokenizer) -> "torch.Tensor":
    """Priors `[B, n, w]` with only the likeliest of the spans that are the same answer; -inf for the others.

    They differ in an article before them or in punctuation around them: "the boat" and "boat,".
    """
    import torch

    from attar.nn.phrases import following

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


def _check(text: object) -> None:
    if not isinstance(text, str):
        raise DtypeError.expected("text", "a string", type(text).__name__)
