"""The documents of the sets that a reader is trained on, together, and batches ready before a GPU asks."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from attar.errors import FormatError
from attar.text.cloze import ClozeSet
from attar.text.cloze.encoded import EncodedSplit, encode_split, open_split
from attar.text.cloze.folder_cnn import Skip
from attar.text.progress import Progress, tell_nobody
from attar.text.vocabulary import Vocabulary
from attar.training.batches import Batch, ClozeBatches

# Batches made ahead by a worker: enough to bridge the drawing of the next epoch's questions.
AHEAD = 32


def open_splits(
    data: Sequence[str | Path],
    split: str,
    vocabulary: Vocabulary,
    progress: Progress = tell_nobody,
    skip: Skip | None = None,
) -> EncodedSplit:
    """The documents of several sets' split as one; each set is one source or more.

    A malformed file is refused, or handed to `skip` and left out.
    """

    def opened(path: str | Path) -> EncodedSplit:
        if skip is None:
            return open_split(path, split, vocabulary, progress)
        # Not kept: what is kept of a set stands for all of its files.
        return encode_split(ClozeSet.open(path).documents(split, skip=skip, progress=progress), vocabulary)

    found = [opened(path) for path in data]
    return found[0] if len(found) == 1 else join(found)


def need_splits(data: Sequence[str | Path], splits: Sequence[str]) -> None:
    """Refuse sets that lack a split."""
    for path in data:
        there = ClozeSet.open(path).splits
        for split in splits:
            if split not in there:
                remedy = "build the set again, without --only" if len(there) == 1 else "build the set again"
                raise FormatError(str(path), f"a {split} split", " and ".join(there) + " only", remedy)


def leave_out(fault: FormatError) -> None:
    """Tell of a malformed file that is left out."""
    logging.getLogger("attar").warning("attar: left out %s", fault)


def join(splits: Sequence[EncodedSplit]) -> EncodedSplit:
    """Put splits one behind the other."""
    whole: dict[str, Any] = {}
    counted = {
        "document_starts": "ids",
        "sentence_starts": "ids",
        "document_sentences": "sentence_starts",
        "name_starts": "numbers",
        "question_starts": "question_ids",
        "document_questions": "question_starts",
    }
    sources = tuple(dict.fromkeys(source for split in splits for source in split.sources))
    for each in fields(EncodedSplit)[:-1]:
        parts = [getattr(split, each.name) for split in splits]
        if each.name in counted:
            ends = np.cumsum([0] + [int(part[-1]) for part in parts])
            parts = [part[(at > 0) :] + ends[at] for at, part in enumerate(parts)]
        elif each.name == "source_of":
            tables = [np.array([sources.index(s) for s in split.sources], np.int32) for split in splits]
            parts = [table[part] for table, part in zip(tables, parts, strict=True)]
        whole[each.name] = np.concatenate(parts)
    return EncodedSplit(**whole, sources=sources)


class _Onward(IterableDataset[Batch]):
    """Epoch after epoch without a pause."""

    def __init__(self, batches: ClozeBatches, epoch: int) -> None:
        super().__init__()
        self.batches, self.epoch = batches, epoch

    def __iter__(self) -> Iterator[Batch]:
        while True:
            self.batches.epoch = self.epoch
            yield from self.batches
            self.epoch += 1


class EpochStream:
    """One epoch's batches each time it is iterated, made ahead by a worker that does not stop between them.

    `epoch` tells the first one when it begins: a run that is taken up again knows it only then.
    """

    def __init__(self, batches: ClozeBatches, *, epoch: Callable[[], int] = int, workers: int = 1) -> None:
        self.batches, self._epoch = batches, epoch
        # More than one worker would each make every batch: the stream is one, and one is quick enough.
        self._workers = min(workers, 1)
        self._running: Iterator[Batch] | None = None

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        if self._running is None:
            onward, ahead = _Onward(self.batches, self._epoch()), AHEAD if self._workers else None
            loader = DataLoader(
                onward,
                batch_size=None,
                num_workers=self._workers,
                prefetch_factor=ahead,
                # Its own: an iterator draws a number when it is made, which would shift a resumed run's dropout.
                generator=torch.Generator(),
            )
            self._running = iter(loader)
        # A generator, so that the epoch is asked for with the first batch: Lightning knows it only after `iter`.
        yield from islice(self._running, len(self))

    def close(self) -> None:
        """Let the worker go."""
        self._running = None
