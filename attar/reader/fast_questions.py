"""`PhraseNetwork.encode_questions` in numpy: the same numbers without torch, which takes two seconds to import.

AMD EPYC, milliseconds per question, torch in brackets. One thread: alone 3.6 (4.5), of 32 at a time 1.9 (2.7).
Two threads: 4.2 (6.5) and 1.4 (2.7).
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.memory import Floats
from attar.reader.phrase_files import SavedPhrases

_EPSILON = 1e-12  # of the layer norms
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
# Rows of 1,536 numbers whose GELU is computed at a time.
_ROWS = 32


class FastQuestions:
    """A question encoder of a reader: the quick one, or the large one, which is that of documents."""

    def __init__(self, saved: SavedPhrases, *, quick: bool) -> None:
        shared, own = (saved.options.encoder.layers, 0)
        if quick:
            assert saved.quick_layers is not None  # the caller has looked
            shared, own = saved.quick_layers
        self._saved, self._part = saved, "quick" if quick else "network"
        self._names = [f"network.encoder.layers.layers.{at}" for at in range(shared)]
        self._names += [f"quick.layers.layers.{at}" for at in range(own)]

    def states(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """The queries `[Q, k]`, the scores of "no answer" `[Q]`, and the weights of the words `[Q, l]`."""
        # States of word pieces only, `[n, d]`: of a batch, half of the places may be padding.
        x = self._embed(ids[mask], np.nonzero(mask)[1])
        for layer in self._layers:
            x = layer.forward(x, mask)
        firsts = x[np.cumsum(mask.sum(1)) - mask.sum(1)]
        queries, nulls, own = (
            states @ self._heads[name][0].T + self._heads[name][1]
            for name, states in (("query", firsts), ("null", firsts), ("weight", x))
        )
        weights = np.zeros(mask.shape, np.float32)
        weights[mask] = np.logaddexp(own[:, 0], 0, dtype=np.float32)
        weights[:, 0] = 0
        return queries, nulls[:, 0], weights

    def _embed(self, ids: NDArray[np.int64], places: NDArray[np.intp]) -> Floats:
        encoder, weight = "network.encoder", self._saved.weight
        states = weight(f"{encoder}.words.weight", ids) + weight(f"{encoder}.positions.weight", places)
        states += weight(f"{encoder}.types.weight")[1]
        return _normalize(states, *(weight(f"{encoder}.norm.{each}") for each in _PARTS))

    @cached_property
    def _layers(self) -> "list[_Layer]":
        heads = self._saved.options.encoder.heads
        return [_Layer(self._saved, name, heads) for name in self._names]

    @cached_property
    def _heads(self) -> dict[str, list[Floats]]:
        weight = self._saved.weight
        return {
            name: [weight(f"{self._part}.{name}.{each}") for each in _PARTS]
            for name in ("query", "null", "weight")
        }


_PARTS = ("weight", "bias")


class _Layer:
    """`torch.nn.TransformerEncoderLayer` with the norm after each part."""

    def __init__(self, saved: SavedPhrases, name: str, heads: int) -> None:
        def pair(part: str, joint: str = ".") -> list[Floats]:
            return [saved.weight(f"{name}.{part}{joint}{each}") for each in _PARTS]

        def transposed(part: str, joint: str = ".") -> list[Floats]:
            # As BLAS reads it for few rows: a question's product takes .7 of the time.
            matrix, bias = pair(part, joint)
            return [np.ascontiguousarray(matrix.T), bias]

        self._heads = heads
        self._into, self._out = transposed("self_attn.in_proj", "_"), transposed("self_attn.out_proj")
        self._up, self._down = transposed("linear1"), transposed("linear2")
        self._norms = pair("norm1"), pair("norm2")

    def forward(self, x: Floats, mask: NDArray[np.bool_]) -> Floats:
        """The states `[n, d]` after the layer, of the word pieces in the batch `mask [Q, l]`."""
        size = x.shape[1]
        stacked = np.zeros((*mask.shape, 3 * size), np.float32)
        stacked[mask] = _linear(x, self._into)
        queries, keys, values = stacked.reshape(*mask.shape, 3, self._heads, -1).transpose(2, 0, 3, 1, 4)
        scores = queries @ keys.swapaxes(-1, -2) * np.float32((size // self._heads) ** -0.5)
        scores[np.broadcast_to(~mask[:, None, None], scores.shape)] = -np.inf
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        read = (scores @ values).swapaxes(1, 2).reshape(*mask.shape, size)[mask]
        x = _normalize(x + _linear(read, self._out), *self._norms[0])
        return _normalize(x + _linear(_gelu(_linear(x, self._up)), self._down), *self._norms[1])


def _linear(x: Floats, weights: list[Floats]) -> Floats:
    matrix, bias = weights
    product: Floats = x @ matrix
    product += bias
    return product


def _normalize(x: Floats, weight: Floats, bias: Floats) -> Floats:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(_EPSILON))
    normal: Floats = centred / spread * weight + bias
    return normal


def _gelu(x: Floats) -> Floats:
    """x Φ(x), by Abramowitz and Stegun's approximation 7.1.26 of erf: within 1.5e-7, as exact as float32."""
    found = np.empty_like(x)
    # Some rows at a time stay in the caches: of many, all at once take four times as long.
    for first in range(0, len(x), _ROWS):
        own = x[first : first + _ROWS]
        z = np.abs(own)
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
        np.maximum(own, 0, out=z)
        np.add(z, tail, out=found[first : first + _ROWS])
    return found
