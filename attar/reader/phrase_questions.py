"""Questions into queries: word pieces, batches of similar length, the question encoder."""

import sys
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError
from attar.memory import Floats
from attar.reader.fast_questions import FastQuestions
from attar.reader.phrase_files import SavedPhrases
from attar.reader.phrase_scores import Query, content_words
from attar.reader.reader import inference

# Questions per batch: their states stay in the caches. 16 and 32 are the fastest, 256 take twice the time.
_BATCH = 32
# The longest question, in pieces; the rest of a longer one is not read.
_LONGEST = 256
# Up to this many questions numpy takes less time than torch, and up to the second number if torch must be imported.
_FEW, _FEW_WITH_IMPORT = 2, 64
# Word pieces whose vectors are computed at a time: 6 MB of embeddings.
_PIECES = 4_096


class QuestionEncoder:
    """Encodes questions with the quick encoder, or with the one of documents."""

    def __init__(self, saved: SavedPhrases, *, quick: bool = True) -> None:
        self._saved = saved
        self._is_quick = quick and saved.quick_layers is not None
        self._fast = FastQuestions(saved, quick=self._is_quick)

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order; the same question is encoded once."""
        for question in questions:
            if not isinstance(question, str):
                raise DtypeError("question", "a string", type(question).__name__)
        distinct = list(dict.fromkeys(questions))
        read = self._saved.tokenizer.read_questions(
            [question.replace("___", " what ") for question in distinct]
        )
        ids = [each if len(each) <= _LONGEST else np.append(each[: _LONGEST - 1], each[-1]) for each in read]
        # A long-running process imports torch sooner or later; `attar ask` never.
        plain = len(distinct) > (_FEW if "torch" in sys.modules else _FEW_WITH_IMPORT)
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        queries: dict[str, Query] = {}
        numeric = self._saved.tokenizer.numeric
        for first in range(0, len(order), _BATCH):
            chosen = order[first : first + _BATCH]
            lengths = np.array([len(ids[at]) for at in chosen])
            mask = np.arange(lengths[-1]) < lengths[:, None]
            padded = np.zeros(mask.shape, np.int64)
            padded[mask] = np.concatenate([ids[at] for at in chosen])
            states = self.states if plain else self._fast.states
            vectors, nulls, weights = states(padded, mask)
            for row, at in enumerate(chosen):
                own, words = weights[row, 1 : lengths[row]], self.words[ids[at][1:]]
                asked = content_words(distinct[at])
                query = Query(
                    vectors[row], float(nulls[row]), own, words, self.words, asked,
                    ids[at][numeric[ids[at]]], distinct[at],
                )  # fmt: skip
                queries[distinct[at]] = query
        return [queries[question] for question in questions]

    def states(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """The queries `[Q, k]`, the scores of "no answer" `[Q]`, and the weights of the words `[Q, l]`."""
        import torch

        quick = self._saved.quick if self._is_quick else None
        with inference():
            encoded = self._saved.network.question_states(
                torch.from_numpy(ids), torch.from_numpy(mask), quick
            )
        queries, nulls, weights = (part.numpy() for part in encoded)
        return queries, nulls, weights

    @cached_property
    def words(self) -> Floats:
        """One unit vector per word piece, `[V, w]`."""
        count, options = self._saved.options.encoder.vocabulary, self._saved.options
        word, table = (
            self._saved.weight("network.word.weight"),
            np.empty((count, options.word_size), np.float32),
        )
        for first in range(0, count, _PIECES):
            rows = self._saved.weight("network.encoder.words.weight", slice(first, first + _PIECES)) @ word.T
            norms = np.sqrt((rows * rows).sum(1, keepdims=True))
            table[first : first + _PIECES] = rows / np.maximum(norms, np.float32(1e-12))
        return table

    @cached_property
    def neighbours(self) -> Floats:
        """How much the sentences before and after count, `[2]`."""
        return self._saved.weight("network.neighbours")
