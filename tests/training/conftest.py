"""A small set of made-up stories: training documents whose questions are drawn, validation with its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attar.text.cloze import ClozeDocument
from attar.text.cloze.folder_cnn import write_folder
from attar.text.cloze.parquet import DocumentWriter
from attar.text.cloze.sets import VOCABULARY
from attar.text.stories import story_document, tell_stories
from attar.text.vocabulary import Vocabulary

ENTITIES = 16

MakeSet = Callable[..., Path]


def story_documents(seed: int, count: int) -> list[ClozeDocument]:
    return [story_document(story, f"{seed} {n}") for n, story in enumerate(tell_stories(seed, count))]


@pytest.fixture(scope="session")
def make_set(tmp_path_factory: pytest.TempPathFactory) -> MakeSet:
    """Writes a set of stories, with one vocabulary for all seeds, and of texts so plain that nothing is asked."""
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
            words.save(folder / VOCABULARY)
        return folder

    return make


@pytest.fixture(scope="session")
def tested_set(make_set: MakeSet) -> Path:
    """A set with a test split, as small as can be trained on."""
    return make_set(training=12, validation=6, test=6)


@pytest.fixture
def cnn_set(tmp_path: Path) -> Path:
    """A set in the CNN format, every question a file, without a vocabulary of its own."""
    folder = tmp_path / "cnn"
    for split, seed, count in (("training", 1, 12), ("validation", 2, 4), ("test", 3, 4)):
        write_folder(iter(story_documents(seed, count)), folder / "questions" / split)
    return folder


@pytest.fixture(scope="session")
def stories_set(make_set: MakeSet) -> Path:
    return make_set()
