"""The index of a library follows the store, and compares each question with all signatures once."""

import pytest

from attar.library.finding import find_candidates
from attar.library.library import Library
from benchmarks.search import fill_library

TEXT = "Coffee came from Ethiopia."


@pytest.fixture
def library(tmp_path, tiny_reader):
    """A library of made-up signatures in clusters."""
    with Library(tmp_path / "library", tiny_reader) as library:
        fill_library(library, tiny_reader, 400)
        yield library


def found(library):
    with library.opened() as shard:
        ((*candidates,),) = find_candidates(shard.alone, [TEXT], 10)
    return [document.name for document in candidates]


def test_documents_added_and_removed_count_at_once(library):
    library.add("new", TEXT)
    before = found(library)
    assert before[0] == "new"
    library.remove("new", before[1])
    after = found(library)
    assert not {"new", before[1]} & set(after)
    assert set(before[2:]) <= set(after)
