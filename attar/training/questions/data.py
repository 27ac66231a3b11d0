"""Question sets: SQuAD's JSON, or JSON lines with one passage each, compressed or not; and their tokens."""

import gzip
import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.text.pieces import PieceText, PieceTokenizer


@dataclass(frozen=True)
class Question:
    """A question and the spans of its passage that answer it, in characters; `labelled` is false if unknown."""

    text: str
    answers: tuple[tuple[int, int], ...] = ()
    labelled: bool = True
    id: str = ""


@dataclass(frozen=True)
class Passage:
    """A passage, its questions, and the article it belongs to; `spans` are answers to unknown questions of it."""

    text: str
    article: str
    questions: tuple[Question, ...]
    spans: tuple[tuple[int, int], ...] = ()


def read_passages(path: str | Path) -> list[Passage]:
    """The passages of a file: `.json` is SQuAD's format, `.jsonl` has a passage per line; `.xz` and `.gz` too."""
    path = Path(path)
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    try:
        with opened(path, "rt", encoding="utf-8") as file:  # type: ignore[operator]
            if ".jsonl" in path.name:
                return [_passage(json.loads(line), path) for line in file if line.strip()]
            return list(_squad(json.load(file)))
    except (ValueError, KeyError, TypeError) as fault:
        raise FormatError(str(path), "questions in SQuAD's JSON or JSON lines", str(fault)) from fault


def _squad(content: dict[str, Any]) -> Iterator[Passage]:
    for at, article in enumerate(content["data"]):
        for paragraph in article["paragraphs"]:
            questions = tuple(
                Question(
                    each["question"],
                    tuple((a["answer_start"], a["answer_start"] + len(a["text"])) for a in each["answers"]),
                    id=each.get("id", ""),
                )
                for each in paragraph["qas"]
            )
            yield Passage(paragraph["context"], article.get("title", str(at)), questions)


def _passage(row: dict[str, Any], path: Path) -> Passage:
    if "spans" in row:
        article = f"{path.name}/{row['document']}"
        questions = tuple(Question(text, labelled=False) for text in row["questions"])
        spans = tuple((span["start"], span["end"]) for span in row["spans"])
        return Passage(row["context"], article, questions, spans)
    article = row.get("title") or row["context"][:40]
    questions = tuple(
        Question(each["question"], tuple((a["start"], a["start"] + len(a["text"])) for a in each["answers"]))
        for each in row["questions"]
    )
    return Passage(row["context"], article, questions)


def paragraphs(path: str | Path) -> list[Passage]:
    """The paragraphs of texts without questions: JSON lines with `text`, blank lines between paragraphs."""
    found = []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for at, line in enumerate(file):
            if at % 20 > 1:  # the others are test and validation sets elsewhere
                for text in json.loads(line)["text"].split("\n\n"):
                    if 200 < len(text) < 2_000:
                        found.append(Passage(text, f"wiki/{at}/{text[:40]}", ()))
    return found


def without_overlap(passages: Iterable[Passage], test: Sequence[Passage], words: int = 13) -> list[Passage]:
    """The passages that share no run of `words` words with a test set."""

    def runs(text: str) -> set[int]:
        parts = text.lower().split()
        return {hash(tuple(parts[at : at + words])) for at in range(len(parts) - words + 1)}

    seen = set().union(*(runs(passage.text) for passage in test))
    return [passage for passage in passages if not runs(passage.text) & seen]


@dataclass
class Encoded:
    """A set in word pieces. Questions have numbers from 0; `golds` are token spans (first, last), both inclusive."""

    passages: list[Passage]
    texts: list[PieceText]
    questions: list[NDArray[np.int32]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    golds: list[NDArray[np.int32]] = field(default_factory=list)  # [answers, 2]
    of_passage: list[list[int]] = field(default_factory=list)
    sources: list[Question] = field(default_factory=list)
    soft: list[NDArray[np.float16] | None] = field(default_factory=list)  # [2, n] of the teacher

    @classmethod
    def of(cls, passages: Sequence[Passage], tokenizer: PieceTokenizer, longest: int = 318) -> "Encoded":
        """Tokenize; pieces after the longest are dropped, and the answers in them."""
        texts = [cut(text, longest) for text in tokenizer.read([passage.text for passage in passages])]
        encoded = cls(list(passages), texts)
        flat = [question for passage in passages for question in passage.questions]
        ids = iter(tokenizer.read_questions([question.text for question in flat]))
        for at, passage in enumerate(passages):
            encoded.of_passage.append([])
            for question in passage.questions:
                encoded.of_passage[-1].append(len(encoded.questions))
                encoded.questions.append(next(ids)[:48])
                encoded.owners.append(at)
                encoded.golds.append(token_spans(texts[at], question.answers))
                encoded.sources.append(question)
                encoded.soft.append(None)
        return encoded


def cut(text: PieceText, longest: int) -> PieceText:
    """The first pieces of a text."""
    if len(text) <= longest:
        return text
    at = slice(0, longest)
    return PieceText(text.ids[at], text.starts[at], text.ends[at], text.sentences[at], text.sentence_spans)


def token_spans(text: PieceText, answers: Iterable[tuple[int, int]]) -> NDArray[np.int32]:
    """The first and last piece of each answer, each pair once; answers that are cut off are left out."""
    found = set()
    for start, end in answers:
        first = int(np.searchsorted(text.ends, start, side="right"))
        last = int(np.searchsorted(text.starts, end, side="left")) - 1
        if first <= last < len(text) and text.starts[first] < end:
            found.add((first, last))
    return np.array(sorted(found), np.int32).reshape(-1, 2)
