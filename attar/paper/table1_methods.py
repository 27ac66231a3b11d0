"""The methods that Table 1 compares: keep every token of a document, or a memory of fixed size.

Each is written as well as its users would write it, for one question per call or for many, and each has its own
reference in float64: softmax over all states, softmax over the selected ones, C q.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from attar import ops
from attar.paper import baselines
from attar.paper.timing import relative_error

TOP = 100  # tokens that FAISS selects for softmax

Kind = Literal["softmax", "nearest", "memory"]


@dataclass(frozen=True)
class Method:
    """How a document is stored and queried.

    `store(hidden [n, k])` is what is kept, `lookup(stored, prepare(queries [m, k]))` gives the readouts, and
    `reference(hidden, queries, stored)` gives the same from float64 tensors.
    """

    name: str
    kind: Kind
    store: Callable[[Tensor], Any]
    lookup: Callable[[Any, Any], Any]
    prepare: Callable[[Tensor], Any]
    reference: Callable[[Tensor, Tensor, Any], Tensor]

    def ask(self, hidden: Tensor, queries: Tensor) -> Callable[[], Any]:
        """Answers the questions; the document is stored before."""
        return partial(self.lookup, self.store(hidden), self.prepare(queries))

    def write(self, hidden: Tensor, queries: Tensor) -> Callable[[], Any]:
        """Stores the document."""
        return partial(self.store, hidden)

    def write_and_ask(self, hidden: Tensor, queries: Tensor) -> Callable[[], Any]:
        """Stores the document and answers all questions."""
        prepared = self.prepare(queries)
        return lambda: self.lookup(self.store(hidden), prepared)

    def error(self, hidden: Tensor, queries: Tensor) -> float:
        """The relative error of the readouts against float64."""
        stored = self.store(hidden)
        readouts = torch.as_tensor(self.lookup(stored, self.prepare(queries))).reshape(queries.shape)
        return relative_error(readouts, self.reference(hidden.double(), queries.double(), stored))


def methods_for_one(k: int) -> list[Method]:
    """Methods for one question per call, on a CPU: numpy where it is faster, packed memories."""
    return [
        _softmax("softmax, numpy", Tensor.numpy, baselines.softmax_numpy, _first_numpy),
        _softmax("softmax, SDPA", _unchanged, baselines.softmax_sdpa, lambda queries: queries[0]),
        *_nearest_tokens(),
        *_memories(k, "cpu", packed=True),
    ]


def methods_for_many(k: int, device: str) -> list[Method]:
    """Methods for many questions to one document in one call."""
    fused = _softmax("softmax, SDPA", _batch_of_one, ops.softmax_lookup, _batch_of_one)
    memories = _memories(k, device, packed=False)
    if device == "cpu":
        numpy = _softmax("softmax, numpy", Tensor.numpy, baselines.softmax_numpy, Tensor.numpy)
        return [numpy, fused, *_nearest_tokens(), *memories]
    return [
        _softmax("softmax, torch", _unchanged, baselines.softmax_torch, _unchanged),
        fused,
        *memories,
    ]


def _softmax(
    name: str,
    store: Callable[[Tensor], Any],
    lookup: Callable[[Any, Any], Any],
    prepare: Callable[[Tensor], Any],
) -> Method:
    """Softmax over all states, which are stored as they are."""

    def reference(hidden: Tensor, queries: Tensor, stored: Any) -> Tensor:
        return baselines.softmax_torch(hidden, queries)

    return Method(name, "softmax", store, lookup, prepare, reference)


def _nearest_tokens() -> list[Method]:
    """FAISS's flat index over the states and softmax over the nearest ones, if FAISS is installed."""
    if not baselines.faiss_is_installed():
        return []

    def reference(hidden: Tensor, queries: Tensor, stored: baselines.TokenIndex) -> Tensor:
        batches = stored.batches(queries.float().numpy())
        places = torch.cat([torch.from_numpy(stored.nearest(batch)[1]) for batch in batches])
        scores = queries @ hidden.mT
        selected = scores.gather(1, places)
        # Rounding may decide which token is selected last, but not how near it is.
        if not torch.allclose(selected, scores.topk(stored.top).values, rtol=1e-4, atol=1e-4):
            return torch.full_like(queries, torch.nan)
        weights = torch.zeros_like(scores).scatter_(1, places, torch.softmax(selected, -1))
        return weights @ hidden

    def store(hidden: Tensor) -> baselines.TokenIndex:
        return baselines.TokenIndex(hidden.numpy(), TOP)

    lookup = baselines.TokenIndex.lookup
    return [Method(f"FAISS, top {TOP}", "nearest", store, lookup, Tensor.numpy, reference)]


def _memories(k: int, device: str, *, packed: bool) -> list[Method]:
    """Linear and gated memories: packed triangles for one question per call, full matrices for many."""
    # Random gates, about half open on average.
    weight, bias = torch.randn(k, k, device=device) / k**0.5, torch.randn(k, device=device)

    def linear(hidden: Tensor, queries: Tensor, stored: Any) -> Tensor:
        return (queries @ hidden.mT) @ hidden

    def gated(hidden: Tensor, queries: Tensor, stored: Any) -> Tensor:
        gates = torch.sigmoid(hidden @ weight.double().mT + bias.double())
        return linear(gates * hidden, queries, stored)

    def method(name: str, encode: Callable[[Tensor], Tensor], reference: Any) -> Method:
        if not packed:
            return Method(name, "memory", encode, ops.lookup, _batch_of_one, reference)

        def store(hidden: Tensor) -> Any:
            return ops.pack(encode(hidden))[0].numpy()

        return Method(name, "memory", store, ops.packed_lookup, _first_numpy, reference)

    return [
        method("linear", lambda hidden: ops.encode(hidden[None]), linear),
        method("gated", lambda hidden: ops.encode_gated(hidden[None], weight, bias), gated),
    ]


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


def _batch_of_one(tensor: Tensor) -> Tensor:
    return tensor[None]


def _first_numpy(queries: Tensor) -> Any:
    return queries[0].numpy()
