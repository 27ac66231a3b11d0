"""Questions into queries: word pieces, batches of similar length, the question encoder."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError
from attar.memory.forms import Floats
from attar.progress import check_stopped
from attar.reader.fast_questions import FastEncoder, FastQuestions
from attar.reader.parts import ReaderParts
from attar.reader.scores import Query, content_words

# Questions per batch: their states stay in the caches.
_BATCH = 32
# The longest question, in pieces; the rest of a longer one is not read.
_LONGEST = 256
# Word pieces whose vectors are computed at a time: 6 MB of embeddings.
_PIECES = 4_096


class QuestionEncoder:
    """Encodes questions with the quick encoder, or with the one of texts."""

    def __init__(self, parts: ReaderParts, *, quick: bool = True) -> None:
        self._parts = parts
        self._encoder = FastEncoder(parts)
        self._questions = FastQuestions(self._encoder, parts.config.network.quick if quick else None)

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order; the same question is encoded once."""
        for question in questions:
            if not isinstance(question, str):
                raise DtypeError.expected("question", "a string", type(question).__name__)
        distinct = list(dict.fromkeys(questions))
        pieces = self._pieces(distinct)
        order = sorted(range(len(pieces)), key=lambda at: len(pieces[at]))
        queries: dict[str, Query] = {}
        for first in range(0, len(order), _BATCH):
            check_stopped()
            chosen = order[first : first + _BATCH]
            encoded = self._encode([distinct[at] for at in chosen], [pieces[at] for at in chosen])
            queries |= {query.question: query for query in encoded}
        return [queries[question] for question in questions]

    def states(self, ids: NDArray[np.int64], layers: int) -> Floats:
        """The states `[n, d]` of one short text's pieces after some layers of the text encoder, without torch."""
        tokenizer = self._parts.tokenizer
        whole = np.concatenate(([tokenizer.cls], ids, [tokenizer.sep]))[None]
        return self._encoder.states(whole, np.ones_like(whole, np.bool_), layers)[1:-1]

    def _pieces(self, questions: Sequence[str]) -> list[NDArray[Any]]:
        read = self._parts.tokenizer.read_questions(
            [question.replace("___", " what ") for question in questions]
        )
        return [ids if len(ids) <= _LONGEST else np.append(ids[: _LONGEST - 1], ids[-1]) for ids in read]

    def _encode(self, questions: Sequence[str], pieces: Sequence[NDArray[Any]]) -> list[Query]:
        """Questions in the order of their lengths."""
        lengths = np.array([len(ids) for ids in pieces])
        mask = np.arange(lengths[-1]) < lengths[:, None]
        padded = np.zeros(mask.shape, np.int64)
        padded[mask] = np.concatenate(pieces)
        vectors, nulls, weights = self._questions.encode(padded, mask)
        return [
            Query(
                question=question,
                vector=vectors[row],
                null=float(nulls[row]),
                weights=weights[row, 1 : len(ids)],
                words=self.words[ids[1:]],
                table=self.words,
                asked=content_words(question),
                numbers=ids[self._parts.tokenizer.numeric[ids]],
            )
            for row, (question, ids) in enumerate(zip(questions, pieces, strict=True))
        ]

    @cached_property
    def words(self) -> Floats:
        """One unit vector per word piece, `[V, w]`."""
        count, size = self._parts.options.encoder.vocabulary, self._parts.options.word_size
        word, table = self._parts.weight("network.word.weight"), np.empty((count, size), np.float32)
        for first in range(0, count, _PIECES):
            rows = self._parts.weight("network.encoder.words.weight", slice(first, first + _PIECES)) @ word.T
            norms = np.sqrt((rows * rows).sum(1, keepdims=True))
            table[first : first + _PIECES] = rows / np.maximum(norms, np.float32(1e-12))
        return table

    @cached_property
    def neighbours(self) -> Floats:
        """How much the sentences before and after count, `[2]`."""
        return self._parts.weight("network.neighbours")
