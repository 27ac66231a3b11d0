"""Keeping every token, as people do: softmax for many questions a call, and FAISS over the tokens' states.

For one question a call `attar.bench.peers` has the rest.
"""

import importlib.util

import numpy as np
import torch
from torch import Tensor

from attar.bench.peers import Floats


def softmax_numpy_many(hidden: Floats, queries: Floats) -> Floats:
    """softmax(Q Hᵀ) H in numpy.

    >>> softmax_numpy_many(np.float32([[1], [3]]), np.float32([[0]])).tolist()
    [[2.0]]
    """
    scores = queries @ hidden.T
    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    readouts: Floats = (scores @ hidden) / scores.sum(1, keepdims=True)
    return readouts


def softmax_torch_many(hidden: Tensor, queries: Tensor) -> Tensor:
    """The same in torch."""
    return torch.softmax(queries @ hidden.mT, -1) @ hidden


def faiss_is_installed() -> bool:
    """Whether an index over tokens can be made here."""
    return importlib.util.find_spec("faiss") is not None


class TokenIndex:
    """A flat inner-product index over a document's states, which answers by softmax over the `top` nearest.

    The others are timed on one thread, and so is FAISS, from the first index on.
    """

    # What many questions' chosen tokens may take at a time: 256 × 100 × 100 float32 are 10 MB.
    QUESTIONS_AT_A_TIME = 256

    def __init__(self, hidden: Floats, top: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.top = min(top, len(hidden))
        self.index = faiss.IndexFlatIP(hidden.shape[1])
        self.index.add(hidden)
        # FAISS's own copy of the states, seen from numpy: fetching them through its calls takes twice as long.
        self.states: Floats = faiss.rev_swig_ptr(self.index.get_xb(), hidden.size).reshape(hidden.shape)

    @property
    def nbytes(self) -> int:
        """What the index holds."""
        return int(self.index.ntotal * self.index.code_size)

    def nearest(self, queries: Floats) -> tuple[Floats, np.ndarray]:
        """Scores and places of the tokens nearest to queries `[m, k]`, `[m, top]` each."""
        scores, places = self.index.search(queries, self.top)
        return scores, places

    def ask(self, queries: Floats) -> Floats:
        """Readouts `[m, k]`."""
        if len(queries) <= self.QUESTIONS_AT_A_TIME:
            return self.ask_few(queries)
        return np.concatenate([self.ask_few(part) for part in self.parts(queries)])

    def parts(self, queries: Floats) -> list[Floats]:
        """Queries in as many parts as they are asked in; the parts decide how FAISS rounds."""
        step = self.QUESTIONS_AT_A_TIME
        return [queries[at : at + step] for at in range(0, len(queries), step)]

    def ask_few(self, queries: Floats) -> Floats:
        """The same for as many as fit."""
        weights, places = self.nearest(queries)
        weights -= weights[:, :1]  # the best comes first
        np.exp(weights, out=weights)
        readouts: Floats = (weights[:, None] @ self.states[places])[:, 0]
        readouts /= weights.sum(1, keepdims=True)
        return readouts
