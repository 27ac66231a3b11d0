"""Batches of documents of similar length with their questions; seed and epoch determine them.

`pack` and `unpack` move a batch between processes as one tensor in shared memory. Each tensor that is sent alone
costs a file and a handshake: fourteen took 5 to 10 ms per batch of 512, one takes 2 to 4 (decisions.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset

from attar.cloze.encoded import EncodedSplit, Ids, Offsets
from attar.cloze.questions import DrawnQuestions, QuestionDrawer, concatenate_ranges
from attar.nn.network import Documents, Questions
from attar.text.vocabulary import Vocabulary

# Every packed tensor begins at a multiple of this many bytes, so that it can be viewed in any dtype.
_ALIGNMENT = 16

_Part = tuple[torch.dtype, tuple[int, ...]]


@dataclass(frozen=True)
class Batch:
    """The input of one step: documents, their questions, and the candidate that answers each question."""

    documents: Documents
    questions: Questions
    answers: Tensor  # [Q], index of the candidate
    counts: Tensor  # [B, c], occurrences of each candidate in its document
    indices: Tensor  # [B], index of each document in the split
    share: float = 1.0  # of the whole batch's questions: less than 1 if several processes share the batch

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device; counts and indices stay on the CPU."""
        return replace(
            self,
            documents=self.documents.to(device),
            questions=self.questions.to(device),
            answers=self.answers.to(device, non_blocking=True),
        )


class ClozeBatches(IterableDataset[Batch]):
    """All batches of an epoch. With `draw`, each epoch draws that many questions per document and renumbers the names.

    The batches depend on `seed` and `epoch` only, so that a resumed run continues as if it had not stopped.
    Process `rank` of `world` takes its own part of every batch.
    """

    def __init__(
        self,
        split: EncodedSplit,
        vocabulary: Vocabulary,
        *,
        size: int = 64,
        draw: int = 0,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__()
        self.split, self.vocabulary = split, vocabulary
        self.size, self.count, self.seed = size, draw, seed
        self.rank, self.world = rank, world
        self.epoch = 0
        self._drawer = QuestionDrawer(split) if draw else None

    def __len__(self) -> int:
        return -(-len(self.split) // self.size)

    def __iter__(self) -> Iterator[Batch]:
        return self.every(1)

    def every(self, step: int, first: int = 0) -> Iterator[Batch]:
        """Yield every `step`-th batch of the epoch, starting at `first`: the share of one of several workers."""
        rng = np.random.default_rng([self.seed, self.epoch])
        drawn = self._drawer.draw(rng, self.count) if self._drawer else None
        numbers = _shuffled_numbers(self.split, rng) if drawn else self.split.numbers
        texts = _Texts.without(self.split, drawn)
        for documents in self.buckets(rng, shuffle=drawn is not None)[first::step]:
            yield self._assemble(documents, drawn, numbers, texts)

    def buckets(self, rng: np.random.Generator, *, shuffle: bool) -> list[Offsets]:
        """Documents of similar length per batch: sorted by length, with noise so that batches differ."""
        lengths = self.split.lengths.astype(np.float64)
        if shuffle:
            lengths *= 1 + 0.05 * rng.standard_normal(len(lengths))
        order = np.argsort(lengths, kind="stable")
        batches = [order[at : at + self.size] for at in range(0, len(order), self.size)]
        return [batches[at] for at in rng.permutation(len(batches))] if shuffle else batches

    def _assemble(
        self, documents: Offsets, drawn: DrawnQuestions | None, numbers: Ids, texts: "_Texts"
    ) -> Batch:
        """The batch of some documents, or this process's part of it."""
        split = self.split
        offered = drawn.document_questions if drawn else split.document_questions
        whole = int((offered[documents + 1] - offered[documents]).sum())
        documents = documents[self.rank :: self.world]
        first, stop = offered[documents], offered[documents + 1]
        questions = concatenate_ranges(first, stop)
        rows = list(zip(texts.starts[documents].tolist(), texts.starts[documents + 1].tolist(), strict=True))
        lengths = np.array([stop - start for start, stop in rows], np.int64)
        names = _pad(texts.names, rows, np.int32(-1))
        row, column = np.nonzero(names >= 0)
        name = names[row, column]
        most_names = max(int(np.diff(split.name_starts)[documents].max(initial=0)), 1)
        numbered = np.full((len(documents), most_names), -1, np.int64)
        own = concatenate_ranges(split.name_starts[documents], split.name_starts[documents + 1])
        own_row = np.repeat(np.arange(len(documents)), np.diff(split.name_starts)[documents])
        numbered[own_row, own - split.name_starts[documents][own_row]] = numbers[own]
        ids = _pad(texts.ids, rows, np.int64(0))
        ids[row, column] = self.vocabulary.first_entity + numbered[row, name]
        counts = np.bincount(row * most_names + name, minlength=numbered.size).reshape(numbered.shape)
        # A name that occurs only in held-out sentences is not a candidate.
        candidates = np.where(counts > 0, numbered, -1)
        document = np.repeat(np.arange(len(documents)), stop - first)
        asked, answers = self._questions(questions, document, drawn, numbered)
        ends = _pad(texts.sentence_ends, rows, np.False_)
        return Batch(
            Documents(*map(torch.from_numpy, (ids, lengths, ends, names, candidates))),
            asked,
            torch.from_numpy(answers.astype(np.int64)),
            torch.from_numpy(counts),
            torch.from_numpy(documents),
            len(questions) / max(whole, 1),
        )

    def _questions(
        self, questions: Offsets, document: Offsets, drawn: DrawnQuestions | None, numbered: Offsets
    ) -> tuple[Questions, Ids]:
        """The questions of documents, and their answers."""
        split = self.split
        if drawn is None:
            all_ids, all_names, starts = split.question_ids, split.question_names, split.question_starts
            first, stop = starts[questions], starts[questions + 1]
            answers = split.answers[questions]
        else:
            sentences = drawn.sentences[questions]
            all_ids, all_names = split.ids, split.names
            first, stop = split.sentence_starts[sentences], split.sentence_starts[sentences + 1]
            answers = split.names[drawn.blanks[questions]]
        token = concatenate_ranges(first, stop)
        row = np.repeat(np.arange(len(questions)), stop - first)
        ids, names = all_ids[token], all_names[token]
        if drawn is not None:
            blank = token == drawn.blanks[questions][row]
            ids[blank], names[blank] = self.vocabulary.placeholder, -1
        named = names >= 0
        ids[named] = self.vocabulary.first_entity + numbered[document[row[named]], names[named]]
        asked = np.zeros((len(questions), numbered.shape[1]), np.bool_)
        asked[row[named], names[named]] = True
        lengths = stop - first
        padded = np.zeros((len(lengths), int(lengths.max(initial=0))), np.int64)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = ids
        per_document = np.bincount(document, minlength=len(numbered))
        within = np.arange(len(questions)) - (np.cumsum(per_document) - per_document)[document]
        most = max(int(per_document.max(initial=0)), 1)
        blanks = np.zeros(len(questions), np.int64)
        if padded.size:
            blanks = (padded == self.vocabulary.placeholder).argmax(1)
        made = Questions(
            torch.from_numpy(padded),
            torch.from_numpy(lengths),
            torch.from_numpy(blanks),
            torch.from_numpy(document),
            torch.from_numpy(document * most + within),
            most,
            torch.from_numpy(asked),
        )
        return made, answers


@dataclass(frozen=True)
class _Texts:
    """The tokens of a split's documents that are read in an epoch: all but the sentences drawn as questions."""

    ids: Ids
    names: Ids
    sentence_ends: NDArray[np.bool_]
    starts: Offsets  # [D + 1], in tokens

    @classmethod
    def without(cls, split: EncodedSplit, drawn: DrawnQuestions | None) -> "_Texts":
        """Remove the drawn sentences from the whole split at once, so that a batch consists of slices."""
        if drawn is None:
            return cls(split.ids, split.names, split.sentence_ends, split.document_starts)
        first, stop = split.sentence_starts[drawn.sentences], split.sentence_starts[drawn.sentences + 1]
        kept = np.ones(len(split.ids), np.bool_)
        kept[concatenate_ranges(first, stop)] = False
        document = np.repeat(np.arange(len(split)), np.diff(drawn.document_questions))
        left = split.lengths - np.bincount(document, stop - first, len(split)).astype(np.int64)
        starts = np.concatenate(([0], np.cumsum(left)))
        return cls(split.ids[kept], split.names[kept], split.sentence_ends[kept], starts)


def _pad(values: NDArray[Any], rows: Sequence[tuple[int, int]], padding: np.generic) -> NDArray[Any]:
    """Slices of an array as the rows of a padded matrix.

    >>> _pad(np.arange(9), [(0, 2), (5, 8)], np.int64(-1)).tolist()
    [[0, 1, -1], [5, 6, 7]]
    """
    padded = np.full((len(rows), max((stop - start for start, stop in rows), default=0)), padding)
    for row, (start, stop) in zip(padded, rows, strict=True):
        row[: stop - start] = values[start:stop]
    return padded


def _shuffled_numbers(split: EncodedSplit, rng: np.random.Generator) -> Ids:
    """Number each document's names 0, 1, … in a random order, so that no number carries a meaning."""
    document = np.repeat(np.arange(len(split)), np.diff(split.name_starts))
    order = np.argsort(document + rng.random(len(document)))
    numbers = np.empty(len(document), np.int32)
    numbers[order] = np.arange(len(document)) - split.name_starts[document]
    return numbers


@dataclass(frozen=True)
class PackedBatch:
    """The bytes of a batch's tensors, and the dtype and shape of each."""

    bytes: Tensor
    parts: tuple[_Part, ...]
    most: int
    share: float

    def pin_memory(self) -> "PackedBatch":
        """The same in pinned memory; torch's data loader calls this in a thread of its own.

        A copy from pageable memory would wait until the GPU has finished its queue.
        """
        return replace(self, bytes=self.bytes.pin_memory())


def pack(batch: Batch) -> PackedBatch:
    """Copy a batch's tensors into one tensor in shared memory."""
    documents, questions = batch.documents, batch.questions
    tensors = [
        *(documents.ids, documents.lengths, documents.sentence_ends, documents.names, documents.candidates),
        *(questions.ids, questions.lengths, questions.blanks, questions.documents, questions.places),
        *(questions.asked, batch.answers, batch.counts, batch.indices),
    ]
    parts = tuple((tensor.dtype, tuple(tensor.shape)) for tensor in tensors)
    whole = torch.empty(sum(map(_aligned_bytes, parts)), dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]
    for tensor, view in zip(tensors, _views(whole, parts), strict=True):
        view.copy_(tensor)
    return PackedBatch(whole, parts, questions.most, batch.share)


def unpack(packed: PackedBatch) -> Batch:
    """The batch as views of the packed bytes."""
    tensors = _views(packed.bytes, packed.parts)
    ids, lengths, blanks, documents, places, asked, answers, counts, indices = tensors[5:]
    questions = Questions(ids, lengths, blanks, documents, places, packed.most, asked)
    return Batch(Documents(*tensors[:5]), questions, answers, counts, indices, packed.share)


def _aligned_bytes(part: _Part) -> int:
    """The bytes of a tensor, rounded up to the alignment.

    >>> _aligned_bytes((torch.int32, (3, 2))), _aligned_bytes((torch.bool, (1,)))
    (32, 16)
    """
    dtype, shape = part
    return -(-dtype.itemsize * prod(shape) // _ALIGNMENT) * _ALIGNMENT


def _views(whole: Tensor, parts: tuple[_Part, ...]) -> list[Tensor]:
    """Each tensor as a view of the bytes."""
    views, start = [], 0
    for dtype, shape in parts:
        own = whole[start : start + dtype.itemsize * prod(shape)]
        views.append(own.view(dtype).view(shape))
        start += _aligned_bytes((dtype, shape))
    return views
