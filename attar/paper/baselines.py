"""Baselines: what people would write or install instead, each written as well as its users would."""

import importlib.util

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]


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
