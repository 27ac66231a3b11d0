"""Phrases of many documents on a device, and the networks that encode questions and look again there.

What the plain path computes for one question at a time (`QuestionEncoder`, `Reader._products`, `Query.overlap`,
`FastSpans`) is made for many, each about a document of its own, by a few operations.
"""

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.memory.memory import Floats, Memory
from attar.memory.phrases import PhraseIndex
from attar.nn.spans import SpanNetwork
from attar.reader.fast_spans import Pieces, Spans
from attar.reader.parts import ReaderParts

# Numbers that a step makes for questions that are looked up together: 1 GB.
_NUMBERS = 2**28
# Pieces, padded, that a second look reads together.
_PIECES = 2**17


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
        self._phrases = DeviceRows(device, numbers=((size,), torch.int8), scales=((), torch.float32))
        self._words = DeviceRows(device, ids=((), torch.int32), sentences=((), torch.int32))

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
        self, places: Sequence[BankPlace], asked: "EncodedOnDevice", table: Tensor
    ) -> tuple[list[Floats], list[Floats]]:
        """The products of each question with the phrases, and the word overlap with the sentences, of its document.

        `table` `[V, w]` are the vectors of word pieces, which belong to the reader.
        """
        columns = np.array(places)
        # Documents of about the same size together, the smallest first: each is padded to the largest.
        order = np.argsort(columns[:, 1] + columns[:, 3], kind="stable")
        counts = _counts_together(columns[order], table.shape[1] + 2 * asked.ids.shape[1])
        groups = np.split(order, np.cumsum(counts)[:-1])
        made = [self._look_up(columns[group], asked.at(group), table) for group in groups]
        back = np.argsort(order)
        products, overlaps = (
            _parted(torch.cat(parts).cpu().numpy(), columns[order, column], back)
            for parts, column in zip(zip(*made, strict=True), (1, 4), strict=True)
        )
        return products, overlaps

    def _look_up(
        self, places: NDArray[np.int64], asked: "EncodedOnDevice", table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The products of all questions one after another, and the overlaps."""
        columns, most = torch.from_numpy(places).to(table.device), BankPlace(*places.max(0).tolist())
        # Rows of padding belong to another document: nobody reads their products.
        rows = self._phrases.rows(columns[:, 0], most.phrase_count)
        scales = self._phrases["scales"][rows] * (asked.vectors.shape[1] ** -0.5 / 127)
        numbers = self._phrases["numbers"][rows].to(asked.vectors.dtype)
        products = torch.bmm(numbers, asked.vectors[..., None])[..., 0] * scales
        rows = self._words.rows(columns[:, 2], most.word_count)
        alike = torch.bmm(table[self._words["ids"][rows]], table[asked.ids].mT).clamp(min=0)
        # The words of padding belong to a sentence after the last.
        is_word = _first_ones(rows.shape[1], columns[:, 3])
        sentences = torch.where(is_word, self._words["sentences"][rows], most.sentences).long()
        best = alike.new_zeros(len(places), most.sentences + 1, alike.shape[2])
        best.scatter_reduce_(1, sentences[..., None].expand_as(alike), alike, "amax")
        alone = torch.bmm(best, asked.weights[..., None])[:, :-1, 0]
        return products[_first_ones(most.phrase_count, columns[:, 1])], alone[
            _first_ones(most.sentences, columns[:, 4])
        ]


def _parted(joined: Floats, sizes: NDArray[np.int64], order: NDArray[np.intp]) -> list[Floats]:
    """Parts of these sizes, in another order."""
    parts = np.split(joined, np.cumsum(sizes)[:-1])
    return [parts[at] for at in order.tolist()]


def _first_ones(count: int, sizes: Tensor) -> Tensor:
    """Whether each of `count` places is one of the first `sizes` `[B]`, `[B, count]`."""
    return torch.arange(count, device=sizes.device) < sizes[:, None]


class DeviceRows:
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
        """The numbers of `count` rows from each start on, at most the last row."""
        numbers = starts[:, None] + torch.arange(count, device=starts.device)
        return numbers.clamp(max=max(self._used - 1, 0))


def _sentences_of(index: PhraseIndex) -> NDArray[np.int32]:
    """The number of the sentence of each word."""
    counts = np.diff(index.word_starts)
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _counts_together(places: NDArray[np.int64], width: int) -> list[int]:
    """How many of documents, the smallest first, are looked up at once; a word needs `width` numbers.

    >>> _counts_together(np.array([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [2, 2**22, 2, 9, 9]]), 100)
    [2, 1]
    """
    numbers, counts, first = 80 * places[:, 1] + width * (places[:, 3] + places[:, 4]), [], 0
    while first < len(places):
        at_once = numbers[first:] * np.arange(1, len(places) - first + 1)
        counts.append(max(1, int(np.searchsorted(at_once, _NUMBERS, "right"))))
        first += counts[-1]
    return counts


class EncodedOnDevice(NamedTuple):
    """Encoded questions: word pieces `[Q, l]`, vectors `[Q, k]`, scores of "no answer" `[Q]`, weights `[Q, l]`.

    The weights of [CLS] and of padding are 0.
    """

    ids: Tensor
    vectors: Tensor
    nulls: Tensor
    weights: Tensor

    def at(self, rows: NDArray[np.intp]) -> "EncodedOnDevice":
        chosen = torch.from_numpy(rows).to(self.ids.device)
        return EncodedOnDevice(*(part[chosen] for part in self))

    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Vectors, scores and weights as arrays."""
        size = self.vectors.shape[1]
        found = torch.cat((self.vectors, self.nulls[:, None], self.weights), 1).cpu().numpy()
        return found[:, :size], found[:, size], found[:, size + 1 :]


class DeviceQuestions:
    """`QuestionEncoder.encode_pieces` on a device, in float32."""

    def __init__(self, parts: ReaderParts, device: torch.device) -> None:
        self.network = copy.deepcopy(parts.network()).to(device)
        self._quick = parts.quick()
        if self._quick is not None:
            self._quick.to(device)
        self._device = device

    @torch.inference_mode()
    def encode(self, pieces: Sequence[NDArray[Any]]) -> EncodedOnDevice:
        """Encode questions, given as word pieces with [CLS] and [SEP]."""
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(pieces))
        encoded = self.network.encode_questions(ids, mask, self._quick)
        return EncodedOnDevice(ids, encoded.queries, encoded.nulls, encoded.weights)


class DeviceSpans:
    """`FastSpans` on a device: the reader's int8 weights in bfloat16 on a GPU, in float32 on a CPU."""

    def __init__(self, parts: ReaderParts, device: torch.device) -> None:
        self._parts, self._device = parts, device
        self.longest = parts.options.encoder.positions

    @cached_property
    def _network(self) -> SpanNetwork:
        """Made when the first question is looked at again."""
        network = self._parts.look()
        assert network is not None  # its reader has a second look
        dtype = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        return network.to(self._device, dtype)

    def read(self, inputs: Sequence[Pieces]) -> list[Spans]:
        """Start and end scores and presence of each input, of at most `longest` pieces with the last [SEP]."""
        lengths = np.array([len(pieces.question) + len(pieces.text) + 1 for pieces in inputs])
        left = np.argsort(lengths, kind="stable")
        found: dict[int, Spans] = {}
        while len(left):
            # The longest first: it says how many of about its length are read together.
            count = max(1, _PIECES // int(lengths[left[-1]]))
            together, left = left[-count:].tolist(), left[:-count]
            found |= zip(together, self._read([inputs[at] for at in together]), strict=True)
        return [found[at] for at in range(len(inputs))]

    @torch.inference_mode()
    def _read(self, inputs: Sequence[Pieces]) -> list[Spans]:
        asked, sizes = (np.array([len(pieces[part]) for pieces in inputs]) for part in (0, 1))
        ends = asked + sizes
        at = np.arange(int(ends.max()) + 1)
        of_question, inside = at < asked[:, None], (at >= asked[:, None]) & (at < ends[:, None])
        ids = np.zeros(inside.shape, np.int64)
        ids[of_question], ids[inside] = (np.concatenate(part) for part in zip(*inputs, strict=True))
        ids[np.arange(len(ends)), ends] = self._parts.tokenizer.sep
        given = (ids, at <= ends[:, None], of_question.astype(np.int64), inside)
        pieces, mask, kinds, inner = (torch.from_numpy(part).to(self._device) for part in given)
        scores, present = self._network(pieces, mask, kinds, inner)
        found = torch.cat((scores[:, 0][inner], scores[:, 1][inner], present)).float().cpu().numpy()
        parts = np.split(found, np.cumsum(np.append(sizes, sizes)))
        return [
            Spans(starts, stops, float(is_there))
            for starts, stops, is_there in zip(
                parts[: len(inputs)], parts[len(inputs) : -1], parts[-1], strict=True
            )
        ]


def padded(pieces: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Word pieces `[Q, l]`, padded with 0, and where they are."""
    lengths = np.array([len(ids) for ids in pieces])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.concatenate(pieces)
    return ids, mask
