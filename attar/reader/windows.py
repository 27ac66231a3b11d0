"""Texts into windows: whole sentences in word pieces, which are encoded one by one, and put together again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.forms import Floats
from attar.memory.phrases import JOINT, PhraseIndex
from attar.progress import check_stopped
from attar.text.pieces import PieceTokenizer
from attar.text.sentences import begins_anew, sentence_spans

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
