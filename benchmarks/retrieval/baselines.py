"""What signatures are compared with: mean vectors, BM25, MaxSim over all tokens, pooled tokens, MUVERA's encodings."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attar.search.statistics import Floats, unit_rows
from benchmarks.retrieval.encoders import Tokens

# MUVERA: 32 repetitions of 16 clusters of 16 dimensions are 8,192 numbers, whose signs take 1,024 bytes.
_MUVERA = {"k_sim": 4, "dim_proj": 16, "r_reps": 32}
# What pooled tokens may take: as much as the default signature.
_BYTES = 1_032


def mean_vectors(tokens: Sequence[Tokens]) -> Floats:
    """The unit mean state of each text, as sentence encoders make it."""
    return unit_rows(
        np.stack([states.mean(0) if len(states) else np.zeros(states.shape[1]) for _, states in tokens])
    )


def signs(vectors: Floats) -> Floats:
    """1 where positive, else -1: what one bit per number keeps."""
    return np.where(vectors > 0, np.float32(1), np.float32(-1))


def bm25_index(documents: Sequence[str]) -> Callable[[Sequence[str]], Floats]:
    """BM25 by the library bm25s, English stop words left out, stemmed if PyStemmer is there: queries to scores."""
    import bm25s

    try:
        import Stemmer

        stemmer = Stemmer.Stemmer("english")
    except ImportError:
        stemmer = None
    options: dict[str, Any] = {"stopwords": "en", "stemmer": stemmer, "show_progress": False}
    words = bm25s.tokenize(list(documents), return_ids=False, **options)
    if not any(words):
        return lambda queries: np.zeros((len(queries), len(documents)), np.float32)
    index = bm25s.BM25()
    index.index(words, show_progress=False)

    def scores(queries: Sequence[str]) -> Floats:
        asked = bm25s.tokenize(list(queries), return_ids=False, **options)
        nothing = np.zeros(len(documents), np.float32)
        return np.stack([index.get_scores(each) if each else nothing for each in asked]).astype(np.float32)

    return scores


def max_sim(queries: Sequence[Floats], documents: Sequence[Floats]) -> Floats:
    """Late interaction: the sum over a query's tokens of the best product with a document's tokens, `[m, N]`."""
    sizes = np.array([len(each) for each in queries])
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    asked, filled = np.concatenate(queries), sizes > 0
    scores = np.zeros((len(queries), len(documents)), np.float32)
    for row, states in enumerate(documents):
        if len(states) and filled.any():
            highest = (asked @ states.T).max(1)
            scores[filled, row] = np.add.reduceat(highest, starts[filled])
    return scores


def pooled_count(size: int) -> int:
    """How many vectors of signs fit into a signature's bytes."""
    return max(1, 8 * _BYTES // size)


def pooled_signs(documents: Sequence[Floats]) -> list[Floats]:
    """Tokens pooled to a few vectors by hierarchical clustering (Ward), and their signs."""
    return [signs(_pooled(states, pooled_count(states.shape[1]))) for states in documents]


def _pooled(states: Floats, count: int) -> Floats:
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(states) <= count:
        return states
    # Long texts in parts: clustering takes quadratic time and memory.
    parts = np.array_split(states, min(count, -(-len(states) // 2_048)))
    vectors = []
    for part in parts:
        labels = fcluster(linkage(part, "ward"), max(1, count // len(parts)), "maxclust")
        vectors += [part[labels == each].mean(0) for each in np.unique(labels)]
    return unit_rows(np.stack(vectors))


class Muvera:
    """MUVERA's fixed-dimensional encodings, by fastembed."""

    def __init__(self, size: int) -> None:
        from fastembed.postprocess import muvera

        self._encoder: Any = muvera.Muvera(dim=size, **_MUVERA)
        self.numbers: int = self._encoder.embedding_size

    def documents(self, tokens: Sequence[Floats]) -> Floats:
        """The encodings of documents."""
        return self._stacked(self._encoder.process_document, tokens)

    def queries(self, tokens: Sequence[Floats]) -> Floats:
        """The encodings of queries."""
        return self._stacked(self._encoder.process_query, tokens)

    def _stacked(self, make: Callable[[Floats], Floats], tokens: Sequence[Floats]) -> Floats:
        nothing = np.zeros(self.numbers, np.float32)
        return np.stack([make(each) if len(each) else nothing for each in tokens]).astype(np.float32)
