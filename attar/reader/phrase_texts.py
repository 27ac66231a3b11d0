"""Texts on their way to memories: cut into windows, and put together from the phrases of these."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from attar.errors import DtypeError
from attar.memory import JOINT, Floats, Memory, PhraseIndex
from attar.reader.windows import Window
from attar.text import sentence_spans

# Characters of the texts that are read together.
_GROUP = 2**20


Phrases = list[tuple[int, int, int, float]]  # start, end, sentence, prior
_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Draft:
    """A text that is read: with the last window of the memory that it extends, which is read again."""

    text: str
    windows: list[Window]
    tokens: int  # of the whole memory
    earlier: PhraseIndex | None = None
    vectors: Floats | None = None

    @classmethod
    def of(cls, text: str, before: Memory | None, cut: Callable[[str], list[Window]]) -> "Draft":
        """What is read of a text; `cut` makes windows."""
        _check(text)
        if before is None or before.phrases is None:
            windows = cut(text)
            return cls(text, windows, _count(windows))
        tail = before.phrases.tail
        text = tail + JOINT + text if before.phrases.characters else text
        windows = cut(text)
        tokens = before.tokens - _count(cut(tail)) + _count(windows)
        vectors = before.to_float32()[: before.phrases.tail_phrases]
        return cls(text, windows, tokens, before.phrases.before_tail(), vectors)

    def batches(self, size: int) -> list[list[int]]:
        """The numbers of windows that are encoded together: those of similar length, so that little is padding.

        They are of this text only: with windows of other texts they would be padded, and rounded, in another way, and
        a document must have the same bytes whatever is read with it.
        """
        order = sorted(range(len(self.windows)), key=lambda at: len(self.windows[at].ids))
        return [order[first : first + size] for first in range(0, len(order), size)]

    def index(self, encoded: Sequence[tuple[Phrases, Floats]], size: int) -> tuple[PhraseIndex, Floats]:
        """The phrases of the whole text and their vectors, from those of each window."""
        sentences = list(sentence_spans(self.text))
        vectors = [np.zeros((0, size), np.float32) if self.vectors is None else self.vectors]
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
        index = PhraseIndex.of(self.text, phrases, sentences, words, tail=last)
        return index if self.earlier is None else self.earlier.add(index, joint=0), np.concatenate(vectors)


def encode_batches(
    encode: Callable[[_Batch], _Result], batches: Sequence[_Batch], take: Callable[[_Batch, _Result], None]
) -> None:
    """Encode batches, and take the results in their order.

    Each is encoded by one thread, as many at a time as torch has threads: threads that share one wait for each other,
    and could round it in another way.
    """
    from attar.reader.encoding import inference

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


def _check(text: object) -> None:
    if not isinstance(text, str):
        raise DtypeError("text", "a string", type(text).__name__)


def _count(windows: Sequence[Window]) -> int:
    return sum(len(window.ids) for window in windows)
