"""`PhraseNetwork.encode_questions` in numpy: the same numbers without torch, which takes two seconds to import.

AMD EPYC, milliseconds per question, torch in brackets. One thread: alone 3.6 (4.5), of 32 at a time 1.9 (2.7).
Two threads: 4.2 (6.5) and 1.4 (2.7).
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.reader.fast_spans import gelu
from attar.reader.folders import QuickConfig
from attar.reader.parts import ReaderParts
from attar.reader.weights import QUICK_LAYERS, TEXT_LAYERS

# Of the layer norms.
_EPSILON = 1e-12
_PAIR = ("weight", "bias")


class FastEncoder:
    """The first layers of a reader's encoder, and layers of its own for questions; each is made when first needed."""

    def __init__(self, parts: ReaderParts) -> None:
        self.parts = parts
        self._layers: dict[str, _Layer] = {}

    def states(
        self, ids: NDArray[np.int64], mask: NDArray[np.bool_], shared: int, quick: int = 0, kind: int = 0
    ) -> Floats:
        """The states `[n, d]` of the pieces in a batch `[Q, l]`, of which half may be padding.

        They pass `shared` layers of the text encoder, then `quick` layers of the quick encoder.
        """
        names = [f"{TEXT_LAYERS}.{at}" for at in range(shared)]
        names += [f"{QUICK_LAYERS}.{at}" for at in range(quick)]
        x = self._embed(ids[mask], np.nonzero(mask)[1], kind)
        for name in names:
            if name not in self._layers:
                self._layers[name] = _Layer(self.parts, name)
            x = self._layers[name].forward(x, mask)
        return x

    def _embed(self, ids: NDArray[np.int64], places: NDArray[np.intp], kind: int) -> Floats:
        encoder, weight = "network.encoder", self.parts.weight
        states = weight(f"{encoder}.words.weight", ids) + weight(f"{encoder}.positions.weight", places)
        states += weight(f"{encoder}.types.weight")[kind]
        return _normalize(states, *(weight(f"{encoder}.norm.{name}") for name in _PAIR))


class FastQuestions:
    """A question encoder of a reader: the quick one, or the large one, which is that of texts."""

    def __init__(self, encoder: FastEncoder, quick: QuickConfig | None) -> None:
        self._encoder, self._part = encoder, "network" if quick is None else "quick"
        self._depth = (encoder.parts.options.encoder.layers, 0)
        if quick is not None:
            self._depth = (quick.shared, quick.layers)

    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """The queries `[Q, k]`, the scores of "no answer" `[Q]`, and the weights of the words `[Q, l]`."""
        x = self._encoder.states(ids, mask, *self._depth, kind=1)
        firsts = x[np.cumsum(mask.sum(1)) - mask.sum(1)]
        queries, nulls, logits = (
            states @ self._heads[name][0].T + self._heads[name][1]
            for name, states in (("query", firsts), ("null", firsts), ("weight", x))
        )
        weights = np.zeros(mask.shape, np.float32)
        weights[mask] = np.logaddexp(logits[:, 0], 0, dtype=np.float32)
        weights[:, 0] = 0
        return queries, nulls[:, 0], weights

    @cached_property
    def _heads(self) -> dict[str, list[Floats]]:
        weight = self._encoder.parts.weight
        return {
            name: [weight(f"{self._part}.{name}.{part}") for part in _PAIR]
            for name in ("query", "null", "weight")
        }


class _Layer:
    """`torch.nn.TransformerEncoderLayer` with the norm after each part."""

    def __init__(self, parts: ReaderParts, name: str) -> None:
        def pair(part: str, joint: str = ".") -> list[Floats]:
            return [parts.weight(f"{name}.{part}{joint}{kind}") for kind in _PAIR]

        def transposed(part: str, joint: str = ".") -> list[Floats]:
            # As BLAS reads it for few rows: a question's product takes .7 of the time.
            matrix, bias = pair(part, joint)
            return [np.ascontiguousarray(matrix.T), bias]

        self._heads = parts.options.encoder.heads
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
        return _normalize(x + _linear(gelu(_linear(x, self._up)), self._down), *self._norms[1])


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
