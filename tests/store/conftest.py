"""Fixtures of the store's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attar.store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Store.open(folder) as store:
        yield store
