"""`attar.nn.spans.SpanNetwork` in numpy, its weights and activations in int8.

Matrices have a scale per row, activations one per token: what a token becomes does not depend on what else is read
with it, so an answer does not depend on the other questions of a batch. Products of integers below 2**24 are exact in
float32, too: with torch, which has int8 products, the same numbers come out in a quarter of the time.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats, quantize
from attar.reader.parts import LOOK_LAYERS, to_floats

_LEVELS = np.float32(127)
# Of the layer norms.
_EPSILON = np.float32(1e-12)
# Rows of 1,536 numbers that are computed at a time: they stay in the caches.
_ROWS = 32
# Abramowitz and Stegun's approximation of erf, 7.1.26: within 1.5e-7.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


class Spans(NamedTuple):
    """What the network says about one input: start and end scores of its pieces, and that the answer is there."""

    starts: Floats  # [n]
    ends: Floats  # [n]
    present: float  # log-odds


class Pieces(NamedTuple):
    """An input: the question with [CLS] and [SEP], and the pieces that it is read with."""

    question: NDArray[np.integer[Any]]
    text: NDArray[np.integer[Any]]


class Int8Encoder:
    """A transformer with its word vectors, without torch. Layers are made when they are first needed."""

    def __init__(
        self,
        weights: Mapping[str, NDArray[Any]],
        part: str,
        words: Callable[[NDArray[np.integer[Any]]], Floats],
        *,
        heads: int,
        quick: bool = False,
    ) -> None:
        """An encoder of the weights under a name. `words` gives the vectors of word pieces; `quick` as for layers."""
        self._weights, self._words, self._heads, self._quick = weights, words, heads, quick
        self._positions, self._types, *self._norm = (
            to_floats(weights, f"{part}.{name}")
            for name in ("positions.weight", "types.weight", "norm.weight", "norm.bias")
        )
        self._layers: dict[str, Int8Layer] = {}
        self.longest = len(self._positions)

    def states(
        self,
        ids: NDArray[np.integer[Any]],
        places: NDArray[np.intp],
        kinds: int | NDArray[np.intp],
        bounds: NDArray[np.int64],
        layers: Sequence[str],
    ) -> Floats:
        """The states `[n, d]` of pieces after the layers of these names; an input is from a bound to the next."""
        x = normalized(self._words(ids) + self._positions[places] + self._types[kinds], *self._norm)
        for name in layers:
            if name not in self._layers:
                self._layers[name] = Int8Layer(self._weights, name, self._heads, quick=self._quick)
            x = self._layers[name].forward(x, bounds)
        return x


class FastSpans:
    """The network of a second look. `words` gives the vectors of word pieces, which it shares with its reader."""

    def __init__(
        self,
        weights: Mapping[str, NDArray[Any]],
        words: Callable[[NDArray[np.integer[Any]]], Floats],
        *,
        heads: int,
        separator: int,
    ) -> None:
        self._separator = separator
        self._encoder = Int8Encoder(weights, "look.encoder", words, heads=heads)
        count = len({name.split(".")[4] for name in weights if name.startswith(LOOK_LAYERS)})
        self._layers = [f"{LOOK_LAYERS}.{at}" for at in range(count)]
        self._ends, self._present = (
            (to_floats(weights, f"look.{name}.weight").T, to_floats(weights, f"look.{name}.bias"))
            for name in ("ends", "present")
        )
        self.longest = self._encoder.longest

    def read(self, inputs: Sequence[Pieces]) -> list[Spans]:
        """Start and end scores and presence of each input, of at most `longest` pieces with the last [SEP]."""
        asked = [len(pieces.question) for pieces in inputs]
        parts = [part for pieces in inputs for part in (*pieces, np.array([self._separator]))]
        lengths = [len(pieces.question) + len(pieces.text) + 1 for pieces in inputs]
        places, bounds = np.concatenate([np.arange(length) for length in lengths]), np.cumsum([0, *lengths])
        of_question = (places < np.repeat(asked, lengths)).astype(np.intp)
        x = self._encoder.states(np.concatenate(parts), places, of_question, bounds, self._layers)
        found = []
        for first, last, question in zip(bounds[:-1].tolist(), bounds[1:].tolist(), asked, strict=True):
            # One input at a time: the last digits of a product depend on how many rows it has.
            scores = x[first + question : last - 1] @ self._ends[0] + self._ends[1]
            present = x[first] @ self._present[0] + self._present[1]
            found.append(Spans(scores[:, 0], scores[:, 1], float(present[0])))
        return found


class Int8Layer:
    """`torch.nn.TransformerEncoderLayer` with the norm after each part."""

    def __init__(
        self, weights: Mapping[str, NDArray[Any]], name: str, heads: int, *, quick: bool = False
    ) -> None:
        """A layer of the weights under a name; `quick` keeps its matrices in float32, too, where there is no torch."""

        def linear(part: str, joint: str = ".") -> _Int8Linear:
            matrix = weights[f"{name}.{part}{joint}weight"]
            scales = weights.get(f"{name}.{part}{joint}weight.scale")
            if scales is None:
                matrix, largest = quantize(matrix.astype(np.float32))
                scales = largest / _LEVELS
            return _Int8Linear(matrix, scales, floats(f"{part}{joint}bias"), quick=quick)

        def floats(part: str) -> Floats:
            vector: Floats = weights[f"{name}.{part}"].astype(np.float32)
            return vector

        self._heads = heads
        self._into, self._out = linear("self_attn.in_proj", "_"), linear("self_attn.out_proj")
        self._up, self._down = linear("linear1"), linear("linear2")
        self._norms = [(floats(f"{norm}.weight"), floats(f"{norm}.bias")) for norm in ("norm1", "norm2")]

    def forward(self, x: Floats, bounds: NDArray[np.int64]) -> Floats:
        """The states `[n, d]` after the layer; each input is from a bound to the next."""
        size = x.shape[1]
        stacked = self._into(x).reshape(len(x), 3, self._heads, -1)
        stacked[:, 0] *= np.float32((size // self._heads) ** -0.5)
        read = np.empty_like(x)
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            queries, keys, values = stacked[first:last].transpose(1, 2, 0, 3)
            scores = queries @ keys.swapaxes(1, 2)
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            sums = scores.sum(-1, keepdims=True)
            found = scores @ values
            found /= sums
            read[first:last] = found.swapaxes(0, 1).reshape(last - first, size)
        x = normalized(x + self._out(read), *self._norms[0])
        return normalized(x + self._down(gelu(self._up(x))), *self._norms[1])


class _Int8Linear:
    """`x Wᵀ + b` with a scale per row of W and per row of x.

    >>> linear = _Int8Linear(np.array([[127, 0], [0, -127]], np.int8), np.float32([1, 2]) / 127, np.float32([0, 1]))
    >>> linear(np.float32([[2, 2], [0, 4]])).tolist()
    [[2.0, -3.0], [0.0, -7.0]]
    """

    def __init__(
        self, matrix: NDArray[np.int8], scales: Floats, bias: Floats, *, quick: bool = False
    ) -> None:
        self._matrix, self._scales, self._bias = np.ascontiguousarray(matrix), scales.reshape(-1), bias
        self._tensor: Any = None
        self._quick, self._floats = quick, np.zeros(0, np.float32)

    def __call__(self, x: Floats) -> Floats:
        largest = np.maximum(np.abs(x).max(1, keepdims=True), np.float32(1e-12))
        levels = np.rint(x * (_LEVELS / largest))
        product = self._product(levels)
        product *= largest * (1 / _LEVELS)
        product *= self._scales
        product += self._bias
        return product

    def _product(self, levels: Floats) -> Floats:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "_int_mm"):  # the latter while it is imported
            if self._quick and not self._floats.size:
                self._floats = self._matrix.T.astype(np.float32, order="C")
            # Made anew each time, unless it is quick: in float32 it takes four times the memory. What is used once
            # is not transposed in memory, which would take longer than the product gains.
            floats = self._floats if self._quick else self._matrix.astype(np.float32).T
            product: Floats = levels @ floats
            return product
        if self._tensor is None:
            self._tensor = torch.from_numpy(self._matrix).T
        # One thread: several wait for each other longer than they compute. After a search there are as many as cores,
        # whatever was set, since numba sets that for torch, too.
        threads = torch.get_num_threads()
        if threads != 1:
            torch.set_num_threads(1)
        try:
            integers: Floats = (
                torch._int_mm(torch.from_numpy(levels.astype(np.int8)), self._tensor).float().numpy()
            )
        finally:
            if threads != 1:
                torch.set_num_threads(threads)
        return integers


def normalized(x: Floats, weight: Floats, bias: Floats) -> Floats:
    x = x - x.mean(-1, keepdims=True)
    spread = np.einsum("nd,nd->n", x, x)[:, None] / np.float32(x.shape[1])
    spread += _EPSILON
    x /= np.sqrt(spread, out=spread)
    x *= weight
    x += bias
    return x


def gelu(x: Floats) -> Floats:
    """x Φ(x), in place, by Abramowitz and Stegun's approximation 7.1.26 of erf: within 1.5e-7, as exact as float32.

    Some rows at a time stay in the caches: of many, all at once take four times as long.
    """
    for first in range(0, len(x), _ROWS):
        rows = x[first : first + _ROWS]
        z = np.abs(rows)
        t = np.float32(0.3275911 * 0.5**0.5) * z
        t += 1
        np.reciprocal(t, out=t)
        tail = np.float32(_ERF[0]) * t
        for coefficient in _ERF[1:]:
            tail += np.float32(coefficient)
            tail *= t
        power = np.float32(-0.5) * z
        tail *= power
        power *= z
        np.exp(power, out=power)
        tail *= power
        np.maximum(rows, 0, out=rows)
        rows += tail
    return x
