"""Sets to measure search on: BEIR-style folders, and passages with their questions."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attar.errors import FormatError

# A longer line is refused before it is parsed: a document of that size takes hours to encode.
_LONGEST_LINE = 2**24


@dataclass(frozen=True)
class RetrievalSet:
    """Documents, queries, and how relevant which document is to each query: `{row: gain}`."""

    name: str
    documents: list[str]
    queries: list[str]
    relevant: list[dict[int, float]]
    # Pairs of queries and answers that ranking does not need: the article of each document, if known.
    articles: list[str] = field(default_factory=list)

    def sample(self, count: int, seed: int = 0) -> "RetrievalSet":
        """The set with `count` of its queries, drawn at random; all with 0."""
        if not 0 < count < len(self.queries):
            return self
        chosen = sorted(np.random.default_rng(seed).choice(len(self.queries), count, replace=False).tolist())
        queries, relevant = ([each[at] for at in chosen] for each in (self.queries, self.relevant))
        return RetrievalSet(self.name, self.documents, queries, relevant, self.articles)

    def by_article(self) -> "RetrievalSet":
        """The set with one document per article: all of its passages in order."""
        rows: dict[str, int] = {}
        texts: list[list[str]] = []
        for text, article in zip(self.documents, self.articles, strict=True):
            if rows.setdefault(article, len(texts)) == len(texts):
                texts.append([])
            texts[rows[article]].append(text)
        relevant = [{rows[self.articles[row]]: gain for row, gain in each.items()} for each in self.relevant]
        return RetrievalSet(
            self.name, ["\n\n".join(each) for each in texts], self.queries, relevant, list(rows)
        )


def from_passages(name: str, passages: Iterable[tuple[str, str, Sequence[str]]]) -> RetrievalSet:
    """A set of passages, each a text, its article and the questions that only it answers."""
    documents: list[str] = []
    articles: list[str] = []
    queries: list[str] = []
    relevant: list[dict[int, float]] = []
    for text, article, questions in passages:
        queries += questions
        relevant += [{len(documents): 1.0} for _ in questions]
        documents.append(text)
        articles.append(article)
    return _checked(RetrievalSet(name, documents, queries, relevant, articles))


def read_beir(folder: str | Path) -> RetrievalSet:
    """A BEIR-style folder: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`."""
    folder = Path(folder)
    documents, rows = _texts(folder / "corpus.jsonl")
    queries, numbers = _texts(folder / "queries.jsonl")
    relevant: list[dict[int, float]] = [{} for _ in queries]
    qrels = folder / "qrels" / "test.tsv"
    for number, line in enumerate(_lines(qrels), 1):
        parts = line.rstrip("\n").split("\t")
        if number == 1 and parts[-1] == "score":
            continue
        try:
            query, document, score = parts
            gain = float(score)
            if not math.isfinite(gain):
                raise ValueError(score)
        except ValueError:
            expected = "query, document and score, a number, between tabs"
            raise FormatError.expected(f"{qrels}, line {number}", expected, repr(line[:80])) from None
        for what, name, known in (("query", query, numbers), ("document", document, rows)):
            if name not in known:
                remedy = "correct the file, or take the line out"
                raise FormatError.expected(
                    f"{qrels}, line {number}", f"a {what} of the set", repr(name[:80]), remedy
                )
        if gain > 0:
            relevant[numbers[query]][rows[document]] = gain
    judged = [at for at, each in enumerate(relevant) if each]
    return _checked(
        RetrievalSet(folder.name, documents, [queries[at] for at in judged], [relevant[at] for at in judged])
    )


def _checked(found: RetrievalSet) -> RetrievalSet:
    if not found.documents or not any(text.strip() for text in found.documents):
        raise FormatError.expected(found.name, "documents", "none")
    if not found.queries:
        raise FormatError.expected(found.name, "queries with a relevant document", "none")
    return found


def _texts(path: Path) -> tuple[list[str], dict[str, int]]:
    """The texts of a file, with their titles before them, and the row of each id."""
    texts: list[str] = []
    rows: dict[str, int] = {}
    for number, line in enumerate(_lines(path), 1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
            name, text = str(row["_id"]), "\n\n".join(filter(None, (row.get("title"), row["text"])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
            raise FormatError.expected(
                where, "an object with _id and text", f"another line ({fault})"
            ) from fault
        if name in rows:
            raise FormatError.expected(
                where, "an id of its own", f"{name[:80]!r} again", "give each document one id"
            )
        rows[name] = len(texts)
        texts.append(text)
    if not texts:
        raise FormatError.expected(str(path), "one JSON object per line", "no lines")
    return texts, rows


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    expected, remedy = f"at most {_LONGEST_LINE:,} characters", "split the text"
                    raise FormatError.expected(f"{path}, line {number:,}", expected, "more", remedy)
                yield line
    except UnicodeDecodeError as fault:
        raise FormatError.expected(str(path), "UTF-8", str(fault)) from fault
    except OSError as fault:
        remedy = "give a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv"
        raise FormatError.expected(str(path), "a file", fault.strerror or str(fault), remedy) from fault
