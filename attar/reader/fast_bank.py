"""Phrases of many documents on a device, and the networks that answer questions there: `Reader` for extreme loads.

A question is encoded, and its products with the phrases and words of its document are made, together with those of
many others. What a person reads of it, texts of phrases, probabilities and kinds, is the plain path's.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attar.memory.memory import Floats, Memory
from attar.memory.phrases import PhraseIndex
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer, without_initialization
from attar.reader.fast_spans import Pieces, Spans
from attar.reader.parts import ReaderParts
from attar.reader.questions import Query, QuestionEncoder
from attar.reader.reader import Reader
from attar.reader.second_look import SecondLook
from attar.reader.weights import SCALE

# Numbers that a step makes for questions that are looked up together: 1 GB.
_NUMBERS = 2**28
# Pieces that a second look reads together.
_PIECES = 2**15


class BankPlace(NamedTuple):
    """Where the phrases and the words of a document begin in a bank, and how many it has."""

    phrases: int
    phrase_count: int
    words: int
    word_count: int
    sentences: int


class PhraseBank:
    """The phrase vectors in int8 and the words of sentences of many memories, on a device."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._phrases = _Rows(device, numbers=((size,), torch.int8), scales=((), torch.float32))
        self._words = _Rows(device, ids=((), torch.int32), sentences=((), torch.int32))

    @property
    def nbytes(self) -> int:
        return self._phrases.nbytes + self._words.nbytes

    @staticmethod
    def bytes_of(memory: Memory) -> int:
        """What a memory takes there."""
        return len(memory.phrases) * (memory.size + 4) + 8 * len(memory.phrases.words)

    def add(self, memories: Sequence[Memory]) -> list[BankPlace]:
        """Write memories after the last one."""
        indexes = [memory.phrases for memory in memories]
        phrases = self._phrases.append(
            numbers=np.concatenate([memory.numbers for memory in memories]),
            scales=np.concatenate([memory.scales for memory in memories]),
        )
        words = self._words.append(
            ids=np.concatenate([index.words.astype(np.int32) for index in indexes]),
            sentences=np.concatenate([_sentences_of(index) for index in indexes]),
        )
        places = []
        for index in indexes:
            places.append(BankPlace(phrases, len(index), words, len(index.words), len(index.word_starts) - 1))
            phrases, words = phrases + len(index), words + len(index.words)
        return places

    @torch.inference_mode()
    def look_up(
        self, places: Sequence[BankPlace], queries: Sequence[Query], table: Tensor
    ) -> "list[KnownQuery]":
        """Each query with its products with the phrases, and the word overlap with the sentences, of its document.

        `table` `[V, w]` are the vectors of word pieces, which belong to the reader.
        """
        order = sorted(range(len(places)), key=lambda at: places[at].phrase_count + places[at].word_count)
        known: list[KnownQuery | None] = [None] * len(places)
        first = 0
        while first < len(order):
            last = first + _count_together([places[at] for at in order[first:]], queries[0].table.shape[1])
            chosen = order[first:last]
            made = self._look_up([places[at] for at in chosen], [queries[at] for at in chosen], table)
            for at, query in zip(chosen, made, strict=True):
                known[at] = query
            first = last
        return [query for query in known if query is not None]

    def _look_up(
        self, places: Sequence[BankPlace], queries: Sequence[Query], table: Tensor
    ) -> "list[KnownQuery]":
        device = table.device
        columns = torch.tensor(places).to(device)
        most = [max(counts) for counts in zip(*places, strict=True)]
        vectors = torch.from_numpy(np.stack([query.vector for query in queries])).to(device)
        asked = _padded([query.words for query in queries]).to(device)
        weights = _padded([query.weights for query in queries]).to(device)
        # Rows of padding are those of another document: nobody reads their products.
        rows = self._phrases.rows(columns[:, 0], most[1])
        scales = self._phrases["scales"][rows] * (vectors.shape[1] ** -0.5 / 127)
        products = (
            torch.bmm(self._phrases["numbers"][rows].to(vectors.dtype), vectors[..., None])[..., 0] * scales
        )
        rows = self._words.rows(columns[:, 2], most[3])
        alike = torch.bmm(table[self._words["ids"][rows]], asked.mT).clamp(min=0)
        is_word = torch.arange(rows.shape[1], device=device) < columns[:, 3, None]
        # The words of padding belong to a sentence after the last.
        sentences = torch.where(is_word, self._words["sentences"][rows], most[4]).long()
        best = alike.new_zeros(len(queries), most[4] + 1, alike.shape[2])
        best.scatter_reduce_(1, sentences[..., None].expand_as(alike), alike, "amax")
        alone = torch.bmm(best, weights[..., None])[:, :-1, 0]
        found = torch.cat((products, alone), 1).cpu().numpy()
        return [
            KnownQuery.of(query, row[: place.phrase_count], row[most[1] : most[1] + place.sentences])
            for query, place, row in zip(queries, places, found, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class KnownQuery(Query):
    """A query whose products with the phrases of a document, and overlap with its sentences, are known."""

    products: Floats  # [P]
    alone: Floats  # [S]

    @classmethod
    def of(cls, query: Query, products: Floats, alone: Floats) -> "KnownQuery":
        return cls(**{f.name: getattr(query, f.name) for f in fields(Query)}, products=products, alone=alone)

    def overlap(self, index: PhraseIndex, neighbours: Floats) -> Floats:
        """As `Query.overlap`, of the document that it was looked up in."""
        total: Floats = self.alone.copy()
        total[1:] += neighbours[0] * self.alone[:-1]
        total[:-1] += neighbours[1] * self.alone[1:]
        return total


class _Rows:
    """Columns of rows on a device, which grow."""

    def __init__(self, device: torch.device, **columns: tuple[tuple[int, ...], torch.dtype]) -> None:
        self._columns = {
            name: torch.zeros((1_024, *shape), dtype=dtype, device=device)
            for name, (shape, dtype) in columns.items()
        }
        self._used = 0

    def __getitem__(self, name: str) -> Tensor:
        return self._columns[name]

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values())

    def append(self, **values: NDArray[np.generic]) -> int:
        """Write rows after the last one; returns the number of the first."""
        first = self._used
        for name, rows in values.items():
            self._used = first + len(rows)
            column = self._columns[name]
            if self._used > len(column):
                grown = column.new_zeros((max(self._used, len(column) * 5 // 4), *column.shape[1:]))
                grown[:first] = column[:first]
                self._columns[name] = column = grown
            column[first : self._used] = torch.from_numpy(rows).to(column.device)
        return first

    def rows(self, starts: Tensor, count: int) -> Tensor:
        """The numbers of `count` rows from each start on; after the last row, that of the last."""
        numbers = starts[:, None] + torch.arange(count, device=starts.device)
        return numbers.clamp(max=max(self._used - 1, 0))


def _sentences_of(index: PhraseIndex) -> NDArray[np.int32]:
    """The number of the sentence of each word."""
    counts = np.diff(index.word_starts)
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _count_together(places: Sequence[BankPlace], width: int) -> int:
    """How many of some documents, the smallest first, are looked up at once."""
    for at, place in enumerate(places):
        # A question has up to 256 pieces; most have 16.
        numbers = 80 * place.phrase_count + (width + 64) * place.word_count + 32 * place.sentences
        if at and numbers * (at + 1) > _NUMBERS:
            return at
    return len(places)


def _padded(rows: Sequence[Floats]) -> Tensor:
    return pad_sequence([torch.from_numpy(np.ascontiguousarray(row)) for row in rows], batch_first=True)


class DeviceQuestions:
    """`FastQuestions` on a device."""

    def __init__(self, parts: ReaderParts, quick: bool, device: torch.device) -> None:
        self._network = copy.deepcopy(parts.network()).to(device)
        self._quick = parts.quick() if quick else None
        if self._quick is not None:
            self._quick.to(device)
        self._device = device

    @torch.inference_mode()
    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """The queries `[Q, k]`, the scores of "no answer" `[Q]`, and the weights of the words `[Q, l]`."""
        pieces, inside = (torch.from_numpy(part).to(self._device) for part in (ids, mask))
        encoded = self._network.encode_questions(pieces, inside, self._quick)
        size = encoded.queries.shape[1]
        found = torch.cat((encoded.queries.float(), encoded.nulls[:, None], encoded.weights), 1).cpu().numpy()
        return found[:, :size], found[:, size], found[:, size + 1 :]


class DeviceSpans:
    """`FastSpans` on a device: the reader's int8 weights in bfloat16 on a GPU, in float32 on a CPU."""

    def __init__(self, parts: ReaderParts, device: torch.device) -> None:
        weights, config = parts.look_weights(), parts.config.look
        assert weights is not None  # its reader has a second look
        assert config is not None
        with without_initialization():
            self._network = SpanNetwork(Transformer(replace(parts.options.encoder, layers=config.layers)))
        state = {"encoder.words.weight": torch.from_numpy(parts.weight("network.encoder.words.weight"))}
        for name, value in weights.items():
            if not name.endswith(SCALE):
                scales = weights.get(name + SCALE)
                floats = value.astype(np.float32) * (1 if scales is None else scales.reshape(-1, 1))
                state[name.removeprefix("look.")] = torch.from_numpy(floats)
        self._network.load_state_dict(state)
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._network.eval().to(device, dtype)
        self._device, self._separator = device, parts.tokenizer.sep
        self.longest = len(state["encoder.positions.weight"])

    @torch.inference_mode()
    def read(self, inputs: Sequence[Pieces]) -> list[Spans]:
        """Start and end scores and presence of each input, of at most `longest` pieces with the last [SEP]."""
        asked = np.array([len(pieces.question) for pieces in inputs])
        ends = asked + [len(pieces.text) for pieces in inputs]
        at = np.arange(int(ends.max()) + 1)
        ids = np.zeros((len(inputs), len(at)), np.int64)
        for row, pieces in enumerate(inputs):
            ids[row, : ends[row] + 1] = np.concatenate((pieces.question, pieces.text, [self._separator]))
        masks = at <= ends[:, None], at < asked[:, None], (at >= asked[:, None]) & (at < ends[:, None])
        pieces, mask, of_question, inside = (
            torch.from_numpy(part).to(self._device) for part in (ids, *masks)
        )
        scores, present = self._network(pieces, mask, of_question.long(), inside)
        found = torch.cat((scores.flatten(1), present[:, None]), 1).cpu().numpy()
        return [
            Spans(row[first:last], row[len(at) + first : len(at) + last], float(row[-1]))
            for row, first, last in zip(found, asked.tolist(), ends.tolist(), strict=True)
        ]


class _DeviceQuestionEncoder(QuestionEncoder):
    together = 1_024

    def __init__(self, parts: ReaderParts, device: torch.device, *, quick: bool = True) -> None:
        super().__init__(parts, quick=quick)
        self._questions = DeviceQuestions(parts, quick and parts.config.network.quick is not None, device)


class DeviceReader(Reader):
    """The reader of some parts whose questions and second looks are computed on a device."""

    def __init__(self, reader: Reader, device: torch.device) -> None:
        super().__init__(reader.parts, folder=reader.folder)
        self._device = device

    @cached_property
    def questions(self) -> QuestionEncoder:
        return _DeviceQuestionEncoder(self.parts, self._device)

    @cached_property
    def second_look(self) -> SecondLook | None:
        if self.parts.config.look is None:
            return None
        return SecondLook(DeviceSpans(self.parts, self._device), self.tokenizer, _PIECES)

    @cached_property
    def word_table(self) -> Tensor:
        """The vectors of word pieces `[V, w]`."""
        return torch.from_numpy(self.questions.words).to(self._device)

    def known_scores(
        self,
        bank: PhraseBank,
        places: Sequence[BankPlace],
        memories: Sequence[Memory],
        questions: Sequence[str],
    ) -> tuple[list[KnownQuery], list[Floats]]:
        """Questions, and the scores of the phrases of their memories, which are in a bank."""
        queries = bank.look_up(places, self.questions.encode(questions), self.word_table)
        scores = [
            query.scores(query.products, memory.phrases, self.questions.neighbours)
            for query, memory in zip(queries, memories, strict=True)
        ]
        return queries, scores
