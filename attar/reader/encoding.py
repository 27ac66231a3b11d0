"""Texts into windows of whole sentences, in word pieces, and windows into phrases.

The network, with torch, gives hidden states, which spans may be phrases, and the vectors of the likeliest.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.memory.phrases import JOINT, PhraseIndex
from attar.options import LONGEST
from attar.progress import check_stopped
from attar.reader.parts import ReaderParts
from attar.text.pieces import PieceTokenizer
from attar.text.sentences import begins_anew, sentence_spans

if TYPE_CHECKING:
    import torch

# The most pieces of a window.
WINDOW = 318
# From this many pieces on a window ends at a blank line.
PARAGRAPH = 128
# Sentences tokenized at a time.
_SENTENCES = 2_000


class WindowPhrases(NamedTuple):
    """The phrases of a window in the order of the text, as `PhraseIndex.of` takes them, and their vectors `[P, k]`."""

    phrases: NDArray[np.float64]
    vectors: Floats


@dataclass(frozen=True)
class Window:
    """Whole sentences in word pieces: ids `[n]`, the place of each piece `[n, 2]`, its sentence's number `[n]`."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    sentences: NDArray[np.int64]


class _Part(NamedTuple):
    """Pieces of one sentence."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    sentence: int


def cut_windows(tokenizer: PieceTokenizer, text: str, spans: Sequence[tuple[int, int]]) -> list[Window]:
    """A text, whose sentences have these spans, in windows of whole ones, each decided by what is before its end."""
    windows: list[Window] = []
    parts: list[_Part] = []
    count = 0

    def close() -> None:
        nonlocal parts, count
        if parts:
            numbers = [np.full(len(part.ids), part.sentence) for part in parts]
            ids = np.concatenate([part.ids for part in parts])
            places = np.concatenate([part.places for part in parts])
            windows.append(Window(ids, places, np.concatenate(numbers)))
        parts, count = [], 0

    for first in range(0, len(spans), _SENTENCES):
        check_stopped()
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
                parts.append(_Part(ids[piece], places[piece] + start, at))
                count += len(ids[piece])
    close()
    return windows


@dataclass(frozen=True)
class WindowedText:
    """A text that is read, in windows: with the last window of the memory that it extends, which is read again."""

    text: str
    sentences: list[tuple[int, int]]
    windows: list[Window]

    @classmethod
    def of(cls, text: str, tokenizer: PieceTokenizer, before: PhraseIndex | None = None) -> "WindowedText":
        """What is read of a text; `before` is the index of the memory that it extends."""
        if before is not None and before.characters:
            text = before.tail + JOINT + text
        sentences = list(sentence_spans(text))
        return cls(text, sentences, cut_windows(tokenizer, text, sentences))

    @property
    def tokens(self) -> int:
        """The number of its word pieces."""
        return sum(len(window.ids) for window in self.windows)

    def batches(self, size: int) -> list[list[int]]:
        """The numbers of windows that are encoded together, of similar length, so that little is padding.

        They are of this text only: with windows of other texts they would be padded, and rounded, in another way, and
        a document must have the same bytes whatever is read with it. With a size of 1 it also has the same bytes
        whatever was read before it: extending equals reading at once.
        """
        order = sorted(range(len(self.windows)), key=lambda at: len(self.windows[at].ids))
        return [order[first : first + size] for first in range(0, len(order), size)]

    def index(self, encoded: Sequence[WindowPhrases]) -> PhraseIndex:
        """The index of the text, from the phrases of each window."""
        words: list[list[NDArray[np.int64]]] = [[] for _ in self.sentences]
        beginnings, sentence, phrases = [(0, 0, 0)], -1, 0
        for window, result in zip(self.windows, encoded, strict=True):
            # The tail begins with a sentence, so that it is cut into the same sentences again.
            if window.sentences[0] > sentence:
                sentence = int(window.sentences[0])
                beginnings.append((self.sentences[sentence][0], phrases, sentence))
            sentence = int(window.sentences[-1])
            phrases += len(result.phrases)
            for at in np.unique(window.sentences):
                words[at].append(np.unique(window.ids[window.sentences == at]))
        tail = next(
            (place for place in reversed(beginnings) if begins_anew(self.text, place[0])), beginnings[0]
        )
        return PhraseIndex.of(
            self.text,
            np.concatenate([np.zeros((0, 4)), *(window.phrases for window in encoded)]),
            self.sentences,
            [np.concatenate([np.zeros(0, np.int64), *of_sentence]) for of_sentence in words],
            tail=tail,
        )


# A CPU reads one window at a time as fast as four, and then a window has the same bytes whatever is read with it.
_WINDOWS = 1
# A GPU would mostly wait for its next window.
_WINDOWS_ON_GPU = 4
# The longest phrase, in characters: a word that the tokenizer does not know may be as long as the text.
_LONGEST_PHRASE = 1_000

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class EncodedWindow(NamedTuple):
    """A window's phrases, and its hidden states `[n, d]`, which signatures are made of."""

    found: WindowPhrases
    states: Floats


class _Hidden(NamedTuple):
    """Windows on their way through the network."""

    ids: "torch.Tensor"  # [B, n], padded
    mask: "torch.Tensor"  # [B, n], where they are
    hidden: "torch.Tensor"  # [B, n, d]
    states: list[Floats]  # of each window `[n, d]`, for signatures


class TextEncoder:
    """The network that reads texts."""

    def __init__(self, parts: ReaderParts, signature_layers: int) -> None:
        self._parts, self._signature_layers = parts, signature_layers

    @property
    def batch_size(self) -> int:
        """Windows that are encoded together."""
        device = self._parts.network().encoder.words.weight.device
        return _WINDOWS if device.type == "cpu" else _WINDOWS_ON_GPU

    def states(self, windows: Sequence[Window]) -> list[Floats]:
        """The hidden states of each window that signatures are made of, by as few layers as these need."""
        return self._hidden(windows, only_states=True).states

    def encode(self, windows: Sequence[Window]) -> list[EncodedWindow]:
        """The phrases of each window, their vectors, and its states for signatures."""
        import torch

        from attar.nn.phrases import valid_spans

        network, tokenizer = self._parts.network(), self._parts.tokenizer
        ids, mask, hidden, states = self._hidden(windows)
        sentences, _, inside = pad([window.sentences for window in windows], 0, 0)
        with torch.inference_mode():
            texts = network.describe_texts(ids, hidden, mask)
            firsts, lasts = texts.firsts.cpu(), texts.lasts.cpu()
            valid = valid_spans(sentences, inside) & whole_words(ids.cpu(), tokenizer.continuing)
            priors = network.priors(texts, valid.to(ids.device)).cpu()
            if self._parts.config.network.distinct:
                priors = distinct_spans(ids.cpu(), priors, tokenizer)
            priors = priors.flatten(1)
        encoded = []
        for row, window in enumerate(windows):
            spans = _likeliest(window, priors[row], self._parts.config.network.density)
            vectors: Floats = (firsts[row, spans.first] + lasts[row, spans.last]).numpy()
            encoded.append(EncodedWindow(WindowPhrases(spans.phrases, vectors), states[row]))
        return encoded

    def _hidden(self, windows: Sequence[Window], only_states: bool = False) -> _Hidden:
        import torch

        tokenizer, encoder = self._parts.tokenizer, self._parts.network().encoder
        device = encoder.words.weight.device
        ids, mask, _ = pad([window.ids for window in windows], tokenizer.cls, tokenizer.sep)
        ids, mask = ids.to(device), mask.to(device)
        with torch.inference_mode():
            hidden = encoder(ids, mask, layers=self._signature_layers)
            rows = zip(windows, hidden.float().cpu().numpy(), strict=True)
            states: list[Floats] = [row[1 : len(window.ids) + 1] for window, row in rows]
            if not only_states:
                hidden = encoder.continued(hidden, mask, slice(self._signature_layers, None))
        return _Hidden(ids, mask, hidden, states)


class _Spans(NamedTuple):
    """Phrases of a window, and the first and the last piece of each, counted from 1."""

    phrases: NDArray[np.float64]
    first: "torch.Tensor"
    last: "torch.Tensor"


def _likeliest(window: Window, priors: "torch.Tensor", density: float) -> _Spans:
    """The likeliest phrases by their priors `[n * w]`, `density` of them per piece, in the order of the text."""
    import torch

    count = min(int(np.ceil(density * len(window.ids))), int(priors.isfinite().sum()))
    chosen = priors.topk(count).indices.sort().values
    first, last = chosen // LONGEST, chosen // LONGEST + chosen % LONGEST
    lengths = window.places[last.numpy() - 1, 1] - window.places[first.numpy() - 1, 0]
    short = torch.from_numpy(lengths <= _LONGEST_PHRASE)
    chosen, first, last = chosen[short], first[short], last[short]
    first_at, last_at = (first - 1).numpy(), (last - 1).numpy()
    starts, ends = window.places[first_at, 0], window.places[last_at, 1]
    phrases = np.column_stack((starts, ends, window.sentences[first_at], priors[chosen].numpy()))
    return _Spans(phrases, first, last)


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
        inside[at, 1 : len(row) + 1] = True
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


def encode_batches(
    encode: Callable[[Batch], Result], batches: Sequence[Batch], take: Callable[[Batch, Result], None]
) -> None:
    """Encode batches, and take the results in their order.

    Each is encoded by one thread, as many at a time as torch has threads: threads that share one wait for each other,
    and could round it in another way.
    """
    with inference() as threads, ThreadPoolExecutor(threads) as pool:
        several = min(threads, len(batches)) > 1
        results = pool.map(encode, batches) if several else map(encode, batches)
        try:
            for batch, result in zip(batches, results, strict=True):
                check_stopped()
                take(batch, result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def inference() -> Iterator[int]:
    """Compute without gradients and with one thread; yields how many threads torch had.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with inference():
    ...     torch.get_num_threads(), torch.is_inference_mode_enabled()
    (1, True)
    >>> torch.get_num_threads() == before
    True
    """
    import torch

    before = torch.get_num_threads()
    if before != 1:
        torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield before
    finally:
        if before != 1:
            torch.set_num_threads(before)
