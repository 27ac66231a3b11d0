"""What a run reads: training with new questions every epoch, and the fixed questions of validation."""

import hashlib
from dataclasses import fields
from functools import cached_property

import numpy as np
import pytorch_lightning as pl
from torch.utils.data import DataLoader

from attar.cloze import EncodedSplit
from attar.progress import Progress, tell_nobody
from attar.training.batches import Batch, ClozeBatches
from attar.training.data import EpochStream, leave_out, need_splits, open_splits, workers_for
from attar.training.options import TrainingOptions
from attar.training.start import load_start
from attar.training.words import vocabulary_of

# Validation has no gradients to keep, so it takes larger batches.
WIDER = 4


class Sets(pl.LightningDataModule):
    """Training with new questions every epoch if the set has none of its own, and fixed validation."""

    def __init__(self, options: TrainingOptions, progress: Progress = tell_nobody) -> None:
        super().__init__()
        self.options = options
        # Told before minutes are spent on counting words.
        need_splits(options.data, ("training", "validation"))
        skip = leave_out if options.skip_malformed else None
        # A reader that is trained on knows its own words, and no others.
        self.vocabulary = (
            load_start(options.start).vocabulary
            if options.start
            else vocabulary_of(options.data, skip=skip, progress=progress)
        )
        self.training, self.validation = (
            open_splits(options.data, split, self.vocabulary, progress, skip)
            for split in ("training", "validation")
        )

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Of the vocabulary and of each split's documents: others after anything in them has changed."""
        return {
            "vocabulary": self.vocabulary.fingerprint,
            "training documents": fingerprint_of(self.training),
            "validation documents": fingerprint_of(self.validation),
        }

    def _batches(self, split: EncodedSplit, size: int, *, draw: bool) -> ClozeBatches:
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        return ClozeBatches(
            split,
            self.vocabulary,
            size=size,
            draw=self.options.questions if draw else 0,
            seed=self.options.seed,
            rank=rank,
            world=world,
        )

    def train_dataloader(self) -> EpochStream:
        """An epoch's batches, from the epoch that the run is in."""
        trainer = self.trainer
        assert trainer is not None
        drawn = len(self.training.answers) == 0
        batches = self._batches(self.training, self.options.batch, draw=drawn)
        on_gpu = trainer.strategy.root_device.type == "cuda"
        workers = workers_for(self.options.workers, on_gpu)
        return EpochStream(batches, epoch=lambda: trainer.current_epoch, workers=workers)

    def val_dataloader(self) -> "DataLoader[Batch]":
        """The fixed questions."""
        batches = self._batches(self.validation, WIDER * self.options.batch, draw=False)
        return DataLoader(batches, batch_size=None)


def fingerprint_of(split: EncodedSplit) -> str:
    """Of what a split's documents and questions say, wherever their set lies and whenever it was copied."""
    digest = hashlib.sha256()
    for each in fields(split)[:-1]:  # the sources' names may change with a set's place
        array = np.ascontiguousarray(getattr(split, each.name))
        digest.update(f"{each.name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
