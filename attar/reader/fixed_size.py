"""FixedSizeReader: a reader whose memories never grow: the sums of `attar.nn.phrases` instead of phrase vectors.

What is kept besides, the phrases to choose from and the words of sentences, is cut to fit `FIXED_SIZE`.
"""

from functools import cached_property
from pathlib import Path

import numpy as np

from attar.errors import OptionError
from attar.memory.algebra import FIXED_SIZE, within_budget
from attar.memory.memory import Floats, Form, Memory
from attar.memory.phrases import PhraseIndex
from attar.progress import ignore_progress
from attar.reader.parts import ReaderParts
from attar.reader.questions import Query
from attar.reader.reader import Reader
from attar.reader.windows import WindowedText


class FixedSizeReader(Reader):
    """Reads texts into sums over phrases, `[k, d + k]`, in at most 16 kB."""

    form: Form = "ridge"
    quick = False

    def __init__(self, parts: ReaderParts, *, folder: Path | None = None) -> None:
        super().__init__(parts, folder=folder)
        if not parts.options.values:
            raise OptionError("this reader has no memories of fixed size", "use `fixed`")

    @cached_property
    def _value_table(self) -> Floats:
        """The value of each word piece, `[V, d]`."""
        weight = self.parts.weight
        table: Floats = weight("network.encoder.words.weight") @ weight("network.ridge.value.weight").T
        return table

    def _finished(self, memory: Memory, budget: int | None) -> Memory:
        return self._within(self._made(self._sums(memory), memory.phrases, memory.tokens), budget)

    def _continued(self, before: Memory, new: Memory) -> Memory:
        # The last window is part of what was read again: its phrases are taken out of the sums first.
        index = before.phrases
        (tail,) = self._read([WindowedText.of(index.tail, self.tokenizer)], 0, ignore_progress, None)
        sums = before.dequantized - self._sums(tail) + self._sums(new)
        joined = index.before_tail().add(new.phrases, joint=0)
        return self._made(sums, joined, before.tokens - tail.tokens + new.tokens)

    def _made(self, sums: Floats, index: PhraseIndex, tokens: int) -> Memory:
        return Memory.quantized(sums, form="ridge", phrases=index, tokens=tokens, reader=self.fingerprint)

    def _within(self, memory: Memory, budget: int | None) -> Memory:
        return within_budget(memory, min(budget or FIXED_SIZE, FIXED_SIZE))

    def _sums(self, memory: Memory) -> Floats:
        """C and G side by side `[k, d + k]` of a memory of phrases."""
        vectors = memory.dequantized
        keys = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        sums: Floats = keys.T @ np.concatenate([self._values(memory.phrases), keys], 1)
        return sums

    def _values(self, index: PhraseIndex) -> Floats:
        """The values of phrases `[P, d]`, from their texts."""
        pieces = self.tokenizer.read_sentences(index.texts_of(np.arange(len(index))))
        width = self._value_table.shape[1]
        sums = np.array([self._value_table[ids].sum(0) for ids, _ in pieces], np.float32).reshape(-1, width)
        values: Floats = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        return values

    def _products(self, memory: Memory, query: Query) -> Floats:
        weight, ridge = self.parts.weight, "network.ridge"
        vector = weight(f"{ridge}.query.weight") @ query.vector + weight(f"{ridge}.query.bias")
        readout = self.look_up(memory, vector)
        if "values" not in memory.computed:
            memory.computed["values"] = self._values(memory.phrases)
        products: Floats = memory.computed["values"] @ readout * weight(f"{ridge}.sharpness")
        return products

    def look_up(self, memory: Memory, query: Floats) -> Floats:
        """The readout `[d]` of a query `[k]`: Cᵀ (G + λI)⁻¹ q."""
        readout: Floats = memory.lookup(query[None])[0]
        return readout
