"""`PhraseNetwork.encode_questions` in numpy, without torch, which takes two seconds to import.

Weights and activations are in int8 (`attar.reader.fast_spans`): with torch, if something else has loaded it, the same
numbers come out in less than half the time.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.reader.fast_spans import Int8Layer, normalized
from attar.reader.parts import QUICK_LAYERS, TEXT_LAYERS, ReaderParts

_PAIR = ("weight", "bias")


class FastQuestions:
    """A question encoder of a reader: the quick one, if it has one, or the one of texts.

    Layers are made when they are first needed.
    """

    def __init__(self, parts: ReaderParts, *, quick: bool) -> None:
        self._parts, config = parts, parts.config.network.quick if quick else None
        self._heads_of = "network" if config is None else "quick"
        depth = (parts.options.encoder.layers, 0) if config is None else (config.shared, config.layers)
        self._names = [f"{TEXT_LAYERS}.{at}" for at in range(depth[0])]
        self._names += [f"{QUICK_LAYERS}.{at}" for at in range(depth[1])]
        self._layers: dict[str, Int8Layer] = {}

    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """The queries `[Q, k]`, the scores of "no answer" `[Q]`, and the weights of the words `[Q, l]`."""
        lengths = mask.sum(1)
        x = self._states(ids[mask], np.nonzero(mask)[1], np.append(0, np.cumsum(lengths)), 1, self._names)
        firsts = x[np.cumsum(lengths) - lengths]
        queries, nulls, logits = (
            states @ self._heads[name][0].T + self._heads[name][1]
            for name, states in (("query", firsts), ("null", firsts), ("weight", x))
        )
        weights = np.zeros(mask.shape, np.float32)
        weights[mask] = np.logaddexp(logits[:, 0], 0, dtype=np.float32)
        weights[:, 0] = 0
        return queries, nulls[:, 0], weights

    def text_states(self, ids: NDArray[np.int64], layers: int) -> Floats:
        """The states `[n, d]` of a text's pieces, with [CLS] and [SEP], after some layers of the text encoder."""
        names = [f"{TEXT_LAYERS}.{at}" for at in range(layers)]
        return self._states(ids, np.arange(len(ids)), np.array([0, len(ids)]), 0, names)

    def _states(
        self,
        ids: NDArray[np.int64],
        places: NDArray[np.intp],
        bounds: NDArray[np.int64],
        kind: int,
        names: list[str],
    ) -> Floats:
        """The states `[n, d]` of pieces after the layers of these names; an input is from a bound to the next."""
        encoder, weight = "network.encoder", self._parts.weight
        x = weight(f"{encoder}.words.weight", ids) + weight(f"{encoder}.positions.weight", places)
        x += weight(f"{encoder}.types.weight")[kind]
        x = normalized(x, *(weight(f"{encoder}.norm.{name}") for name in _PAIR))
        for name in names:
            if name not in self._layers:
                heads = self._parts.options.encoder.heads
                self._layers[name] = Int8Layer(self._parts.weights, name, heads, quick=True)
            x = self._layers[name].forward(x, bounds)
        return x

    @cached_property
    def _heads(self) -> dict[str, list[Floats]]:
        weight = self._parts.weight
        return {
            name: [weight(f"{self._heads_of}.{name}.{part}") for part in _PAIR]
            for name in ("query", "null", "weight")
        }
