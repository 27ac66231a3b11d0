"""Questions drawn from all documents of a split at once, and batches; seed and epoch determine both."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from attar.paper.network import Documents, Questions
from attar.paper.sets import EncodedSplit, Ids, Offsets
from attar.paper.vocabulary import FIRST_ENTITY, PLACEHOLDER

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
    document_questions: Offsets  # [D + 1], in questions


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
        key = sentence * (len(split.numbers) + 1) + self._name
        _, which, times = np.unique(key, return_inverse=True, return_counts=True)
        self._alone = times[which] == 1
        # Each sentence's first mention.
        self._starts = np.searchsorted(sentence, np.arange(len(split.sentence_starts)))
        # How often each name occurs in its document.
        self._totals = np.bincount(self._name, minlength=len(split.numbers))
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
            best = np.maximum.reduceat(draws, _offsets(stop - first))
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
        sentences, blanks = sentences[by_place], blanks[by_place]
        return DrawnQuestions(sentences, blanks, np.searchsorted(sentences, split.document_sentences))


def concatenate_ranges(starts: Offsets, stops: Offsets) -> Offsets:
    """Concatenate the ranges from each start to its stop.

    >>> concatenate_ranges(np.array([3, 9]), np.array([5, 12])).tolist()
    [3, 4, 9, 10, 11]
    """
    lengths = stops - starts
    return np.arange(int(lengths.sum())) + np.repeat(starts - _offsets(lengths), lengths)


def _offsets(lengths: Offsets) -> Offsets:
    """Where each of some concatenated ranges begins."""
    return np.cumsum(lengths) - lengths


# What the CPU reads: on a GPU, each step would wait for these.
_ON_CPU = ("lengths", "sentence_ends", "names", "counts", "indices")
# Batches prepared by all workers: enough while the next epoch's questions are drawn, and few enough for the shared
# memory of a container.
_PREFETCHED = 32


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
        moved: Batch = _map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True), _ON_CPU)
        return moved

    def pin_memory(self) -> "Batch":
        """The same in pinned memory; torch's data loader calls this in a thread of its own.

        A copy from pageable memory would wait until the GPU has finished its queue.
        """
        pinned: Batch = _map_tensors(self, Tensor.pin_memory, _ON_CPU)
        return pinned


def _map_tensors(batch: Any, change: Callable[[Tensor], Tensor], omit: Sequence[str]) -> Any:
    """A dataclass with its tensors changed, those of dataclasses in it, too."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch) if field.name not in omit}
    changed = {name: change(value) for name, value in values.items() if isinstance(value, Tensor)}
    nested = {
        name: _map_tensors(value, change, omit) for name, value in values.items() if is_dataclass(value)
    }
    return replace(batch, **changed, **nested)


class ClozeBatches(IterableDataset[Batch]):
    """Each iteration yields the batches of the next epoch.

    With `draw`, each epoch draws that many questions per document and renumbers the names. The batches depend on
    `seed` and `epoch` only, so that a resumed run continues as if it had not stopped.
    """

    def __init__(
        self, split: EncodedSplit, *, size: int = 64, draw: int = 0, seed: int = 0, epoch: int = 0
    ) -> None:
        super().__init__()
        self.split, self.size, self.count, self.seed, self.epoch = split, size, draw, seed, epoch
        self._drawer = QuestionDrawer(split) if draw else None

    def __len__(self) -> int:
        return -(-len(self.split) // self.size)

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()  # each of several workers makes its own share
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rng = np.random.default_rng([self.seed, self.epoch])
        self.epoch += 1
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
        split = self.split
        rows = list(zip(texts.starts[documents].tolist(), texts.starts[documents + 1].tolist(), strict=True))
        names = _pad(texts.names, rows, np.int32(-1))
        row, column = np.nonzero(names >= 0)
        name = names[row, column]
        count = np.diff(split.name_starts)[documents]
        numbered = np.full((len(documents), max(int(count.max(initial=0)), 1)), -1, np.int64)
        places = concatenate_ranges(split.name_starts[documents], split.name_starts[documents + 1])
        numbered[np.arange(numbered.shape[1]) < count[:, None]] = numbers[places]
        ids = _pad(texts.ids, rows, np.int64(0))
        ids[row, column] = FIRST_ENTITY + numbered[row, name]
        counts = np.bincount(row * numbered.shape[1] + name, minlength=numbered.size).reshape(numbered.shape)
        questions, answers = self._questions(documents, drawn, numbered)
        return Batch(
            Documents(
                ids=torch.from_numpy(ids),
                lengths=torch.tensor([stop - start for start, stop in rows], dtype=torch.int64),
                sentence_ends=torch.from_numpy(_pad(texts.sentence_ends, rows, np.False_)),
                names=torch.from_numpy(names),
                # A name that occurs only in held-out sentences is not a candidate.
                candidates=torch.from_numpy(np.where(counts > 0, numbered, -1)),
            ),
            questions,
            torch.from_numpy(answers.astype(np.int64)),
            torch.from_numpy(counts),
            torch.from_numpy(documents),
        )

    def _questions(
        self, documents: Offsets, drawn: DrawnQuestions | None, numbered: Offsets
    ) -> tuple[Questions, Ids]:
        split = self.split
        offered = drawn.document_questions if drawn else split.document_questions
        questions = concatenate_ranges(offered[documents], offered[documents + 1])
        per_document = offered[documents + 1] - offered[documents]
        document = np.repeat(np.arange(len(documents)), per_document)
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
        lengths = stop - first
        row = np.repeat(np.arange(len(questions)), lengths)
        ids, names = all_ids[token], all_names[token]
        if drawn is not None:
            blank = token == drawn.blanks[questions][row]
            ids[blank], names[blank] = PLACEHOLDER, -1
        named = names >= 0
        ids[named] = FIRST_ENTITY + numbered[document[row[named]], names[named]]
        asked = np.zeros((len(questions), numbered.shape[1]), np.bool_)
        asked[row[named], names[named]] = True
        padded = np.zeros((len(lengths), int(lengths.max(initial=0))), np.int64)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = ids
        within = np.arange(len(questions)) - (np.cumsum(per_document) - per_document)[document]
        most = max(int(per_document.max(initial=0)), 1)
        blanks = (padded == PLACEHOLDER).argmax(1) if padded.size else np.zeros(len(questions), np.int64)
        made = Questions(
            ids=torch.from_numpy(padded),
            lengths=torch.from_numpy(lengths),
            blanks=torch.from_numpy(blanks),
            documents=torch.from_numpy(document),
            places=torch.from_numpy(document * most + within),
            most=most,
            asked=torch.from_numpy(asked),
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
        read = np.ones(len(split.ids), np.bool_)
        read[concatenate_ranges(first, stop)] = False
        starts = np.concatenate(([0], np.cumsum(read)))[split.document_starts]
        return cls(split.ids[read], split.names[read], split.sentence_ends[read], starts)


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


def load_in_background(batches: ClozeBatches, workers: int) -> "DataLoader[Batch]":
    """The same batches, prepared by worker processes that go on from epoch to epoch; by none, in this process.

    The batches and their order do not depend on the number of workers. −1 chooses as many as keep a GPU busy: one
    prepares 10,000 documents per second, less than an H200 takes with a GRU of hidden size 100. On a CPU, training is
    slower than preparing batches in the same process.
    """
    on_gpu = torch.cuda.is_available()
    if workers < 0:
        workers = min(3, max(1, (os.cpu_count() or 1) // 4)) if on_gpu else 0
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=max(2, _PREFETCHED // workers) if workers else None,
        persistent_workers=workers > 0,
        pin_memory=on_gpu,
        # Its own: an iterator draws a number, which would shift the dropout of a resumed run.
        generator=torch.Generator(),
    )
