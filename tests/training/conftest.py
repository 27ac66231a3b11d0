"""A small set of made-up stories: training documents whose questions are drawn, validation with its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from attar.cloze.documents import ClozeDocument, DocumentWriter
from attar.cloze.sets import VOCABULARY_FILE
from attar.text.vocabulary import Vocabulary
from attar.training import fit
from attar.training.options import TrainingOptions
from attar.training.run_folder import HISTORY, RUN
from benchmarks.question_files import write_folder
from benchmarks.stories import story_document, tell_stories

ENTITIES = 16

MakeSet = Callable[..., Path]
MakeOptions = Callable[..., TrainingOptions]


class PowerCutError(Exception):
    """Interrupts a run."""


def cut_off(monkeypatch: pytest.MonkeyPatch, *, epoch: int, step: int) -> None:
    """Interrupt the next run before a step of an epoch, both counted from 0."""
    make = fit.make_trainer

    class PowerCut(pl.Callback):
        def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, index: int) -> None:
            if (trainer.current_epoch, index) == (epoch, step):
                raise PowerCutError

    def with_power_cut(
        options: TrainingOptions, run: Path, callbacks: list[pl.Callback], **rest: Any
    ) -> pl.Trainer:
        return make(options, run, [*callbacks, PowerCut()], **rest)

    monkeypatch.setattr(fit, "make_trainer", with_power_cut)


def history(folder: Path) -> list[dict[str, float]]:
    """The history of a run, without its speed."""
    rows = json.loads((folder / RUN / HISTORY).read_text())
    return [{name: row[name] for name in row if name != "documents_a_second"} for row in rows]


def assert_same_tensors(one: Any, other: Any, **tolerance: float) -> None:
    """Nested dictionaries of tensors and numbers are equal, to the last bit if no tolerance is given."""
    torch.testing.assert_close(one, other, **{"rtol": 0.0, "atol": 0.0} | tolerance, check_stride=False)


def story_documents(seed: int, count: int) -> list[ClozeDocument]:
    return [story_document(story, f"{seed} {n}") for n, story in enumerate(tell_stories(seed, count))]


@pytest.fixture(scope="session")
def make_set(tmp_path_factory: pytest.TempPathFactory) -> MakeSet:
    """Writes a set of stories, with one vocabulary for all seeds; `plain` documents have no names to ask for."""
    words = Vocabulary.build((story.text for story in tell_stories(1, 80)), size=200, entities=ENTITIES)

    def make(
        training: int = 48,
        validation: int = 12,
        seed: int = 1,
        plain: int = 0,
        vocabulary: bool = True,
        test: int = 0,
    ) -> Path:
        folder = tmp_path_factory.mktemp("set")
        counts = {"training": training, "validation": validation, "test": test}
        for at, (split, count) in enumerate(counts.items()):
            first = seed + 1000 * at
            if not count:
                continue
            with DocumentWriter(folder / f"{split}.parquet") as writer:
                for document in story_documents(first, count):
                    if split == "training":
                        document.questions = []
                    writer.write(document)
                for number in range(plain if split == "training" else 0):
                    writer.write(ClozeDocument(f"plain {number}", "", [["it", "rained", "."]], {}))
        if vocabulary:
            words.save(folder / VOCABULARY_FILE)
        return folder

    return make


@pytest.fixture(scope="session")
def tested_set(make_set: MakeSet) -> Path:
    """A small set with a test split."""
    return make_set(training=12, validation=6, test=6)


@pytest.fixture
def cnn_set(tmp_path: Path) -> Path:
    """A set in the CNN format, one file per question, without a vocabulary."""
    folder = tmp_path / "cnn"
    for split, seed, count in (("training", 1, 12), ("validation", 2, 4), ("test", 3, 4)):
        write_folder(iter(story_documents(seed, count)), folder / "questions" / split)
    return folder


@pytest.fixture(scope="session")
def stories_set(make_set: MakeSet) -> Path:
    return make_set()


@pytest.fixture
def options(stories_set: Path, tmp_path: Path) -> MakeOptions:
    """Options of a small run in the test's folder."""

    def make(out: str = "reader", **changed: Any) -> TrainingOptions:
        given: dict[str, Any] = {
            "hidden_size": 8,
            "embedding_size": 8,
            "epochs": 2,
            "batch_size": 16,
            "questions": 3,
        }
        given |= {"data": (str(stories_set),), "out": str(tmp_path / out)}
        return TrainingOptions(**given | changed)

    return make
