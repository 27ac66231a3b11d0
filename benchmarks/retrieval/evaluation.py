"""Ways to rank documents, measured on one set that is encoded once."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.search import ranking
from attar.search.lexical import Lexical
from attar.search.ranking import RERANKED, SIGNATURE_WEIGHT, WORDS_WEIGHT, Moments, rerank
from attar.search.signatures import DEFAULT_SIZE, Sums, pack, query_of, signature_bytes
from attar.search.statistics import Fitting, Floats, Projection, Statistics, unit_rows
from benchmarks.retrieval import baselines
from benchmarks.retrieval.encoders import ReaderEncoder, Tokens
from benchmarks.retrieval.sets import RetrievalSet

_RESAMPLES = 1_000
_WORDS = "BM25 of word pieces"
_SIGNATURE = f"signature, k = {DEFAULT_SIZE}, 1-bit"
FIGURES = ("nDCG@10", "recall@1", "recall@10", "recall@100")


@dataclass(frozen=True)
class Measured:
    """A way to rank: bytes per document, each figure with its 95 % interval, seconds to build, ms per query."""

    name: str
    bytes: float
    figures: dict[str, tuple[float, float, float]]
    build_s: float
    query_ms: float


class Evaluation:
    """A set, encoded once; `statistics` are those of signatures, or None to fit them to the set's own documents."""

    def __init__(
        self,
        data: RetrievalSet,
        encoder: ReaderEncoder,
        statistics: Statistics | None = None,
        *,
        progress: Progress = ignore_progress,
    ) -> None:
        self.data, self.reader = data, encoder.answering
        self.size, self.pieces = encoder.size, encoder.pieces
        self.documents = _encoded(encoder, data.documents, "documents", progress)
        self.queries = _encoded(encoder, data.queries, "queries", progress)
        if statistics is None:
            fitting = Fitting(encoder.fingerprint, size=encoder.size, pieces=encoder.pieces)
            for ids, states in self.documents:
                fitting.add_words(ids)
                fitting.add_states(ids, states)
            statistics = fitting.statistics()
        self.statistics = statistics
        self.scores: dict[str, Floats] = {}

    def run(self) -> Iterator[Measured]:
        """Yield the figures of each way."""
        yield from self._baselines()
        counts = [np.unique(ids, return_counts=True) for ids, _ in self.documents]
        size = 3 * float(np.mean([len(each) for each, _ in counts]))
        words = self._measured(_WORDS, size, lambda: self._lexical(counts), self._by_words)
        yield words
        projection = self.statistics.projection(DEFAULT_SIZE)
        query = partial(self._by_signatures, projection)
        size = signature_bytes(DEFAULT_SIZE)
        yield self._measured(_SIGNATURE, size, partial(self._packed, projection), query)
        mix, size = f"{_SIGNATURE}, and word pieces", size + words.bytes
        yield self._measured(mix, size, lambda: None, lambda _: self._mixed())
        if self.reader is not None:
            memories = self.reader.read_many(self.data.documents)
            size += float(np.mean([memory.nbytes for memory in memories]))
            name = f"default: that, and the best {RERANKED} again by phrases"
            yield self._measured(name, size, lambda: memories, partial(self._reranked, mix))

    def _baselines(self) -> Iterator[Measured]:
        texts, asked = self.data.documents, self.data.queries
        means = partial(baselines.mean_vectors, self.documents)

        def cosine(vectors: Floats) -> Floats:
            return baselines.mean_vectors(self.queries) @ vectors.T

        yield self._measured("mean vectors, float32", 4 * self.size, means, cosine)
        bytes_of_text = float(np.mean([len(text.encode("utf-8", "replace")) for text in texts]))
        index = partial(baselines.bm25_index, texts)
        yield self._measured("BM25 of words (bm25s)", bytes_of_text, index, lambda bm25: bm25(asked))
        documents, queries = (
            [unit_rows(states) for _, states in each] for each in (self.documents, self.queries)
        )
        size = 4 * self.size * float(np.mean([len(each) for each in documents]))
        maximal = partial(baselines.max_sim, queries)
        yield self._measured("MaxSim of all tokens, float32", size, lambda: documents, maximal)

    def _lexical(self, counts: list[tuple[NDArray[Any], NDArray[Any]]]) -> Lexical:
        index = Lexical(self.pieces)
        index.append(counts)
        return index

    def _by_words(self, index: Lexical) -> Floats:
        return np.stack([index.scores(index.corpus(ids)) for ids, _ in self.queries])

    def _packed(self, projection: Projection) -> NDArray[np.uint8]:
        return pack(_made(self.documents, projection))

    def _by_signatures(self, projection: Projection, packed: NDArray[np.uint8]) -> Floats:
        return ranking.scores(packed, query_of(_made(self.queries, projection)))

    def _mixed(self) -> Floats:
        weighted = (
            SIGNATURE_WEIGHT * Moments.of(by_signatures).standardised(by_signatures)
            + WORDS_WEIGHT * Moments.of(by_words).standardised(by_words)
            for by_signatures, by_words in zip(self.scores[_SIGNATURE], self.scores[_WORDS], strict=True)
        )
        return np.stack(list(weighted))

    def _reranked(self, mix: str, memories: Sequence[Memory]) -> Floats:
        assert self.reader is not None
        found = np.full_like(self.scores[mix], -np.inf)
        for row, (mixed, query) in enumerate(zip(self.scores[mix], self.data.queries, strict=True)):
            order = np.argsort(-mixed, kind="stable")
            matches = self.reader.scored([memories[at] for at in order[:RERANKED]], query).matches()
            for place, score in rerank(mixed[order].tolist(), matches):
                found[row, order[place]] = score
        return found

    def _measured(
        self, name: str, size: float, build: Callable[[], Any], query: Callable[[Any], Floats]
    ) -> Measured:
        began = time.perf_counter()
        built = build()
        middle = time.perf_counter()
        found = self.scores[name] = query(built)
        end = time.perf_counter()
        values = np.array(
            [per_query(row, gains) for row, gains in zip(found, self.data.relevant, strict=True)]
        )
        figures = {name: interval(values[:, at]) for at, name in enumerate(FIGURES)}
        return Measured(name, size, figures, middle - began, 1e3 * (end - middle) / len(found))


def _encoded(encoder: ReaderEncoder, texts: Sequence[str], what: str, progress: Progress) -> list[Tokens]:
    found = []
    for at, tokens in enumerate(encoder.encode(texts)):
        progress(what, at, len(texts))
        found.append(tokens)
    return found


def _made(texts: Sequence[Tokens], projection: Projection) -> Floats:
    return np.stack([Sums.of(ids, states, projection).signature() for ids, states in texts])


def per_query(scores: Floats, gains: dict[int, float]) -> tuple[float, float, float, float]:
    """nDCG@10 and recall@1, @10, @100 of one query.

    >>> [round(each, 2) for each in per_query(np.array([0.1, 0.9, 0.5], np.float32), {2: 1.0})]
    [0.63, 0.0, 1.0, 1.0]
    """
    count = min(100, len(scores))
    top = np.argpartition(-scores, count - 1)[:count]
    top = top[np.argsort(-scores[top], kind="stable")]
    found = np.array([gains.get(row, 0.0) for row in top.tolist()])
    discounts = 1 / np.log2(np.arange(10) + 2)
    ideal = np.sort(np.array(list(gains.values())))[::-1][:10]
    ndcg = float(found[:10] @ discounts[: len(found[:10])]) / float(ideal @ discounts[: len(ideal)])
    recalls = (float((found[:at] > 0).sum()) / len(gains) for at in (1, 10, 100))
    return (ndcg, *recalls)  # type: ignore[return-value]


def interval(values: NDArray[Any], seed: int = 0) -> tuple[float, float, float]:
    """The mean, and the 95 % interval of the bootstrap over queries."""
    random = np.random.default_rng(seed)
    means = values[random.integers(0, len(values), (_RESAMPLES, len(values)))].mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def evaluation_table(rows: Sequence[Measured]) -> list[tuple[str, ...]]:
    """The rows of a table for people, with a heading."""
    table: list[tuple[str, ...]] = [("way", "bytes", *FIGURES, "build", "query")]
    for row in rows:
        cells = [f"{mean:.3f} ({low:.3f}-{high:.3f})" for mean, low, high in row.figures.values()]
        table.append(
            (row.name, f"{row.bytes:,.0f}", *cells, f"{row.build_s:.1f} s", f"{row.query_ms:.1f} ms")
        )
    return table
