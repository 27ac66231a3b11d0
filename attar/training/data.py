"""The documents of the sets that a reader is trained on, together, and batches ready before a GPU asks."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from attar.cloze import ClozeSet, EncodedSplit, OnMalformed, open_split
from attar.errors import FormatError
from attar.progress import Progress, tell_nobody
from attar.text import Vocabulary
from attar.training.batches import Batch, ClozeBatches
from attar.training.packing import PackedBatch, pack, unpack

# Batches made ahead by all workers: enough to bridge the drawing of the next epoch's questions, and not so many
# that they fill the shared memory of a container.
AHEAD = 32


def open_splits(
    data: Sequence[str | Path],
    split: str,
    vocabulary: Vocabulary,
    progress: Progress = tell_nobody,
    skip: OnMalformed | None = None,
) -> EncodedSplit:
    """The documents of several sets' split as one; each set is one source or more.

    A malformed file is refused, or handed to `skip` and left out.
    """
    found = [open_split(path, split, vocabulary, progress, skip) for path in data]
    return found[0] if len(found) == 1 else join(found)


def need_splits(data: Sequence[str | Path], splits: Sequence[str]) -> None:
    """Refuse sets that lack a split."""
    for path in data:
        there = ClozeSet.open(path).splits
        for split in splits:
            if split not in there:
                remedy = "build the set again, from more texts and without --only"
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


class _Onward(IterableDataset[Batch | PackedBatch]):
    """Epoch after epoch without a pause; of several workers each makes its turn's batches only."""

    def __init__(self, batches: ClozeBatches, epoch: int) -> None:
        super().__init__()
        self.batches, self.epoch = batches, epoch

    def __iter__(self) -> Iterator[Batch | PackedBatch]:
        worker = get_worker_info()
        own, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        made = 0
        while True:
            self.batches.epoch = self.epoch
            # The loader asks its workers in turn, and goes on with the next one where an epoch ended.
            for batch in self.batches.every(workers, (own - made) % workers):
                yield batch if worker is None else pack(batch)
            made += len(self.batches)
            self.epoch += 1


class EpochStream:
    """One epoch's batches each time it is iterated, made ahead by workers that do not stop between them.

    The batches and their order are the same for any number of workers. `epoch` tells the first one when it
    begins: a run that is taken up again knows it only then.
    """

    def __init__(self, batches: ClozeBatches, *, epoch: Callable[[], int] = int, workers: int = 1) -> None:
        self.batches, self._epoch, self._workers = batches, epoch, workers
        self._running: Iterator[Batch | PackedBatch] | None = None

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        if self._running is None:
            onward = _Onward(self.batches, self._epoch())
            ahead = max(2, AHEAD // self._workers) if self._workers else None
            loader = DataLoader(
                onward,
                batch_size=None,
                num_workers=self._workers,
                prefetch_factor=ahead,
                pin_memory=bool(self._workers) and torch.cuda.is_available(),
                # Its own: an iterator draws a number when it is made, which would shift a resumed run's dropout.
                generator=torch.Generator(),
            )
            self._running = iter(loader)
        # A generator, so that the epoch is asked for with the first batch: Lightning knows it only after `iter`.
        for batch in islice(self._running, len(self)):
            yield unpack(batch) if isinstance(batch, PackedBatch) else batch

    def close(self) -> None:
        """Let the workers go."""
        self._running = None


def workers_for(asked: int, on_gpu: bool) -> int:
    """How many processes make batches: as asked, or for −1 what keeps a GPU busy.

    One makes 10,000 documents a second; a GRU of 100 numbers on an H200 takes more. A CPU trains more slowly
    than one process makes batches on the side.
    """
    if asked >= 0:
        return asked
    return min(3, max(1, (os.cpu_count() or 1) // 4)) if on_gpu else 0
