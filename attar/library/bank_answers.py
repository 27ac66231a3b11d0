"""Answers made of what a device found: in this process, or in others, which need no torch."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import AttarError
from attar.library.documents import OpenDocument, shown_answers
from attar.library.library import Library
from attar.memory.memory import Floats
from attar.reader.fast_spans import Pieces, Spans
from attar.reader.reader import Reader
from attar.reader.second_look import SecondLook, SpanReader
from attar.results import Answer
from attar.text.kinds import without_preface
from attar.workers import EndedError, Worker, receive

# Fewer questions than this are answered in this process.
_WORTH_IT = 64
_decode = msgspec.msgpack.Decoder(list[list[Answer]]).decode
# Parts of a batch that each process answers: more than one, so that none waits long for the slowest.
_PARTS = 2
# Questions that are worth sending to another process.
_LEAST = 8
# Pieces that a device reads together in a second look.
_PIECES = 2**15
# Bytes of decoded documents that each other process keeps.
_CACHE = 2**30


class KnownQuestion(NamedTuple):
    """A question: text, word pieces, vector `[k]`, score of "no answer", weights of pieces `[l]`.

    Also the products with the phrases, and the overlap with the sentences, of its document.
    """

    question: str
    pieces: NDArray[Any]
    vector: Floats
    null: float
    weights: Floats
    products: Floats
    alone: Floats


class Answerer:
    """Makes answers with a reader whose second look reads spans elsewhere."""

    def __init__(self, reader: Reader, spans: SpanReader) -> None:
        self.spans = spans
        self.reader = Reader(reader.parts, folder=reader.folder)
        if reader.parts.config.look is not None:
            self.reader.second_look = SecondLook(spans, reader.tokenizer, _PIECES)

    def answer(
        self, known: Sequence[KnownQuestion], documents: Sequence[OpenDocument], top: int | None, look: int
    ) -> list[list[Answer]]:
        """The answers to each question from its document, as users get them."""
        reader, neighbours = self.reader, self.reader.questions.neighbours
        queries, scored = [], []
        for asked, document in zip(known, documents, strict=True):
            plain = without_preface(asked.question)
            query = reader.questions.query(plain, asked.pieces, asked.vector, asked.null, asked.weights)
            queries.append(query)
            scored.append(query.scored(asked.products, document.memory.phrases, neighbours, asked.alone))
        texts = [document.text for document in documents]
        names = [document.name for document in documents]
        ranked = reader.ranked_answers(queries, scored, top=top, texts=texts, names=names, look=look)
        return list(map(shown_answers, [each.question for each in known], ranked, documents))


class AnswerPool:
    """Other processes that answer questions; those of several threads at the same time."""

    def __init__(self, library: Library, count: int) -> None:
        folder = library.reader.folder
        # They read the library themselves.
        settings = str(library.store.path), None if folder is None else str(folder)
        self._workers = [Worker(answer_questions, settings) for _ in range(count)]
        self._idle: SimpleQueue[Worker | None] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def __bool__(self) -> bool:
        return bool(self._workers)

    def close(self) -> None:
        """End the processes."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        self._idle.put(None)

    def answer(
        self,
        answerer: Answerer,
        questions: list[KnownQuestion],
        documents: list[OpenDocument],
        top: int | None,
        look: int,
    ) -> list[list[Answer]]:
        """The answers to each question: in other processes, if there are enough questions for these."""
        if len(documents) >= _WORTH_IT and self:
            try:
                return self._answer_in_parts(answerer, questions, documents, top, look)
            except EndedError:
                pass
        return answerer.answer(questions, documents, top, look)

    def _answer_in_parts(
        self,
        answerer: Answerer,
        questions: list[KnownQuestion],
        documents: list[OpenDocument],
        top: int | None,
        look: int,
    ) -> list[list[Answer]]:
        """Processes answer one part after the other; what several look at again, the device reads together."""
        count = min(_PARTS * len(self._workers), len(documents) // _LEAST)
        parts = deque(pairwise(np.linspace(0, len(documents), count + 1).astype(int).tolist()))
        versions = [(document.name, document.entry.changed) for document in documents]
        answers: dict[int, list[list[Answer]]] = {}
        waiting: dict[Worker, tuple[int, int]] = {}
        try:
            while parts or waiting:
                if parts and (worker := self._idle_worker(wait=not waiting)) is not None:
                    first, last = waiting[worker] = parts.popleft()
                    worker.send((questions[first:last], versions[first:last], top, look))
                    continue
                replies = receive(list(waiting))
                _look_again(answerer.spans, [each for each in replies if isinstance(each[1], list)])
                for worker, reply in replies:
                    if not isinstance(reply, list):
                        first, last = waiting.pop(worker)
                        self._idle.put(worker)
                        # None: a document has changed since.
                        answers[first] = (
                            _decode(reply)
                            if reply is not None
                            else answerer.answer(questions[first:last], documents[first:last], top, look)
                        )
        except BaseException:
            self.close()  # some wait for what nobody sends
            raise
        return [ranked for first in sorted(answers) for ranked in answers[first]]

    def _idle_worker(self, wait: bool) -> Worker | None:
        """A process that has nothing to do; None if there is none, and nobody wants to wait for one."""
        try:
            worker = self._idle.get(block=wait)
        except Empty:
            return None
        if worker is None:
            self._idle.put(None)
            raise EndedError("the processes that make answers were ended", "try again")
        return worker


def _look_again(spans: SpanReader, inputs: list[tuple[Worker, list[Pieces]]]) -> None:
    """Read the sentences that processes ask for together, and send each its own."""
    if not inputs:
        return
    found = spans.read([pieces for _, several in inputs for pieces in several])
    for worker, several in inputs:
        worker.send(found[: len(several)])
        del found[: len(several)]


class _SpansThere:
    """The spans of a second look, read by the process that asks."""

    def __init__(self, connection: Connection, longest: int) -> None:
        self._connection, self.longest = connection, longest

    def read(self, inputs: Sequence[Pieces]) -> list[Spans]:
        self._connection.send(inputs)
        found: list[Spans] = self._connection.recv()
        return found


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
