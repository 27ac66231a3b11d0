"""`PhraseNetwork.encode_questions` in numpy, without torch, which takes two seconds to import.

Weights and activations are in int8 (`attar.reader.fast_spans`): with torch, if something else has loaded it, the same
numbers come out in less than half the time.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Floats
from attar.reader.fast_spans import Int8Layer, normalized
from attar.reader.folders import QuickConfig
from attar.reader.parts import ReaderParts
from attar.reader.weights import QUICK_LAYERS, TEXT_LAYERS

_PAIR = ("weight", "bias")


class FastEncoder:
    """The first layers of a reader's encoder, and layers of its own for questions; each is made when first needed."""

    def __init__(self, parts: ReaderParts) -> None:
        self.parts = parts
        self._layers: dict[str, Int8Layer] = {}

    def states(
        self, ids: NDArray[np.int64], mask: NDArray[np.bool_], shared: int, quick: int = 0, kind: int = 0
    ) -> Floats:
        """The states `[n, d]` of the pieces in a batch `[Q, l]`, of which half may be padding.

        They pass `shared` layers of the text encoder, then `quick` layers of the quick encoder.
        """
        names = [f"{TEXT_LAYERS}.{at}" for at in range(shared)]
        names += [f"{QUICK_LAYERS}.{at}" for at in range(quick)]
        x = self._embed(ids[mask], np.nonzero(mask)[1], kind)
        bounds = np.append(0, np.cumsum(mask.sum(1)))
        for name in names:
            if name not in self._layers:
                heads = self.parts.options.encoder.heads
                self._layers[name] = Int8Layer(self.parts.weights, name, heads, quick=True)
            x = self._layers[name].forward(x, bounds)
        return x

    def _embed(self, ids: NDArray[np.int64], places: NDArray[np.intp], kind: int) -> Floats:
        encoder, weight = "network.encoder", self.parts.weight
        states = weight(f"{encoder}.words.weight", ids) + weight(f"{encoder}.positions.weight", places)
        states += weight(f"{encoder}.types.weight")[kind]
        return normalized(states, *(weight(f"{encoder}.norm.{name}") for name in _PAIR))


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
