"""The methods that Table 1 compares: keep every token of a document, or a memory of fixed size.

Each is written as well as its users would write it, for one question per call or for many, and each has its own
reference in float64: softmax over all states, softmax over the selected ones, C q.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar import ops
from attar.paper.timing import relative_error

Floats = NDArray[np.float32]
# Tokens that FAISS selects for softmax.
TOP = 100

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
        _softmax("softmax, numpy", Tensor.numpy, softmax_numpy, _first_numpy),
        _softmax("softmax, SDPA", _unchanged, softmax_sdpa, lambda queries: queries[0]),
        *_nearest_tokens(),
        *_memories(k, "cpu", packed=True),
    ]


def methods_for_many(k: int, device: str) -> list[Method]:
    """Methods for many questions to one document in one call."""
    fused = _softmax("softmax, SDPA", _batch_of_one, ops.softmax_lookup, _batch_of_one)
    memories = _memories(k, device, packed=False)
    if device == "cpu":
        numpy = _softmax("softmax, numpy", Tensor.numpy, softmax_numpy, Tensor.numpy)
        return [numpy, fused, *_nearest_tokens(), *memories]
    return [
        _softmax("softmax, torch", _unchanged, softmax_torch, _unchanged),
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
        return softmax_torch(hidden, queries)

    return Method(name, "softmax", store, lookup, prepare, reference)


def _nearest_tokens() -> list[Method]:
    """FAISS's flat index over the states and softmax over the nearest ones, if FAISS is installed."""
    if not faiss_is_installed():
        return []

    def reference(hidden: Tensor, queries: Tensor, stored: TokenIndex) -> Tensor:
        batches = stored.batches(queries.float().numpy())
        places = torch.cat([torch.from_numpy(stored.nearest(batch)[1]) for batch in batches])
        scores = queries @ hidden.mT
        selected = scores.gather(1, places)
        # Rounding may decide which token is selected last, but not how near it is.
        if not torch.allclose(selected, scores.topk(stored.top).values, rtol=1e-4, atol=1e-4):
            return torch.full_like(queries, torch.nan)
        weights = torch.zeros_like(scores).scatter_(1, places, torch.softmax(selected, -1))
        return weights @ hidden

    def store(hidden: Tensor) -> TokenIndex:
        return TokenIndex(hidden.numpy(), TOP)

    lookup = TokenIndex.lookup
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


def softmax_numpy(hidden: Floats, queries: Floats) -> Floats:
    """Hᵀ softmax(H q) in numpy, for one query `[k]` or many `[m, k]`.

    >>> softmax_numpy(np.float32([[1], [3]]), np.float32([[0]])).tolist()
    [[2.0]]
    """
    scores = queries @ hidden.T
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    # Dividing last touches k numbers per query, not n.
    readouts: Floats = (scores @ hidden) / scores.sum(-1, keepdims=True)
    return readouts


def softmax_torch(hidden: Tensor, queries: Tensor) -> Tensor:
    """The same in torch."""
    return torch.softmax(queries @ hidden.mT, -1) @ hidden


def softmax_sdpa(hidden: Tensor, query: Tensor) -> Tensor:
    """The same for one query with PyTorch's fused attention."""
    rows = hidden[None]
    return torch.nn.functional.scaled_dot_product_attention(query[None, None], rows, rows, scale=1.0)[0, 0]


def faiss_is_installed() -> bool:
    """Whether `TokenIndex` can be used."""
    return importlib.util.find_spec("faiss") is not None


class TokenIndex:
    """FAISS's flat inner-product index over a document's states; answers by softmax over the `top` nearest.

    FAISS is limited to one thread, as the other methods are.
    """

    # Queries per call: the selected states of 256 queries with top = k = 100 take 10 MB in float32.
    BATCH = 256

    def __init__(self, hidden: Floats, top: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.top = min(top, len(hidden))
        self.index = faiss.IndexFlatIP(hidden.shape[1])
        self.index.add(hidden)
        # A view of FAISS's own copy of the states: fetching them through its calls takes twice as long.
        self.states: Floats = faiss.rev_swig_ptr(self.index.get_xb(), hidden.size).reshape(hidden.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the index."""
        return int(self.index.ntotal * self.index.code_size)

    def nearest(self, queries: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and positions `[m, top]` of the tokens nearest to each query."""
        scores, places = self.index.search(queries, self.top)
        return scores, places

    def batches(self, queries: Floats) -> list[Floats]:
        """Queries as they are passed to FAISS; how it rounds depends on the batch."""
        return [queries[at : at + self.BATCH] for at in range(0, len(queries), self.BATCH)]

    def lookup(self, queries: Floats) -> Floats:
        """Readouts `[m, k]`."""
        if len(queries) > self.BATCH:
            return np.concatenate([self.lookup(batch) for batch in self.batches(queries)])
        weights, places = self.nearest(queries)
        weights -= weights[:, :1]  # the best comes first
        np.exp(weights, out=weights)
        readouts: Floats = (weights[:, None] @ self.states[places])[:, 0]
        readouts /= weights.sum(1, keepdims=True)
        return readouts
