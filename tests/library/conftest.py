"""Libraries of made-up stories with tiny readers."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lmdb
import pytest

from attar.library.library import Library
from attar.reader.reader import Reader
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import load_tiny_reader


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return [story.text for story in tell_stories(3, 9)]


@pytest.fixture
def reader(tiny_reader: Reader) -> Reader:
    return tiny_reader


@pytest.fixture(scope="session")
def make_reader(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Reader]:
    """Makes a tiny reader of its own for each seed."""
    return lambda seed: load_tiny_reader(tmp_path_factory.mktemp("readers") / f"seed-{seed}", seed=seed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "library"


@pytest.fixture
def library(folder: Path, reader: Reader) -> Iterator[Library]:
    with Library(folder, reader) as library:
        yield library


def library_of(texts: Mapping[str, str]) -> Any:
    """A fixture: a library of texts with the reader that ships, for tests that leave it as it is."""

    @pytest.fixture(scope="module")
    def library(tmp_path_factory: pytest.TempPathFactory, shipped: Reader) -> Iterator[Library]:
        with Library(tmp_path_factory.mktemp("shared") / "library", shipped) as library:
            library.add_many(texts.items())
            yield library

    return library


def damage(folder: Path, key: bytes) -> None:
    """Overwrite a value of a store that nobody has opened, as a broken disk would."""
    with lmdb.open(str(folder), map_size=2**30) as environment, environment.begin(write=True) as values:
        values.put(key, b"garbage")
