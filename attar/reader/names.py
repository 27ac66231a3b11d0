"""NamesReader: answers with names of the text, by the paper's recurrent encoders and mechanisms.

A text: ids and names (`attar.text`) → hidden states → memory (`encoding.write_memories`).
A question: ids → query (`encoding.TextEncoder.queries`) → lookup and scores → answers (`attar.reader.answers`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory.memory import Memory
from attar.nn.network import Network
from attar.progress import Progress, ignore_progress
from attar.reader.answers import rank_names, score_names, spell_tokens, token_weights
from attar.reader.batches import PendingText
from attar.reader.encoding import QuestionBatch, write_memories
from attar.reader.fast_encoding import FastTextEncoder
from attar.reader.files import Precision, SavedReader, save_reader
from attar.reader.folders import fingerprint_of
from attar.reader.reader import Reader, inference
from attar.results import Answer, Explanation
from attar.text.name_table import NameTable
from attar.text.names import NameFinder
from attar.text.reading import TextReader
from attar.text.vocabulary import Vocabulary

# A text with more characters is converted to ids in parts, so that the working memory does not grow with the text.
LONG_TEXT, TOKENS_PER_PART = 4_000_000, 1_000_000
# Questions per batch: 43 µs per question, 60 with batches of 256 (k = 128, 60 names per document, one core).
QUESTIONS_PER_BATCH = 1_024


class NamesReader(Reader):
    """A network and its vocabulary: reads texts, and answers questions from memories of them.

    >>> from attar.nn import NetworkOptions
    >>> vocabulary = Vocabulary(("met", "left", "."), entities=5)
    >>> network = Network(NetworkOptions(words=len(vocabulary), entities=5, mechanism="named", hidden_size=4))
    >>> reader = NamesReader(network, vocabulary)
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
            raise ShapeError.expected(
                "vocabulary",
                f"{options.words} tokens, {options.entities} of them names",
                f"{len(vocabulary)} and {vocabulary.entities}",
                "use the one that the network was trained with",
            )
        self.network, self.vocabulary, self.about = network.eval(), vocabulary, about or {}
        if fingerprint is None:
            fingerprint = fingerprint_of(options.to_json(), vocabulary.to_bytes(), network.state_dict())
        self.fingerprint = fingerprint
        self._text_reader, self._encoder = TextReader(vocabulary, finder), FastTextEncoder(network)

    @classmethod
    def of(cls, saved: SavedReader, finder: NameFinder | None = None) -> "NamesReader":
        """The reader of a folder that was loaded."""
        return cls(saved.network, saved.vocabulary, saved.fingerprint, saved.about, finder=finder)

    def save(self, path: str | Path, precision: Precision = "float32") -> str:
        """Write the reader to a folder and return its fingerprint, which differs for float16."""
        return save_reader(path, self.network, self.vocabulary, self.about, precision)

    def to(self, device: torch.device | str) -> "NamesReader":
        """Move the network to a device and return the reader; memories stay in numpy arrays."""
        self.network.to(device)
        return self

    def read(self, text: str, *, names: NameTable | None = None) -> Memory:
        """The memory of a text; a given table of names is used, and learns the names of the text."""
        table = self._new_table() if names is None else names
        if self._is_long(text):
            return self._read_in_parts(text, table)
        pending = self._tokenize(text, table)
        return self._write([pending if names is None else pending.with_own_names()])[0]

    def read_many(
        self,
        texts: Sequence[str],
        *,
        shared_names: bool = False,
        batch_size: int = 32,
        progress: Progress = ignore_progress,
    ) -> list[Memory]:
        """The memories of texts, in order; with `shared_names` they have one table of names, and can be merged.

        `progress` is called with the number of tokens read and the total, per batch.
        """
        if batch_size < 1:
            raise OptionError.expected("batch_size", "an integer of at least 1", repr(batch_size))
        table = self._new_table()
        pending: dict[int, PendingText] = {}
        memories: dict[int, Memory] = {}
        for at, text in enumerate(texts):
            own = table if shared_names else self._new_table()
            if self._is_long(text):
                memories[at] = self._read_in_parts(text, own, progress=progress)
            else:
                tokenized = self._tokenize(text, own)
                # Each memory has the names up to the end of its own text.
                pending[at] = tokenized.with_own_names() if shared_names else tokenized
        longest_first = sorted(pending, key=lambda at: -len(pending[at].text))
        for first in range(0, len(longest_first), batch_size):
            batch = longest_first[first : first + batch_size]
            written = self._write([pending[at] for at in batch], progress)
            memories.update(zip(batch, written, strict=True))
        return [memories[at] for at in range(len(texts))]

    def extend(self, memory: Memory, text: str, *, progress: Progress = ignore_progress) -> Memory:
        """The memory extended by a text: the same as reading both at once, if the first ends with a sentence."""
        self.check_memory(memory)
        table = memory.names.copy()
        if self._is_long(text):
            return self._read_in_parts(text, table, memory, progress)
        return self._write([self._tokenize(text, table, memory)], progress)[0]

    def answer_many(
        self,
        memories: Memory | Sequence[Memory],
        questions: str | Sequence[str],
        *,
        top: int | None = None,
        texts: Sequence[str | None] | None = None,
    ) -> list[list[Answer]]:
        """The names of each question's document, most likely first; none if the text has no names."""
        memories, questions = self._checked(memories, questions, top)
        ids = [self._tokenize_question(*pair) for pair in zip(questions, memories, strict=True)]
        shortest_first = sorted(range(len(ids)), key=lambda at: len(ids[at][0]))
        answers: list[list[Answer]] = [[] for _ in ids]
        for first in range(0, len(ids), QUESTIONS_PER_BATCH):
            chosen = shortest_first[first : first + QUESTIONS_PER_BATCH]
            own, batch = [memories[at] for at in chosen], QuestionBatch.of([ids[at] for at in chosen])
            with inference():
                queries = self._encoder.queries(batch)
                probabilities = score_names(self.network, queries, own, batch)
            for at, ranked in zip(chosen, rank_names(probabilities, own, top), strict=True):
                answers[at] = ranked
        return answers

    def explain(self, text: str, question: str) -> Explanation:
        """The answers to a question on a text, and the weight of each token of the text."""
        pending = self._tokenize(text, self._new_table())
        memory = self._write([pending])[0]
        with inference():
            query = self._encoder.queries(QuestionBatch.of([self._tokenize_question(question, memory)]))[0]
            weights = token_weights(self._encoder, pending, query)
        tokens = spell_tokens(text, self._text_reader.finder, self._new_table())
        return Explanation(tokens, weights, self.answer(memory, question))

    def _new_table(self) -> NameTable:
        return NameTable(self.vocabulary.entities)

    def _tokenize(self, text: str, table: NameTable, memory: Memory | None = None) -> PendingText:
        if not isinstance(text, str):
            raise DtypeError.expected("text", "a string", type(text).__name__)
        return PendingText(self._text_reader.read(text, table), table, memory)

    def _tokenize_question(self, question: str, memory: Memory) -> tuple[NDArray[np.int32], int]:
        if not isinstance(question, str):
            raise DtypeError.expected("question", "a string", type(question).__name__)
        return self._text_reader.read_question(question, memory.names)

    def _write(self, pending: Sequence[PendingText], progress: Progress = ignore_progress) -> list[Memory]:
        if not answers_alone(self.network):
            raise OptionError.expected(
                "reader",
                "one that can answer from memories alone",
                "softmax with the copy head, which needs the text again",
                "train it with head='paper', or with mechanism='named'",
            )
        with inference():
            return write_memories(self._encoder, pending, self.fingerprint, progress)

    def _is_long(self, text: object) -> bool:
        return isinstance(text, str) and len(text) > LONG_TEXT and self._encoder.extends

    def _read_in_parts(
        self, text: str, table: NameTable, memory: Memory | None = None, progress: Progress = ignore_progress
    ) -> Memory:
        """The memory of a long text: each part extends the memory of the parts before it."""
        done, estimate = 0, len(text) // 5  # English has about five characters per token

        def report(what: str, read: int, _: int) -> None:
            progress(what, done + read, max(estimate, done + read))

        for part in self._text_reader.read_in_parts(text, table, TOKENS_PER_PART):
            memory = self._write([PendingText(part, table, memory).with_own_names()], report)[0]
            done += len(part)
        if memory is None:  # the text is only spaces
            return self._write([self._tokenize("", table).with_own_names()])[0]
        return memory


def answers_alone(network: Network) -> bool:
    """Whether a memory alone is enough to answer; softmax with the copy head also needs the text's tokens."""
    return (network.options.mechanism, network.options.head) != ("softmax", "copy")
