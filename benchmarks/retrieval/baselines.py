"""What signatures are compared with: mean vectors, BM25, MaxSim over all tokens."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attar.search.statistics import Floats, unit_rows
from benchmarks.retrieval.encoders import Tokens


def mean_vectors(tokens: Sequence[Tokens]) -> Floats:
    """The unit mean state of each text, as sentence encoders make it."""
    return unit_rows(
        np.stack([states.mean(0) if len(states) else np.zeros(states.shape[1]) for _, states in tokens])
    )


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
