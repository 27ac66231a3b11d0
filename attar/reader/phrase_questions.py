"""Questions into queries: word pieces, batches of similar length, the question encoder."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from attar.errors import DtypeError
from attar.memory.forms import Floats
from attar.reader.fast_questions import FastEncoder, FastQuestions
from attar.reader.phrase_files import SavedPhrases
from attar.reader.phrase_scores import Query, content_words

# Questions per batch: their states stay in the caches.
_BATCH = 32
# The longest question, in pieces; the rest of a longer one is not read.
_LONGEST = 256
# Word pieces whose vectors are computed at a time: 6 MB of embeddings.
_PIECES = 4_096


class QuestionEncoder:
    """Encodes questions with the quick encoder, or with the one of documents."""

    def __init__(self, saved: SavedPhrases, *, quick: bool = True) -> None:
        self._saved = saved
        self.encoder = FastEncoder(saved)
        self._questions = FastQuestions(self.encoder, quick=quick and saved.quick_layers is not None)

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order; the same question is encoded once."""
        for question in questions:
            if not isinstance(question, str):
                raise DtypeError.expected("question", "a string", type(question).__name__)
        distinct = list(dict.fromkeys(questions))
        read = self._saved.tokenizer.read_questions(
            [question.replace("___", " what ") for question in distinct]
        )
        ids = [each if len(each) <= _LONGEST else np.append(each[: _LONGEST - 1], each[-1]) for each in read]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        queries: dict[str, Query] = {}
        numeric = self._saved.tokenizer.numeric
        for first in range(0, len(order), _BATCH):
            chosen = order[first : first + _BATCH]
            lengths = np.array([len(ids[at]) for at in chosen])
            mask = np.arange(lengths[-1]) < lengths[:, None]
            padded = np.zeros(mask.shape, np.int64)
            padded[mask] = np.concatenate([ids[at] for at in chosen])
            vectors, nulls, weights = self._questions.states(padded, mask)
            for row, at in enumerate(chosen):
                own, words = weights[row, 1 : lengths[row]], self.words[ids[at][1:]]
                asked = content_words(distinct[at])
                query = Query(
                    vectors[row], float(nulls[row]), own, words, self.words, asked,
                    ids[at][numeric[ids[at]]], distinct[at],
                )  # fmt: skip
                queries[distinct[at]] = query
        return [queries[question] for question in questions]

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
