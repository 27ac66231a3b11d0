"""Measure ways to rank documents: nDCG@10 and recall with 95 % intervals, bytes, and time; BM25 and MaxSim beside ours.

python -m benchmarks.retrieval squad2-dev.json.xz
python -m benchmarks.retrieval cranfield
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from attar.cli.output import columns, progress_bar
from attar.memory.memory import Memory
from attar.progress import Progress
from attar.reader.reader import Reader
from attar.search import ranking
from attar.search.lexical import Lexical
from attar.search.ranking import RERANKED, SIGNATURE_WEIGHT, WORDS_WEIGHT, Moments, rerank
from attar.search.signatures import DEFAULT_SIZE, Sums, pack, query_of, signature_bytes
from attar.search.statistics import Floats, Projection, Statistics, default_statistics, unit_rows
from attar.training.data import read_passages
from benchmarks.command import run_command

# The word pieces `[n]` of a text, and their states `[n, d]`.
Tokens = tuple[NDArray[np.int64], NDArray[np.float32]]
_RESAMPLES = 1_000
_WORDS = "BM25 of word pieces"
_SIGNATURE = f"signature, k = {DEFAULT_SIZE}, 1-bit"
FIGURES = ("nDCG@10", "recall@1", "recall@10", "recall@100")


@dataclass(frozen=True)
class RetrievalSet:
    """Documents, queries, and how relevant which document is to each query: `{row: gain}`."""

    documents: list[str]
    queries: list[str]
    relevant: list[dict[int, float]]

    def sample(self, count: int, seed: int = 0) -> "RetrievalSet":
        """The set with `count` of its queries, drawn at random; all with 0."""
        if not 0 < count < len(self.queries):
            return self
        chosen = sorted(np.random.default_rng(seed).choice(len(self.queries), count, replace=False).tolist())
        queries, relevant = [self.queries[at] for at in chosen], [self.relevant[at] for at in chosen]
        return RetrievalSet(self.documents, queries, relevant)


def read_set(path: Path) -> RetrievalSet:
    """A BEIR-style folder, or questions in SQuAD's JSON: each passage is the document of its own questions."""
    if path.is_dir():
        return read_beir(path)
    data = RetrievalSet([], [], [])
    for passage in read_passages(path):
        questions = [question.text for question in passage.questions if question.answers]
        data.queries.extend(questions)
        data.relevant.extend({len(data.documents): 1.0} for _ in questions)
        data.documents.append(passage.text)
    return data


def read_beir(folder: Path) -> RetrievalSet:
    """A BEIR-style folder: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`."""
    documents, rows = _texts(folder / "corpus.jsonl")
    queries, numbers = _texts(folder / "queries.jsonl")
    relevant: list[dict[int, float]] = [{} for _ in queries]
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
        query, document, gain = line.split("\t")
        if gain != "score" and float(gain) > 0:
            relevant[numbers[query]][rows[document]] = float(gain)
    judged = [at for at, gains in enumerate(relevant) if gains]
    asked, gains = [queries[at] for at in judged], [relevant[at] for at in judged]
    return RetrievalSet(documents, asked, gains)


def _texts(path: Path) -> tuple[list[str], dict[str, int]]:
    """The texts of a file, with their titles before them, and the row of each id."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = ["\n\n".join(filter(None, (line.get("title"), line["text"]))) for line in lines]
    return texts, {str(line["_id"]): row for row, line in enumerate(lines)}


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


@dataclass(frozen=True)
class Measured:
    """A way to rank: bytes per document, each figure with its 95 % interval, seconds to build, ms per query."""

    name: str
    bytes: float
    figures: dict[str, tuple[float, float, float]]
    build_s: float
    query_ms: float


class Evaluation:
    """A set, encoded once; `statistics` are those of signatures."""

    def __init__(
        self, data: RetrievalSet, reader: Reader, statistics: Statistics, progress: Progress
    ) -> None:
        self.data, self.reader, self.statistics = data, reader, statistics
        self.documents = _encoded(reader, data.documents, "documents", progress)
        self.queries = _encoded(reader, data.queries, "queries", progress)
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
        memories = self.reader.read_many(self.data.documents)
        size += float(np.mean([memory.nbytes for memory in memories]))
        name = f"default: that, and the best {RERANKED} again by phrases"
        yield self._measured(name, size, lambda: memories, partial(self._reranked, mix))

    def _baselines(self) -> Iterator[Measured]:
        texts, asked = self.data.documents, self.data.queries
        bytes_of_text = float(np.mean([len(text.encode("utf-8", "replace")) for text in texts]))
        index = partial(bm25_index, texts)
        yield self._measured("BM25 of words (bm25s)", bytes_of_text, index, lambda bm25: bm25(asked))
        documents, queries = (
            [unit_rows(states) for _, states in each] for each in (self.documents, self.queries)
        )
        size = 4 * self.reader.options.encoder.size * float(np.mean([len(each) for each in documents]))
        maximal = partial(max_sim, queries)
        yield self._measured("MaxSim of all tokens, float32", size, lambda: documents, maximal)

    def _lexical(self, counts: list[tuple[NDArray[Any], NDArray[Any]]]) -> Lexical:
        index = Lexical(self.reader.options.encoder.vocabulary)
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


def _encoded(reader: Reader, texts: Sequence[str], what: str, progress: Progress) -> list[Tokens]:
    """The word pieces and states of each text; long texts are read in windows."""
    found, size = [], reader.options.encoder.size
    for at, text in enumerate(texts):
        progress(what, at, len(texts))
        ids, states = [np.zeros(0, np.int64)], [np.zeros((0, size), np.float32)]

        def add(_: int, window: NDArray[np.int64], hidden: NDArray[np.float32]) -> None:
            ids.append(window)  # noqa: B023  # called before the next text
            states.append(hidden)  # noqa: B023

        reader.token_states([text], add)
        found.append((np.concatenate(ids), np.concatenate(states)))
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


def main(
    data: Annotated[Path, typer.Argument(metavar="SET", help="A BEIR-style folder, or SQuAD's JSON.")],
    queries: Annotated[int, typer.Option(min=0, help="Queries, drawn at random; 0: all.")] = 500,
) -> None:
    """Measure ways to rank documents."""
    chosen = read_set(data).sample(queries)
    reader = Reader.load()
    statistics = default_statistics(reader.fingerprint)
    assert statistics is not None
    with progress_bar() as progress:
        rows = [*Evaluation(chosen, reader, statistics, progress).run()]
    print(f"{data.name}: {len(chosen.documents):,} documents, {len(chosen.queries):,} queries")
    print(columns(evaluation_table(rows)))


if __name__ == "__main__":
    run_command(main)
