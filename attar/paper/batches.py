"""Questions drawn from all documents of a split at once, and batches; seed and epoch determine both."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from attar.paper.network import Documents, Questions
from attar.paper.sets import EncodedSplit, Offsets
from attar.paper.words import FIRST_ENTITY, PLACEHOLDER

# Shorter sentences say too little about the name ("said @placeholder ."), longer ones are rarely sentences.
_SHORTEST = 6
_LONGEST = 80
# At most one sentence in four is held out, so that a short document keeps its facts.
_ONE_IN = 4


@dataclass(frozen=True)
class DrawnQuestions:
    """The held-out sentences of a split, in order, and the blanked token of each."""

    sentences: Offsets  # [Q]
    blanks: Offsets  # [Q], the token


class QuestionDrawer:
    """Draws questions from all documents of a split: sentences held out, with one name blanked.

    The name occurs in the sentence once, and in the rest of the document as well.
    """

    def __init__(self, split: EncodedSplit) -> None:
        self.split = split
        # The mentions of names: token, name, whether the only one of its name in its sentence.
        self._token = np.flatnonzero(split.names >= 0)
        sentence = np.searchsorted(split.sentence_starts, self._token, "right") - 1
        document = np.searchsorted(split.document_starts, self._token, "right") - 1
        self._name = split.name_starts[document] + split.names[self._token]
        names = int(split.name_starts[-1])
        key = sentence * (names + 1) + self._name
        _, which, times = np.unique(key, return_inverse=True, return_counts=True)
        self._alone = times[which] == 1
        # Each sentence's first mention.
        self._starts = np.searchsorted(sentence, np.arange(len(split.sentence_starts)))
        # How often each name occurs in its document.
        self._totals = np.bincount(self._name, minlength=names)
        # The sentences with a name to blank.
        lengths = np.diff(split.sentence_starts)
        possible = np.concatenate(([0], np.cumsum(self._alone & (self._totals[self._name] > 1))))
        has_blank = possible[self._starts[1:]] > possible[self._starts[:-1]]
        self._askable = np.flatnonzero((lengths >= _SHORTEST) & (lengths <= _LONGEST) & has_blank)

    def draw(self, rng: np.random.Generator, count: int) -> DrawnQuestions:
        """Choose at most `count` sentences per document, and which mention of each to blank.

        Every document tries its sentences in a random order; in each round all documents try their next one.
        A held-out sentence removes its mentions, so each try is checked against those before it.
        """
        split, askable, name = self.split, self._askable, self._name
        document = np.searchsorted(split.document_sentences, askable, "right") - 1
        order = askable[np.lexsort((rng.random(len(askable)), document))]
        bounds = np.searchsorted(document, np.arange(len(split) + 1))
        at, last = bounds[:-1].copy(), bounds[1:]
        room = np.minimum(count, np.maximum(1, np.diff(split.document_sentences) // _ONE_IN))
        left, answers = self._totals.copy(), np.zeros(len(self._totals), np.bool_)
        chosen, blanked = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        trying = np.flatnonzero((at < last) & (room > 0))
        while len(trying):
            sentence = order[at[trying]]
            first, stop = self._starts[sentence], self._starts[sentence + 1]
            mention = concatenate_ranges(first, stop)
            row = np.repeat(np.arange(len(trying)), stop - first)
            np.subtract.at(left, name[mention], 1)
            remains = left[name[mention]] > 0
            # The blanked name must remain elsewhere, and so must the answers to questions drawn before.
            draws = np.where(remains & self._alone[mention], rng.random(len(mention)), -1.0)
            best = np.maximum.reduceat(draws, _starts(stop - first)[:-1])
            blocked = np.zeros(len(trying), np.bool_)
            blocked[row[answers[name[mention]] & ~remains]] = True
            taken = (best >= 0) & ~blocked
            blank = mention[(draws == best[row]) & taken[row]]
            np.add.at(left, name[mention[~taken[row]]], 1)
            answers[name[blank]] = True
            chosen.append(sentence[taken])
            blanked.append(self._token[blank])
            room[trying[taken]] -= 1
            at[trying] += 1
            trying = trying[(at[trying] < last[trying]) & (room[trying] > 0)]
        sentences, blanks = np.concatenate(chosen), np.concatenate(blanked)
        by_place = np.argsort(sentences)
        return DrawnQuestions(sentences[by_place], blanks[by_place])


def hold_out(split: EncodedSplit, drawn: DrawnQuestions) -> EncodedSplit:
    """The split with the drawn sentences as its questions, and without them in its documents."""
    first, stop = split.sentence_starts[drawn.sentences], split.sentence_starts[drawn.sentences + 1]
    token = concatenate_ranges(first, stop)
    question_ids, question_names = split.ids[token], split.names[token]
    blank = np.searchsorted(token, drawn.blanks)
    question_ids[blank], question_names[blank] = PLACEHOLDER, -1
    read, kept = np.ones(len(split.ids), np.bool_), np.ones(len(split.sentence_starts) - 1, np.bool_)
    read[token], kept[drawn.sentences] = False, False
    return replace(
        split,
        ids=split.ids[read],
        names=split.names[read],
        document_starts=_starts(read)[split.document_starts],
        sentence_starts=_starts(np.diff(split.sentence_starts)[kept]),
        document_sentences=_starts(kept)[split.document_sentences],
        question_ids=question_ids,
        question_names=question_names,
        question_starts=_starts(stop - first),
        document_questions=np.searchsorted(drawn.sentences, split.document_sentences),
        answers=split.names[drawn.blanks],
    )


def concatenate_ranges(starts: Offsets, stops: Offsets) -> Offsets:
    """Concatenate the ranges from each start to its stop.

    >>> concatenate_ranges(np.array([3, 9]), np.array([5, 12])).tolist()
    [3, 4, 9, 10, 11]
    """
    lengths = stops - starts
    return np.arange(int(lengths.sum())) + np.repeat(starts - _starts(lengths)[:-1], lengths)


def _starts(lengths: NDArray[Any]) -> Offsets:
    """Where each of some concatenated ranges begins, and where the last one ends.

    >>> _starts(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    return np.concatenate(([0], np.cumsum(lengths)))


# What the CPU reads: on a GPU, each step would wait for these.
_ON_CPU = ("lengths", "names", "counts", "indices")


@dataclass(frozen=True)
class Batch:
    """The input of one step: documents, their questions, and the candidate that answers each question."""

    documents: Documents
    questions: Questions
    answers: Tensor  # [Q], index of the candidate
    counts: Tensor  # [B, c], occurrences of each candidate in its document
    indices: Tensor  # [B], index of each document in the split

    def to(self, device: torch.device | str) -> "Batch":
        """The same with all that is computed with on another device."""
        moved: Batch = _map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))
        return moved

    def pin_memory(self) -> "Batch":
        """The same in pinned memory, for torch's data loader: other copies wait until the GPU's queue is done."""
        pinned: Batch = _map_tensors(self, Tensor.pin_memory)
        return pinned


def _map_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A dataclass with its tensors changed, and those of dataclasses in it, except those for the CPU."""
    changed: dict[str, Any] = {}
    for field in fields(batch):
        value = getattr(batch, field.name)
        if is_dataclass(value):
            changed[field.name] = _map_tensors(value, change)
        elif isinstance(value, Tensor) and field.name not in _ON_CPU:
            changed[field.name] = change(value)
    return replace(batch, **changed)


class ClozeBatches(IterableDataset[Batch]):
    """Each iteration yields the batches of the next epoch.

    With `shuffle`, each epoch shuffles documents and renumbers names; with `draw`, it draws that many questions per
    document. The batches depend on `seed` and `epoch` only, so that a resumed run continues as if it had not stopped.
    """

    def __init__(
        self, split: EncodedSplit, *, size: int = 64, shuffle: bool = False, draw: int = 0, seed: int = 0
    ) -> None:
        super().__init__()
        self.split, self.size, self.shuffle, self.draw, self.seed = split, size, shuffle, draw, seed
        self.epoch = 0
        self._drawer = QuestionDrawer(split) if draw else None

    def __len__(self) -> int:
        return -(-len(self.split) // self.size)

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()  # each of several workers makes its own share
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rng = np.random.default_rng([self.seed, self.epoch])
        self.epoch += 1
        split = hold_out(self.split, self._drawer.draw(rng, self.draw)) if self._drawer else self.split
        numbers = _number_names(split, rng if self.shuffle else None)
        for documents in self._buckets(rng)[first::step]:
            yield assemble(split, numbers, documents)

    def _buckets(self, rng: np.random.Generator) -> list[Offsets]:
        """Documents of similar length per batch: sorted by length, with noise so that batches differ."""
        lengths = self.split.lengths.astype(np.float64)
        if self.shuffle:
            lengths *= 1 + 0.05 * rng.standard_normal(len(lengths))
        order = np.argsort(lengths, kind="stable")
        batches = [order[at : at + self.size] for at in range(0, len(order), self.size)]
        return [batches[at] for at in rng.permutation(len(batches))] if self.shuffle else batches


def assemble(split: EncodedSplit, all_numbers: Offsets, documents: Offsets) -> Batch:
    """The batch of some documents of a split, whose names have these numbers [N]."""

    def of_documents(values: NDArray[Any], starts: Offsets, padding: int) -> NDArray[Any]:
        return _padded(values, starts[documents], starts[documents + 1], padding)

    ids = of_documents(split.ids, split.document_starts, 0)
    names = of_documents(split.names, split.document_starts, -1)
    numbers = of_documents(all_numbers, split.name_starts, -1)
    row, column = np.nonzero(names >= 0)
    name = names[row, column]
    ids[row, column] = FIRST_ENTITY + numbers[row, name]
    counts = np.bincount(row * numbers.shape[1] + name, minlength=numbers.size).reshape(numbers.shape)
    question = concatenate_ranges(
        split.document_questions[documents], split.document_questions[documents + 1]
    )
    return Batch(
        Documents(
            ids=torch.from_numpy(ids),
            lengths=torch.from_numpy(np.diff(split.document_starts)[documents]),
            names=torch.from_numpy(names),
            # A name that occurs only in held-out sentences is not a candidate.
            candidates=torch.from_numpy(np.where(counts > 0, numbers, -1)),
        ),
        _assemble_questions(split, question, np.diff(split.document_questions)[documents], numbers),
        torch.from_numpy(split.answers[question].astype(np.int64)),
        torch.from_numpy(counts),
        torch.from_numpy(documents),
    )


def _assemble_questions(
    split: EncodedSplit, question: Offsets, per_document: Offsets, numbers: Offsets
) -> Questions:
    first, stop = split.question_starts[question], split.question_starts[question + 1]
    document = np.repeat(np.arange(len(per_document)), per_document)
    ids = _padded(split.question_ids, first, stop, 0)
    names = _padded(split.question_names, first, stop, -1)
    row, column = np.nonzero(names >= 0)
    name = names[row, column]
    ids[row, column] = FIRST_ENTITY + numbers[document[row], name]
    asked = np.zeros((len(question), numbers.shape[1]), np.bool_)
    asked[row, name] = True
    within = np.arange(len(question)) - _starts(per_document)[document]
    most = max(int(per_document.max(initial=0)), 1)
    return Questions(
        ids=torch.from_numpy(ids),
        lengths=torch.from_numpy(stop - first),
        documents=torch.from_numpy(document),
        places=torch.from_numpy(document * most + within),
        most=most,
        asked=torch.from_numpy(asked),
    )


def _padded(values: NDArray[Any], starts: Offsets, stops: Offsets, padding: int) -> Offsets:
    """Ranges of an array as the rows of a padded matrix, at least one column wide.

    >>> _padded(np.arange(9), np.array([0, 5]), np.array([2, 8]), -1).tolist()
    [[0, 1, -1], [5, 6, 7]]
    """
    lengths = stops - starts
    padded = np.full((len(lengths), max(int(lengths.max(initial=0)), 1)), padding, np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = values[concatenate_ranges(starts, stops)]
    return padded


def _number_names(split: EncodedSplit, rng: np.random.Generator | None) -> Offsets:
    """Number each document's names 0, 1, …; with `rng` in a random order, so that no number carries a meaning."""
    document = np.repeat(np.arange(len(split)), np.diff(split.name_starts))
    numbers: Offsets = np.arange(len(document)) - split.name_starts[document]
    if rng is not None:
        numbers[np.argsort(document + rng.random(len(document)))] = numbers.copy()
    return numbers


def load_in_background(batches: ClozeBatches, workers: int) -> "DataLoader[Batch]":
    """The same batches, prepared by worker processes that go on from epoch to epoch; by none, in this process.

    The batches and their order do not depend on the number of workers.
    """
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=8 if workers else None,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
        # Its own: an iterator draws a number, which would shift the dropout of a resumed run.
        generator=torch.Generator(),
    )
