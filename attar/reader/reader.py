"""Reader: text to memories, memories and questions to answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attar.errors import AttarError, OptionError, ShapeError
from attar.memory import Memory
from attar.nn import Network
from attar.progress import Progress, tell_nobody
from attar.reader.answers import best_first, probabilities
from attar.reader.checks import check_answerable, check_own, check_text, check_top, in_pairs
from attar.reader.computing import computing
from attar.reader.documents import DocumentEncoder
from attar.reader.explain import spelled, token_weights
from attar.reader.folder import DEFAULT, Precision, fingerprint_of, load_reader, save_reader
from attar.reader.questions import QuestionBatch, QuestionEncoder
from attar.reader.texts import Reading
from attar.reader.writing import write_memories
from attar.results import Answer, Explanation
from attar.text import NameFinder, NameTable, TextReader, Vocabulary

# A text of more characters is not put into ids as a whole, but by so many tokens at a time: what reading takes
# beside the text itself does not grow with it.
LONG_TEXT, TOKENS_A_PART = 4_000_000, 1_000_000
# Questions answered at a time: 43 µs each, 60 if 256 are (k = 128, 60 names a document, one core).
QUESTIONS_AT_ONCE = 1_024


class Reader:
    """A network and the words it knows: reads any text, and answers from what it has read.

    >>> from attar.nn.network_options import NetworkOptions
    >>> vocabulary = Vocabulary(("met", "left", "."), entities=5)
    >>> network = Network(NetworkOptions(words=len(vocabulary), entities=5, mechanism="named", size=4))
    >>> reader = Reader(network, vocabulary)
    >>> memory = reader.read("Then Ann met Bob.")
    >>> memory
    <Memory: named names, size 4, 5 tokens, 2 names, 32 bytes of float32>
    >>> sorted(answer.text for answer in reader.answer(memory, "Who left?"))
    ['Ann', 'Bob']
    """

    def __init__(
        self,
        network: Network,
        vocabulary: Vocabulary,
        fingerprint: str | None = None,
        about: dict[str, Any] | None = None,
        *,
        finder: NameFinder | None = None,
    ) -> None:
        options = network.options
        if (len(vocabulary), vocabulary.entities) != (options.words, options.entities):
            raise ShapeError(
                "vocabulary",
                f"{options.words} tokens, {options.entities} of them names'",
                f"{len(vocabulary)} and {vocabulary.entities}",
                "give the one that the network was trained with",
            )
        self.network, self.vocabulary, self.about = network.eval(), vocabulary, about or {}
        if fingerprint is None:
            fingerprint = fingerprint_of(options.to_json(), vocabulary.to_bytes(), network.state_dict())
        self.fingerprint = fingerprint
        self.text = TextReader(vocabulary, finder)
        self.documents, self.questions = DocumentEncoder(network), QuestionEncoder(network)

    @classmethod
    def load(cls, path: str | Path | None = None, *, finder: NameFinder | None = None) -> "Reader":
        """The reader of a folder; without one, that which ships with the package."""
        if path is None and not DEFAULT.is_dir():
            raise AttarError(
                "default reader",
                "the one that ships with attar",
                "none",
                "give the path of a reader's folder",
            )
        saved = load_reader(DEFAULT if path is None else path)
        return cls(saved.network, saved.vocabulary, saved.fingerprint, saved.about, finder=finder)

    def save(self, path: str | Path, precision: Precision = "float32") -> str:
        """Write the reader's folder, and give the fingerprint of what was written: float16 makes it another."""
        return save_reader(path, self.network, self.vocabulary, self.about, precision)

    def to(self, device: torch.device | str) -> "Reader":
        """The same reader, its network moved to a device; memories stay where they are."""
        self.network.to(device)
        return self

    def read(self, text: str, *, names: NameTable | None = None) -> Memory:
        """The memory of a text, read under a table of names if one is given: it learns the text's names."""
        table = self._table() if names is None else names
        if self._is_long(text):
            return self._read_in_parts(text, table)
        reading = self._reading(text, table)
        return self._write([reading if names is None else reading.standing()])[0]

    def read_many(
        self,
        texts: Sequence[str],
        *,
        together: bool = False,
        batch: int = 32,
        progress: Progress = tell_nobody,
    ) -> list[Memory]:
        """The memories of texts, in their order; read together they share one table of names, and can merge.

        `progress` hears how many of a batch's tokens are done: a long text takes its time.
        """
        if batch < 1:
            raise OptionError("batch", "a whole number from 1 up", repr(batch))
        table = self._table()
        readings: dict[int, Reading] = {}
        memories: dict[int, Memory] = {}
        for at, text in enumerate(texts):
            own = table if together else self._table()
            if self._is_long(text):
                memories[at] = self._read_in_parts(text, own, progress=progress)
            else:
                reading = self._reading(text, own)
                # A table read on later is another time's: each memory has it as it stood at its own end.
                readings[at] = reading.standing() if together else reading
        order = sorted(readings, key=lambda at: -len(readings[at].text))
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            written = self._write([readings[at] for at in chosen], progress)
            memories.update(zip(chosen, written, strict=True))
        return [memories[at] for at in range(len(texts))]

    def extend(self, memory: Memory, text: str, *, progress: Progress = tell_nobody) -> Memory:
        """The memory after reading on: at a sentence's end the same as if both had been read at once."""
        check_own(memory, self.fingerprint)
        table = memory.names.copy()
        if self._is_long(text):
            return self._read_in_parts(text, table, memory, progress)
        return self._write([self._reading(text, table, memory)], progress)[0]

    def answer(self, memory: Memory, question: str, *, top: int | None = None) -> list[Answer]:
        """The document's names, likeliest first, or the best few; none for a text without names."""
        return self.answer_many([memory], [question], top=top)[0]

    def answer_many(
        self, memories: Memory | Sequence[Memory], questions: str | Sequence[str], *, top: int | None = None
    ) -> list[list[Answer]]:
        """The answers to each question from its own memory; one memory, or one question, stands for all."""
        about, asked = in_pairs(memories, questions)
        check_top(top)
        for memory in {id(memory): memory for memory in about}.values():
            check_own(memory, self.fingerprint)
        read = [self._question(text, memory.names) for text, memory in zip(asked, about, strict=True)]
        order = sorted(range(len(read)), key=lambda at: len(read[at][0]))
        answers: list[list[Answer]] = [[] for _ in read]
        for first in range(0, len(order), QUESTIONS_AT_ONCE):
            chosen = order[first : first + QUESTIONS_AT_ONCE]
            own = [about[at] for at in chosen]
            batch = QuestionBatch.of([read[at] for at in chosen])
            with computing():
                queries = self.questions.encode(batch)
                shares = probabilities(self.network, queries, own, batch)
            for at, found in zip(chosen, best_first(shares, own, top), strict=True):
                answers[at] = found
        return answers

    def explain(self, text: str, question: str) -> Explanation:
        """The weight that each of a text's tokens has for a question, and the answers."""
        table = self._table()
        reading = self._reading(text, table)
        asked = QuestionBatch.of([self._question(question, table)])
        with computing():
            queries = self.questions.encode(asked)
            weights = token_weights(self.documents, reading, queries[0])
        answers = self.answer(self._write([reading])[0], question)
        return Explanation(spelled(text, self.text.finder, self._table()), weights, answers)

    def _table(self) -> NameTable:
        return NameTable(self.vocabulary.entities)

    def _reading(self, text: str, table: NameTable, before: Memory | None = None) -> Reading:
        check_text("text", text)
        return Reading(self.text.read(text, table), table, before)

    def _is_long(self, text: object) -> bool:
        return isinstance(text, str) and len(text) > LONG_TEXT and self.documents.reads_on

    def _read_in_parts(
        self,
        text: str,
        table: NameTable,
        before: Memory | None = None,
        progress: Progress = tell_nobody,
    ) -> Memory:
        """The memory of a long text: each part of it is read on from the one before."""
        done, about = 0, len(text) // 5  # English has some five characters a token

        def tell(what: str, read: int, _: int) -> None:
            progress(what, done + read, max(about, done + read))

        for part in self.text.read_in_parts(text, table, TOKENS_A_PART):
            before = self._write([Reading(part, table, before).standing()], tell)[0]
            done += len(part)
        if before is None:  # nothing but spaces
            return self._write([self._reading("", table).standing()])[0]
        return before

    def _write(self, readings: Sequence[Reading], progress: Progress = tell_nobody) -> list[Memory]:
        check_answerable(self.network)
        with computing():
            return write_memories(self.documents, readings, self.fingerprint, progress)

    def _question(self, text: str, table: NameTable) -> tuple[NDArray[np.int32], int]:
        check_text("question", text)
        return self.text.read_question(text, table)
