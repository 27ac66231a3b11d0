"""Fixtures of the store's tests: small memories, each different, of one reader."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from attar.memory.cooccurrence import Cooccurrence
from attar.memory.memory import Memory
from attar.store.store import Store
from attar.text.name_table import NameTable

READER = "reader-1"
MakeMemory = Callable[..., Memory]


@pytest.fixture
def make_memory() -> MakeMemory:
    """Makes memories: a different one for each number."""

    def make(number: int = 0, size: int = 4, reader: str = READER) -> Memory:
        random = np.random.default_rng(number)
        f = random.normal(size=(size, 2 * size)).astype(np.float32)
        names = NameTable.of(f"Emma Woodhouse{number}")
        state = random.normal(size=size).astype(np.float32)
        return Memory.of_matrix(f @ f.T, tokens=number, reader=reader, names=names, state=state)

    return make


@pytest.fixture
def make_named_memory() -> MakeMemory:
    """Makes memories of one vector per name, with their co-occurrences."""

    def make(number: int = 0, reader: str = READER) -> Memory:
        random, names = np.random.default_rng(number), NameTable.of("Emma", "Harriet", f"Town{number}")
        ids = random.integers(3, 30, 60)
        ids[(ids >= 6) & (ids < 9)] = 9
        numbers, ends = np.where(ids < 6, ids - 3, -1), np.arange(60) % 6 == 5
        (counts,) = Cooccurrence.count(numbers, ids, ends, [len(ids)], counts=[3], first=3, limit=6, common=0)
        vectors = random.normal(size=(3, 4))
        return Memory.of("named", vectors, tokens=60, reader=reader, names=names, cooccurrence=counts)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Store.open(folder) as store:
        yield store
