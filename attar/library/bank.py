"""DocumentBank: the documents of a library on a GPU, for extreme loads of questions.

A device encodes questions, looks them up in their documents, and reads sentences again; numpy makes answers of what it
found, in this process or in others, which need no torch: it is imported where the device is used.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import AttarError, DeviceError, OptionError, RecordError, UnknownDocumentError
from attar.library.documents import AskedByName, OpenDocument, shown_answers
from attar.library.library import Library
from attar.memory.memory import Floats
from attar.reader.fast_spans import Pieces, Spans
from attar.reader.questions import KnownQuery
from attar.reader.reader import Reader
from attar.reader.second_look import SecondLook, SpanReader
from attar.results import Answer, Asked, check_asked, check_top
from attar.store.records import DocumentEntry, key_of, unpack_parts
from attar.store.transactions import Snapshot
from attar.text.kinds import without_preface
from attar.workers import EndedError, Worker, receive

if TYPE_CHECKING:
    import torch

    from attar.reader.fast_bank import BankPlace

# Documents that are brought to the device together.
_TOGETHER = 1_024
# Fewer questions than this are answered in this process.
_WORTH_IT = 64
_decode = msgspec.msgpack.Decoder(list[list[Answer]]).decode
# Parts of a batch that each process answers: more than one, so that none waits long for the slowest.
_PARTS = 2
# What is left of a device's memory for questions.
_ROOM = 2**31
# Pieces that a device reads together in a second look.
_PIECES = 2**15
# Bytes of decoded documents that each other process keeps.
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


class _Answerer:
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
        scored = [
            query.scored(query.products, document.memory.phrases, neighbours)
            for query, document in zip(queries, documents, strict=True)
        ]
        texts = [document.text for document in documents]
        names = [document.name for document in documents]
        return reader.ranked_answers(queries, scored, top=top, texts=texts, names=names, look=look)


def _rows(known: KnownQuestions) -> Any:
    return zip(*known[:5], zip(known.products, known.overlaps, strict=True), strict=True)


@dataclass(frozen=True, eq=False)
class _Banked:
    document: OpenDocument
    place: "BankPlace"


class DocumentBank(AskedByName):
    """Answers questions as its library does, but for rounding: many at a time, on a device.

    It follows the library: what is added, replaced or removed, by any process, is so for the next question. If the
    device has too little memory, it is refused with the number of documents that fit.
    """

    def __init__(
        self, library: Library, device: str = "cuda", *, memory: int | None = None, workers: int = 0
    ) -> None:
        """Bring all documents to the device; `memory` caps the bytes that they may take there.

        As many other processes as `workers` make answers of what the device found, if many are asked together.
        """
        import torch

        self._device = torch.device(device)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError("there is no GPU that PyTorch can use", "ask the library itself")
        self._library = library
        # They read the library themselves.
        settings = (
            str(library.store.path),
            None if library.reader.folder is None else str(library.reader.folder),
        )
        self._workers = [Worker(answer_questions, settings) for _ in range(workers)]
        self._most = memory if memory is not None else _free_memory(self._device)
        # One for what is on the device, one for the processes: they answer while the next questions are looked up.
        self._lock, self._answering = Lock(), Lock()
        self._begin()
        with self._lock, library.store.snapshot() as now:
            self._refresh(now)

    def __len__(self) -> int:
        return len(self._documents)

    def close(self) -> None:
        """End the other processes; what is asked afterwards is answered in this one."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()

    @property
    def nbytes(self) -> int:
        """The bytes of all documents on the device."""
        return self._on_device.bank.nbytes

    def similar(self, name: str) -> list[str] | None:
        return self._library.similar(name)

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        check_top(top)
        look = self._library.reader.look_of(look)
        with self._lock, self._library.store.snapshot() as now:
            self._refresh(now)
            documents, on_device = self._documents, self._on_device
            found = [documents.get(key_of(name)) for name in names]
            results: list[Asked | AttarError | None] = [
                self._fault(now, name, question, document is not None)
                for name, question, document in zip(names, questions, found, strict=True)
            ]
            asked = [at for at, result in enumerate(results) if result is None]
            banked = [document for at in asked if (document := found[at]) is not None]
            if asked:
                jobs = on_device.look_up([questions[at] for at in asked], [each.place for each in banked])
        if asked:
            answers = self._answer(jobs, [each.document for each in banked], top, look)
            for at, each, ranked in zip(asked, banked, answers, strict=True):
                answered = shown_answers(questions[at], ranked, each.document)
                results[at] = Asked(answered, each.document.entry.memory_bytes)
        return [result for result in results if result is not None]

    def _answer(
        self, questions: KnownQuestions, documents: list[OpenDocument], top: int | None, look: int
    ) -> list[list[Answer]]:
        """The answers from what is known of questions: in other processes, if there are enough questions for these."""
        if len(documents) >= _WORTH_IT and self._workers:
            try:
                return self._answer_in_parts(questions, documents, top, look)
            except EndedError:
                self.close()
        return self._answerer.answer(questions, documents, top, look)

    def _answer_in_parts(
        self, questions: KnownQuestions, documents: list[OpenDocument], top: int | None, look: int
    ) -> list[list[Answer]]:
        """Every process answers one part after the other; what several look at again, the device reads together."""
        count = _PARTS * len(self._workers)
        parts = deque(pairwise(np.linspace(0, len(documents), count + 1).astype(int).tolist()))
        versions = [(document.name, document.entry.changed) for document in documents]
        answers: dict[int, list[list[Answer]]] = {}
        waiting: dict[Worker, tuple[int, int]] = {}

        def give_part(worker: Worker) -> None:
            if parts:
                first, last = waiting[worker] = parts.popleft()
                worker.send((questions.part(first, last), versions[first:last], top, look))

        with self._answering:
            for worker in self._workers:
                give_part(worker)
            while waiting:
                replies = receive(list(waiting))
                self._look_again({worker: reply for worker, reply in replies if isinstance(reply, list)})
                for worker, reply in replies:
                    if not isinstance(reply, list):
                        first, last = waiting.pop(worker)
                        give_part(worker)
                        # None: a document has changed since.
                        answers[first] = (
                            _decode(reply)
                            if reply is not None
                            else self._answerer.answer(
                                questions.part(first, last), documents[first:last], top, look
                            )
                        )
        return [ranked for first in sorted(answers) for ranked in answers[first]]

    def _look_again(self, inputs: dict[Worker, list[Pieces]]) -> None:
        """Read the sentences that processes ask for, and send each its own."""
        spans = iter(self._on_device.spans.read([pieces for asked in inputs.values() for pieces in asked]))
        for worker, asked in inputs.items():
            worker.send([next(spans) for _ in asked])

    def _fault(self, now: Snapshot, name: str, question: str, is_there: bool) -> AttarError | None:
        """What is wrong with a question, if anything is."""
        try:
            check_asked("question", question)
            if not is_there:
                now.memory(now.entry(name))  # says what is the matter with it
                return RecordError(f"document {name!r} cannot be read", "add it again")
        except AttarError as fault:
            return fault
        return None

    def _begin(self) -> None:
        reader = self._library.reader
        if reader.form != "phrases":
            raise OptionError("a bank has the documents of a reader of phrases", "ask the library itself")
        self._on_device = _OnDevice(reader, self._device)
        self._answerer = _Answerer(reader, self._on_device.spans)
        self._documents: dict[bytes, _Banked] = {}
        self._written, self._change = 0, -1

    def _refresh(self, now: Snapshot) -> None:
        """Take over what changed in the library since the last time."""
        if now.header.reader not in (None, self._answerer.reader.fingerprint):
            self._begin()  # it was moved to another reader
            self.close()  # the processes have the former
        if self._change == now.signatures.change:
            return
        changed = now.signatures.changed_since(self._change) if self._change >= 0 else None
        # Removed documents keep their place until there are more of them than others.
        if changed is None or self._written > 2 * len(self._documents) + _TOGETHER:
            if self._change >= 0:
                self._begin()
            changed = set(now.signatures.document_keys())
        for key in changed:
            self._documents.pop(key, None)
        keys = sorted(changed)
        for first in range(0, len(keys), _TOGETHER):
            entries = map(now.signatures.entry, keys[first : first + _TOGETHER])
            self._add([opened for entry in entries if (opened := _opened(now, entry)) is not None], len(keys))
        self._change = now.signatures.change

    def _add(self, documents: Sequence[OpenDocument], total: int) -> None:
        memories = [document.memory for document in documents]
        needed = self.nbytes + sum(map(self._on_device.bank.bytes_of, memories))
        if needed > self._most:
            fit = int(self._most / max(needed, 1) * (len(self._documents) + len(documents)))
            message = (
                f"the {total:,} documents do not fit into the memory of {self._device}: about {fit:,} do"
            )
            raise DeviceError(message, "ask the library itself, or split it")
        if memories:
            for document, place in zip(documents, self._on_device.bank.add(memories), strict=True):
                self._documents[key_of(document.name)] = _Banked(document, place)
            self._written += len(memories)


class _OnDevice:
    """What a bank has on its device."""

    def __init__(self, reader: Reader, device: "torch.device") -> None:
        import torch

        from attar.reader.fast_bank import DeviceQuestions, DeviceSpans, PhraseBank

        self.bank = PhraseBank(reader.options.size, device)
        self.spans = DeviceSpans(reader.parts, device)
        self._tokens, self._questions = reader.questions, DeviceQuestions(reader.parts, device)
        self._table = torch.from_numpy(reader.questions.words).to(device)

    def look_up(self, questions: Sequence[str], places: "Sequence[BankPlace]") -> KnownQuestions:
        """What is known of questions once they are encoded and looked up in their documents."""
        plain = [without_preface(question) for question in questions]
        pieces = self._tokens.pieces(plain)
        encoded = self._questions.encode(pieces)
        found = self.bank.look_up(places, encoded, self._table)
        of_pieces, products, overlaps = map(Ragged.of, (pieces, *zip(*found, strict=True)))
        return KnownQuestions(plain, of_pieces, *encoded.arrays(), products, overlaps)


def _opened(now: Snapshot, entry: DocumentEntry | None) -> OpenDocument | None:
    """A document, decoded; None of a damaged one."""
    if entry is None:
        return None
    try:
        parts = unpack_parts(entry.parts, entry.name)
        return OpenDocument(b"", entry, now.memory(entry), now.text(entry), parts)
    except (RecordError, UnknownDocumentError):
        return None


def _free_memory(device: "torch.device") -> int:
    import torch

    if device.type != "cuda":
        return 2**62
    free, _ = torch.cuda.mem_get_info(device)
    return max(0, free - _ROOM)


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
        answerer = _Answerer(library.reader, _SpansThere(connection, longest))
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
