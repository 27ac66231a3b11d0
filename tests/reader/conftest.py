"""Readers with random weights: these tests check how a reader computes, not its accuracy."""

from collections.abc import Callable

import pytest
from msgspec import structs

from attar.reader.parts import ReaderParts
from attar.reader.reader import Reader
from benchmarks.tiny_reader import tiny_parts


@pytest.fixture(scope="session")
def parts() -> ReaderParts:
    return tiny_parts()


@pytest.fixture(scope="session")
def reader(parts: ReaderParts) -> Reader:
    return Reader(parts)


@pytest.fixture(scope="session")
def changed() -> Callable[..., ReaderParts]:
    """The parts of a reader with other options of its network's config."""

    def change(parts: ReaderParts, **options: object) -> ReaderParts:
        network = structs.replace(parts.config.network, **options)
        return ReaderParts(structs.replace(parts.config, network=network), parts.tokenizer, parts.weights)

    return change


@pytest.fixture(scope="session")
def default() -> Reader:
    """The reader that ships."""
    return Reader.load()


@pytest.fixture(scope="session")
def fixed() -> Reader:
    """The reader that ships with memories of fixed size."""
    return Reader.load("fixed")
