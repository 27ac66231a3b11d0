"""Batches of documents with their questions, of about one length each, the same for the same seed and epoch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset

from attar.cloze import DrawnQuestions, EncodedSplit, Ids, Offsets, QuestionDrawer, concatenate_ranges
from attar.nn import Documents, Questions
from attar.text import Vocabulary
from attar.training.remaining import Remaining, side_by_side


@dataclass(frozen=True)
class Batch:
    """What a step takes: documents, their questions, and which candidate answers each."""

    documents: Documents
    questions: Questions
    answers: Tensor  # [Q]
    counts: Tensor  # [B, c], how often each candidate occurs in its document
    indices: Tensor  # [B], which documents of the split these are
    share: float = 1.0  # of the whole batch's questions that are here: less than 1 if processes share it

    def to(self, device: torch.device | str) -> "Batch":
        """The same on another device."""
        return Batch(
            self.documents.to(device),
            self.questions.to(device),
            self.answers.to(device, non_blocking=True),
            self.counts,
            self.indices,
            self.share,
        )


class ClozeBatches(IterableDataset[Batch]):
    """All batches of an epoch. With `draw`, every epoch has new questions and new numbers for the names.

    Everything depends on `seed` and `epoch` only, so that training taken up again goes on as it would have.
    A process of several takes its own part of every batch.
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
        """Of the epoch's batches every so many, from the first one given: the part of one worker of several."""
        rng = np.random.default_rng([self.seed, self.epoch])
        drawn = self._drawer.draw(rng, self.count) if self._drawer else None
        numbers = shuffled_numbers(self.split, rng) if drawn else self.split.numbers
        remaining = Remaining.of(self.split, drawn)
        for documents in self.buckets(rng, shuffle=drawn is not None)[first::step]:
            yield self.assemble(documents, drawn, numbers, remaining)

    def buckets(self, rng: np.random.Generator, *, shuffle: bool) -> list[Offsets]:
        """Documents of about one length together: sorted by it, with noise so that batches differ."""
        lengths = self.split.lengths.astype(np.float64)
        if shuffle:
            lengths *= 1 + 0.05 * rng.standard_normal(len(lengths))
        order = np.argsort(lengths, kind="stable")
        batches = [order[at : at + self.size] for at in range(0, len(order), self.size)]
        return [batches[at] for at in rng.permutation(len(batches))] if shuffle else batches

    def assemble(
        self, documents: Offsets, drawn: DrawnQuestions | None, numbers: Ids, remaining: Remaining
    ) -> Batch:
        """The batch of some documents, or this process's part of it."""
        split = self.split
        offered = drawn.document_questions if drawn else split.document_questions
        whole = int((offered[documents + 1] - offered[documents]).sum())
        documents = documents[self.rank :: self.world]
        first, stop = offered[documents], offered[documents + 1]
        questions = concatenate_ranges(first, stop)
        rows = list(
            zip(remaining.starts[documents].tolist(), remaining.starts[documents + 1].tolist(), strict=True)
        )
        lengths = np.array([stop - start for start, stop in rows], np.int64)
        names = side_by_side(remaining.names, rows, np.int32(-1))
        row, column = np.nonzero(names >= 0)
        name = names[row, column]
        most_names = max(int(np.diff(split.name_starts)[documents].max(initial=0)), 1)
        numbered = np.full((len(documents), most_names), -1, np.int64)
        own = concatenate_ranges(split.name_starts[documents], split.name_starts[documents + 1])
        own_row = np.repeat(np.arange(len(documents)), np.diff(split.name_starts)[documents])
        numbered[own_row, own - split.name_starts[documents][own_row]] = numbers[own]
        ids = side_by_side(remaining.ids, rows, np.int64(0))
        ids[row, column] = self.vocabulary.first_entity + numbered[row, name]
        counts = np.bincount(row * most_names + name, minlength=numbered.size)
        counts = counts.reshape(numbered.shape)
        # A name that only held-out sentences hold is no candidate.
        candidates = np.where(counts > 0, numbered, -1)
        asked = self._questions(
            questions, np.repeat(np.arange(len(documents)), stop - first), drawn, numbered
        )
        answers = asked[1]
        return Batch(
            Documents(
                torch.from_numpy(ids),
                torch.from_numpy(lengths),
                torch.from_numpy(side_by_side(remaining.sentence_ends, rows, np.False_)),
                torch.from_numpy(names),
                torch.from_numpy(candidates),
            ),
            asked[0],
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
        place = _Padded(row, lengths)
        padded = place.fill(ids, np.int64(0))
        per_document = np.bincount(document, minlength=len(numbered))
        within = np.arange(len(questions)) - (np.cumsum(per_document) - per_document)[document]
        most = max(int(per_document.max(initial=0)), 1)
        blanks = (
            (padded == self.vocabulary.placeholder).argmax(1)
            if padded.size
            else np.zeros(len(questions), int)
        )
        return (
            Questions(
                torch.from_numpy(padded),
                torch.from_numpy(lengths),
                torch.from_numpy(blanks),
                torch.from_numpy(document),
                torch.from_numpy(document * most + within),
                most,
                torch.from_numpy(asked),
            ),
            answers,
        )


class _Padded:
    """Rows of different lengths, one behind the other, into a rectangle."""

    def __init__(self, row: Offsets, lengths: Offsets) -> None:
        self.shape = (len(lengths), int(lengths.max(initial=0)))
        column = np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
        self.at = row * self.shape[1] + column

    def fill(self, values: NDArray[Any], padding: np.generic) -> NDArray[Any]:
        padded = np.full(self.shape, padding)
        padded.reshape(-1)[self.at] = values
        return padded


def shuffled_numbers(split: EncodedSplit, rng: np.random.Generator) -> Ids:
    """Give every document's names its own numbers 0, 1, … in a random order: none of them means anything."""
    document = np.repeat(np.arange(len(split)), np.diff(split.name_starts))
    order = np.argsort(document + rng.random(len(document)))
    numbers = np.empty(len(document), np.int32)
    numbers[order] = np.arange(len(document)) - split.name_starts[document]
    return numbers
