"""The data of a run: the splits of several cloze sets as one, their vocabulary, and batches prepared in advance."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from attar.cloze.cnn import OnMalformed
from attar.cloze.encoded import EncodedSplit, Offsets, open_split
from attar.cloze.sets import VOCABULARY_FILE, ClozeSet
from attar.errors import FormatError
from attar.files import atomic_file
from attar.progress import Progress, ignore_progress
from attar.reader.files import SavedReader, load_reader
from attar.reader.folders import SHIPPED
from attar.text.vocabulary import ENTITIES, Vocabulary
from attar.training.batches import Batch, ClozeBatches, PackedBatch, pack, unpack
from attar.training.options import TrainingOptions
from attar.training.run_folder import check_writable

# Batches prepared by all workers: enough while the next epoch's questions are drawn, and few enough for the
# shared memory of a container.
_PREFETCHED = 32
# Validation keeps no gradients, so its batches are larger.
_VALIDATION_BATCHES = 4
_CACHE, _CACHE_KEY = "encoded", "tokenizer.note"


def open_splits(
    data: Sequence[str | Path],
    split: str,
    vocabulary: Vocabulary,
    progress: Progress = ignore_progress,
    skip: OnMalformed | None = None,
) -> EncodedSplit:
    """One split of several sets, joined. A malformed file is refused, or passed to `skip` and skipped."""
    parts = [open_split(path, split, vocabulary, progress, skip) for path in data]
    return parts[0] if len(parts) == 1 else _join(parts)


def check_splits(data: Sequence[str | Path], splits: Sequence[str]) -> None:
    """Refuse sets that lack a split."""
    for path in data:
        present = ClozeSet.open(path).splits
        for split in splits:
            if split not in present:
                remedy = "build the set again, from more texts and without --only"
                raise FormatError.expected(
                    str(path), f"a {split} split", " and ".join(present) + " only", remedy
                )


def warn_skipped(fault: FormatError) -> None:
    """Log a warning about a malformed file that is skipped."""
    logging.getLogger("attar").warning("attar: skipped %s", fault)


def _join(splits: Sequence[EncodedSplit]) -> EncodedSplit:
    """Concatenate splits."""
    whole: dict[str, Any] = {}
    sources = tuple(dict.fromkeys(source for split in splits for source in split.sources))
    for each in fields(EncodedSplit)[:-1]:
        parts = [getattr(split, each.name) for split in splits]
        if each.type == Offsets:
            ends = np.cumsum([0] + [int(part[-1]) for part in parts])
            parts = [part[(at > 0) :] + ends[at] for at, part in enumerate(parts)]
        elif each.name == "source_of":
            tables = [np.array([sources.index(s) for s in split.sources], np.int32) for split in splits]
            parts = [table[part] for table, part in zip(tables, parts, strict=True)]
        whole[each.name] = np.concatenate(parts)
    return EncodedSplit(**whole, sources=sources)


def shared_vocabulary(
    data: Sequence[str | Path], *, skip: OnMalformed | None = None, progress: Progress = ignore_progress
) -> Vocabulary:
    """The vocabulary that sets share; if none of them has one, it is built from their first splits and cached.

    Malformed files are skipped silently if `skip` is given: whoever opens the splits reports them.
    """
    sets = [ClozeSet.open(path) for path in data]
    known = {vocabulary.fingerprint: vocabulary for each in sets if (vocabulary := each.vocabulary)}
    if len(known) > 1:
        raise FormatError.expected(
            ", ".join(map(str, data)),
            "sets of one vocabulary",
            f"{len(known)} vocabularies",
            "build the later ones with attar cloze build --vocabulary FIRST/tokenizer.json",
        )
    if known:
        return next(iter(known.values()))
    folder = sets[0].path / _CACHE
    # Without `skip` a malformed file must be refused again, so the two cases have different keys.
    sources = " ".join([*(each.fingerprint(each.splits[0]) for each in sets), "skip" if skip else "refuse"])
    vocabulary = _load_vocabulary(folder, sources)
    if vocabulary is None:
        vocabulary = _build_vocabulary(sets, skip, progress)
        _save_vocabulary(vocabulary, folder, sources)
    return vocabulary


def _build_vocabulary(sets: Sequence[ClozeSet], skip: OnMalformed | None, progress: Progress) -> Vocabulary:
    """The words of the first splits' documents and questions."""
    highest = ENTITIES - 1

    def texts() -> Iterator[str]:
        nonlocal highest
        silent = None if skip is None else lambda fault: None
        for each in sets:
            for document in each.documents(each.splits[0], on_malformed=silent, progress=progress):
                highest = max(highest, max(document.names, default=0))
                questions = (question.tokens for question in document.questions)
                yield "\n".join(" ".join(sentence) for sentence in [*document.sentences, *questions])

    built = Vocabulary.build(texts(), marked=True)
    return Vocabulary(built.words, built.capitals, highest + 1)


def _load_vocabulary(folder: Path, sources: str) -> Vocabulary | None:
    """The cached vocabulary, if it is undamaged and was built from the same texts."""
    try:
        vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
        key = (folder / _CACHE_KEY).read_text(encoding="utf-8")
    except (FormatError, OSError, UnicodeDecodeError):
        return None
    return vocabulary if key == _cache_key(vocabulary, sources) else None


def _save_vocabulary(vocabulary: Vocabulary, folder: Path, sources: str) -> None:
    files = {VOCABULARY_FILE: vocabulary.to_bytes(), _CACHE_KEY: _cache_key(vocabulary, sources).encode()}
    # In a read-only folder the vocabulary is built every time.
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            with atomic_file(folder / name) as partial:
                partial.write_bytes(data)


def _cache_key(vocabulary: Vocabulary, sources: str) -> str:
    """Names both, so that a run that was killed between the two files leaves no valid pair."""
    return f"{sources} {vocabulary.fingerprint}\n"


class _AllEpochs(IterableDataset[Batch | PackedBatch]):
    """Epoch after epoch without a pause; each of several workers makes its own share of the batches."""

    def __init__(self, batches: ClozeBatches, epoch: int) -> None:
        super().__init__()
        self.batches, self.epoch = batches, epoch

    def __iter__(self) -> Iterator[Batch | PackedBatch]:
        worker = get_worker_info()
        own, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        made = 0
        while True:
            self.batches.epoch = self.epoch
            # The loader asks its workers in turn, also across the end of an epoch.
            for batch in self.batches.every(workers, (own - made) % workers):
                yield batch if worker is None else pack(batch)
            made += len(self.batches)
            self.epoch += 1


class EpochStream:
    """The batches of the next epoch on each iteration, prepared by workers that do not stop between epochs.

    The batches and their order do not depend on the number of workers. `epoch` returns the first epoch; it is called
    at the first batch, since a resumed run knows its epoch only then.
    """

    def __init__(self, batches: ClozeBatches, *, epoch: Callable[[], int] = int, workers: int = 1) -> None:
        self.batches, self._epoch, self._workers = batches, epoch, workers
        self._running: Iterator[Batch | PackedBatch] | None = None

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        if self._running is None:
            loader = DataLoader(
                _AllEpochs(self.batches, self._epoch()),
                batch_size=None,
                num_workers=self._workers,
                prefetch_factor=max(2, _PREFETCHED // self._workers) if self._workers else None,
                pin_memory=bool(self._workers) and torch.cuda.is_available(),
                # Its own: a new iterator draws a number, which would shift the dropout of a resumed run.
                generator=torch.Generator(),
            )
            self._running = iter(loader)
        # A generator, so that the epoch is read with the first batch: Lightning sets it only after `iter`.
        for batch in islice(self._running, len(self)):
            yield unpack(batch) if isinstance(batch, PackedBatch) else batch

    def close(self) -> None:
        """Stop the workers."""
        self._running = None


def worker_count(requested: int, on_gpu: bool) -> int:
    """The number of processes that prepare batches; −1 chooses as many as keep a GPU busy.

    One prepares 10,000 documents per second, less than an H200 takes with a GRU of hidden size 100. On a CPU training
    is slower than preparing batches in the same process.
    """
    if requested >= 0:
        return requested
    return min(3, max(1, (os.cpu_count() or 1) // 4)) if on_gpu else 0


def load_initial(init_from: str) -> SavedReader:
    """The reader to fine-tune: a folder, or "default" for the one in the package."""
    return load_reader(SHIPPED / "names" if init_from == "default" else Path(init_from))


class TrainingData(pl.LightningDataModule):
    """Training documents, with new questions per epoch if the set has none, and fixed validation questions."""

    def __init__(self, options: TrainingOptions, progress: Progress = ignore_progress) -> None:
        super().__init__()
        self.options = options
        # Both are checked before minutes are spent on counting words.
        check_writable(options.folder)
        check_splits(options.data, ("training", "validation"))
        skip = warn_skipped if options.skip_malformed else None
        # A reader that is fine-tuned keeps its vocabulary.
        self.vocabulary = (
            load_initial(options.init_from).vocabulary
            if options.init_from
            else shared_vocabulary(options.data, skip=skip, progress=progress)
        )
        self.training, self.validation = (
            open_splits(options.data, split, self.vocabulary, progress, skip)
            for split in ("training", "validation")
        )

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the vocabulary and of each split's documents."""
        return {
            "vocabulary": self.vocabulary.fingerprint,
            "training documents": _fingerprint(self.training),
            "validation documents": _fingerprint(self.validation),
        }

    def _batches(self, split: EncodedSplit, size: int, draw: int) -> ClozeBatches:
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        seed = self.options.seed
        return ClozeBatches(split, self.vocabulary, size=size, draw=draw, seed=seed, rank=rank, world=world)

    def train_dataloader(self) -> EpochStream:
        """The batches of an epoch, starting with the epoch that the run is in."""
        trainer = self.trainer
        assert trainer is not None
        draw = self.options.questions if len(self.training.answers) == 0 else 0
        batches = self._batches(self.training, self.options.batch_size, draw)
        workers = worker_count(self.options.num_workers, trainer.strategy.root_device.type == "cuda")
        return EpochStream(batches, epoch=lambda: trainer.current_epoch, workers=workers)

    def val_dataloader(self) -> "DataLoader[Batch]":
        """The fixed questions."""
        batches = self._batches(self.validation, _VALIDATION_BATCHES * self.options.batch_size, draw=0)
        return DataLoader(batches, batch_size=None)


def _fingerprint(split: EncodedSplit) -> str:
    """A hash of a split's documents and questions, independent of where and when the set was copied."""
    digest = hashlib.sha256()
    for each in fields(split)[:-1]:  # without the sources' names, which may change with the set's path
        array = np.ascontiguousarray(getattr(split, each.name))
        digest.update(f"{each.name} {array.dtype} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
