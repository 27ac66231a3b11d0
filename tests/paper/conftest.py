"""A small set of made-up stories: training documents whose questions are drawn, the others with their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from attar.paper.build import tell_story
from attar.paper.cloze import ClozeDocument, document_writer
from attar.paper.options import TrainingOptions
from attar.paper.words import VOCABULARY_FILE, Vocabulary, WordCounts

COUNTS = {"training": 24, "validation": 8, "test": 6}
MakeSet = Callable[..., Path]
MakeOptions = Callable[..., TrainingOptions]


def story_documents(seed: int, count: int) -> list[ClozeDocument]:
    rng = Random(seed)
    return [tell_story(rng, f"{seed} {number}", facts=8) for number in range(count)]


def story_words(size: int = 200) -> Vocabulary:
    sentences = (sentence.split() for story in story_documents(1, 80) for sentence in story.sentences)
    return Vocabulary.build(WordCounts(sentences), size=size, entities=16)


@pytest.fixture(scope="session")
def make_set(tmp_path_factory: pytest.TempPathFactory) -> MakeSet:
    """Writes a set of stories; `vocabulary=None` leaves its vocabulary out, `drawn=False` keeps all questions."""
    words = story_words()

    def make(seed: int = 1, vocabulary: Vocabulary | None = words, drawn: bool = True, **counts: int) -> Path:
        folder = tmp_path_factory.mktemp("set")
        for at, (split, count) in enumerate((counts or COUNTS).items()):
            with document_writer(folder / f"{split}.parquet") as write:
                for document in story_documents(seed + 1000 * at, count):
                    if split == "training" and drawn:
                        document.questions, document.answers = [], []
                    write(document)
        if vocabulary is not None:
            (folder / VOCABULARY_FILE).write_bytes(vocabulary.to_bytes())
        return folder

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Steps of a millisecond: a second thread would only slow them down."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def stories_set(make_set: MakeSet) -> Path:
    return make_set()


@pytest.fixture
def options(stories_set: Path, tmp_path: Path) -> MakeOptions:
    """Options of a small run in the test's folder."""

    def make(out: str = "network", **changed: Any) -> TrainingOptions:
        sizes = {"hidden_size": 8, "embedding_size": 8, "epochs": 2, "batch_size": 8, "questions": 3}
        given: dict[str, Any] = sizes | {"data": str(stories_set), "out": str(tmp_path / out)}
        return TrainingOptions(**given | changed)

    return make
