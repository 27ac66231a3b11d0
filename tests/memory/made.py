"""Memories of texts without a reader, for the tests of this folder and of the store's."""

import re

import numpy as np

from attar.memory.memory import Memory
from attar.memory.phrases import PhraseIndex

K = 4
VALUES = 3


def index_of(text: str, *, tail_from: int = 0) -> PhraseIndex:
    """Every word is a phrase, and so are the first two words of a sentence; the word's length is its piece's id.

    The tail begins with the sentence of the number `tail_from`.
    """
    sentences = [match.span() for match in re.finditer(r"\S[^.!?\n]*[.!?]*", text)]
    phrases, words, tail = [], [], (0, 0, 0)
    for number, (start, end) in enumerate(sentences):
        if number == tail_from:
            tail = (start, len(phrases), number)
        spans = [
            (start + match.start(), start + match.end()) for match in re.finditer(r"\S+", text[start:end])
        ]
        for place, (first, last) in enumerate(spans):
            phrases.append((first, last, number, float(last - first)))
            if place == 0 and len(spans) > 1:
                phrases.append((first, spans[1][1], number, -1.0))
        words.append(sorted({last - first for first, last in spans}))
    return PhraseIndex.of(text, phrases, sentences, words, tail=tail)


def memory_of(text: str, *, form: str = "phrases", seed: int = 0, reader: str = "r", k: int = K) -> Memory:
    """A memory with random numbers and the phrases of a text."""
    index, rng = index_of(text), np.random.default_rng(seed)
    keys = rng.standard_normal((len(index), k)).astype(np.float32)
    if form == "ridge":
        values = rng.standard_normal((len(index), VALUES)).astype(np.float32)
        keys = keys.T @ np.concatenate((values, keys), 1)
    return Memory.quantized(keys, form=form, phrases=index, tokens=len(text.split()), reader=reader)


def texts_of(index: PhraseIndex) -> list[str]:
    """The texts of all phrases."""
    return index.texts_of(np.arange(len(index)))
