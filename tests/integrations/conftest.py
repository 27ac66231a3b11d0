"""A small library, as integrations are given it."""

from collections.abc import Iterator

import pytest

from attar.library.library import Library
from attar.reader.reader import Reader

TEXTS = {
    "rome": "Rome is the capital of Italy. The Tiber moves through town, 80 miles of it.",
    "tea": "Tea is a drink.\n\nIt was first drunk in China. Zebra milk is rarely added.",
}


@pytest.fixture(scope="module")
def small_library(tmp_path_factory: pytest.TempPathFactory, tiny_reader: Reader) -> Iterator[Library]:
    with Library(tmp_path_factory.mktemp("integrations") / "library", tiny_reader) as library:
        library.add_many(TEXTS.items())
        yield library
