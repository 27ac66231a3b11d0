"""Answers from what a bank found on its device: the plain path's, with numpy alone, here or in other processes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import AttarError
from attar.library.documents import OpenDocument, with_places
from attar.library.library import Library
from attar.memory.memory import Floats
from attar.reader.fast_spans import Pieces, Spans
from attar.reader.questions import KnownQuery
from attar.reader.reader import Reader
from attar.reader.second_look import SecondLook, SpanReader
from attar.results import Answer

# Pieces that a device reads together in a second look.
_PIECES = 2**15
# Bytes of decoded documents that each process keeps.
_CACHE = 2**30


@dataclass(frozen=True, eq=False)
class Ragged:
    """Arrays of different lengths one after another, which are sent to another process as one."""

    joined: NDArray[Any]
    bounds: NDArray[np.int64]  # where each begins, and the last ends

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> "Ragged":
        return cls(np.concatenate(arrays), np.cumsum([0, *map(len, arrays)]))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self.joined[first:last] for first, last in pairwise(self.bounds.tolist()))

    def part(self, first: int, last: int) -> "Ragged":
        """Some of them."""
        bounds = self.bounds[first : last + 1]
        return Ragged(self.joined[bounds[0] : bounds[-1]], bounds - bounds[0])


class KnownQuestions(NamedTuple):
    """Questions: texts, word pieces, vectors `[Q, k]`, scores of "no answer" `[Q]`, and weights of pieces `[Q, l]`.

    Of each also the products with the phrases, and the overlap with the sentences, of its own document.
    """

    questions: list[str]
    pieces: Ragged
    vectors: Floats
    nulls: Floats
    weights: Floats
    products: Ragged
    overlaps: Ragged

    def part(self, first: int, last: int) -> "KnownQuestions":
        """Some of them."""
        return KnownQuestions(
            self.questions[first:last],
            self.pieces.part(first, last),
            self.vectors[first:last],
            self.nulls[first:last],
            self.weights[first:last],
            self.products.part(first, last),
            self.overlaps.part(first, last),
        )


class Answerer:
    """Makes answers with a reader whose second look reads spans elsewhere."""

    def __init__(self, reader: Reader, spans: SpanReader) -> None:
        self.reader = Reader(reader.parts, folder=reader.folder)
        if reader.parts.config.look is not None:
            self.reader.second_look = SecondLook(spans, reader.tokenizer, _PIECES)

    def answer(
        self, known: KnownQuestions, documents: Sequence[OpenDocument], top: int | None, look: int
    ) -> list[list[Answer]]:
        """The answers to each question from its document."""
        reader, neighbours = self.reader, self.reader.questions.neighbours
        queries = [KnownQuery.of(reader.questions.query(*of), *found) for *of, found in _rows(known)]
        memories = [document.memory for document in documents]
        scores = [
            query.scores(query.products, memory.phrases, neighbours)
            for query, memory in zip(queries, memories, strict=True)
        ]
        texts = [document.text for document in documents]
        answers = reader.ranked_answers(memories, queries, scores, top=top, texts=texts, look=look)
        return [
            with_places(ranked, document.parts) for ranked, document in zip(answers, documents, strict=True)
        ]


def _rows(known: KnownQuestions) -> Any:
    return zip(*known[:5], zip(known.products, known.overlaps, strict=True), strict=True)


class _SpansThere:
    """The spans of a second look, read by the process that asks."""

    def __init__(self, connection: Connection, longest: int) -> None:
        self._connection, self.longest = connection, longest

    def read(self, inputs: Sequence[Pieces]) -> list[Spans]:
        self._connection.send(list(inputs))
        spans: list[Spans] = self._connection.recv()
        return spans


def answer_questions(connection: Connection, path: str, folder: str | None) -> None:
    """Answer questions that a bank sends, from the documents of a library at a path; never returns."""
    with Library(path, folder, read_only=True, cache=_CACHE) as library:
        longest = library.reader.options.encoder.positions
        answerer = Answerer(library.reader, _SpansThere(connection, longest))
        while True:
            questions, versions, top, look = connection.recv()
            try:
                documents = _versions(library, versions)
            except AttarError:  # it has gone
                documents = None
            reply = None if documents is None else answerer.answer(questions, documents, top, look)
            connection.send(None if reply is None else msgspec.msgpack.encode(reply))


def _versions(library: Library, versions: Sequence[tuple[str, int]]) -> list[OpenDocument] | None:
    """The documents of these names, if they are those versions."""
    with library.store.snapshot() as now:
        documents = [library._cache.get(now, name) for name, _ in versions]
    is_same = all(
        document.entry.changed == changed for document, (_, changed) in zip(documents, versions, strict=True)
    )
    return documents if is_same else None
