"""Sets to measure search on: BEIR-style folders, and passages with their questions."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attar.errors import FormatError
from attar.training.data import read_passages


@dataclass(frozen=True)
class RetrievalSet:
    """Documents, queries, and how relevant which document is to each query: `{row: gain}`."""

    name: str
    documents: list[str]
    queries: list[str]
    relevant: list[dict[int, float]]
    articles: list[str] = field(default_factory=list)  # of each document, if known

    def sample(self, count: int, seed: int = 0) -> "RetrievalSet":
        """The set with `count` of its queries, drawn at random; all with 0."""
        if not 0 < count < len(self.queries):
            return self
        chosen = sorted(np.random.default_rng(seed).choice(len(self.queries), count, replace=False).tolist())
        queries, relevant = [self.queries[at] for at in chosen], [self.relevant[at] for at in chosen]
        return RetrievalSet(self.name, self.documents, queries, relevant, self.articles)

    def by_article(self) -> "RetrievalSet":
        """The set with one document per article: all of its passages in order."""
        rows: dict[str, int] = {}
        texts: list[list[str]] = []
        for text, article in zip(self.documents, self.articles, strict=True):
            if rows.setdefault(article, len(texts)) == len(texts):
                texts.append([])
            texts[rows[article]].append(text)
        relevant = [
            {rows[self.articles[row]]: gain for row, gain in gains.items()} for gains in self.relevant
        ]
        documents = ["\n\n".join(passages) for passages in texts]
        return RetrievalSet(self.name, documents, self.queries, relevant, list(rows))


def read_set(path: Path) -> RetrievalSet:
    """A BEIR-style folder, or questions in SQuAD's JSON: each passage is the document of its own questions."""
    if path.is_dir():
        return read_beir(path)
    data = RetrievalSet(path.name, [], [], [])
    for passage in read_passages(path):
        questions = [question.text for question in passage.questions if question.answers]
        data.queries.extend(questions)
        data.relevant.extend({len(data.documents): 1.0} for _ in questions)
        data.documents.append(passage.text)
        data.articles.append(passage.article)
    return data


def read_beir(folder: Path) -> RetrievalSet:
    """A BEIR-style folder: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`."""
    try:
        documents, rows = _texts(folder / "corpus.jsonl")
        queries, numbers = _texts(folder / "queries.jsonl")
        relevant: list[dict[int, float]] = [{} for _ in queries]
        for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
            query, document, score = line.split("\t")
            if score != "score" and float(score) > 0:
                relevant[numbers[query]][rows[document]] = float(score)
    except (OSError, ValueError, KeyError, TypeError) as fault:
        remedy = "give a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv"
        raise FormatError(f"{folder} is no BEIR-style set ({fault!r})", remedy) from fault
    judged = [at for at, gains in enumerate(relevant) if gains]
    asked, gains = [queries[at] for at in judged], [relevant[at] for at in judged]
    return RetrievalSet(folder.name, documents, asked, gains)


def _texts(path: Path) -> tuple[list[str], dict[str, int]]:
    """The texts of a file, with their titles before them, and the row of each id."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = ["\n\n".join(filter(None, (line.get("title"), line["text"]))) for line in lines]
    return texts, {str(line["_id"]): row for row, line in enumerate(lines)}
