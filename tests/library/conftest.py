"""Libraries of made-up stories with small untrained readers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from attar.library.library import Library
from attar.memory.memory import Memory
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader.names import NamesReader
from attar.reader.reader import Reader
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import tell_stories

ENTITIES = 60


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return [story.text for story in tell_stories(3, 9)]


@pytest.fixture(scope="session")
def make_reader(texts: list[str]) -> Callable[..., Reader]:
    vocabulary = Vocabulary.build(texts, size=150, entities=ENTITIES)

    def make(mechanism: str = "named", encoder: str = "lookahead", seed: int = 5) -> Reader:
        torch.manual_seed(seed)
        sizes = {"words": len(vocabulary), "entities": ENTITIES, "embedding_size": 5, "hidden_size": 6}
        return NamesReader(Network(NetworkOptions(mechanism=mechanism, encoder=encoder, **sizes)), vocabulary)

    return make


@pytest.fixture(scope="session")
def reader(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "library"


@pytest.fixture
def library(folder: Path, reader: Reader) -> Iterator[Library]:
    with Library(folder, reader, dtype="float32") as library:
        yield library


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Memory, Memory], None]:
    """Two memories are equal up to float32 rounding."""

    def check(one: Memory, other: Memory) -> None:
        for word in ("form", "mechanism", "tokens", "size", "reader", "names"):
            assert getattr(one, word) == getattr(other, word)
        for mine, wanted in ((one.numbers, other.numbers), (one.state, other.state)):
            largest = float(np.abs(wanted).max(initial=1.0))
            np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5 * largest)

    return check
