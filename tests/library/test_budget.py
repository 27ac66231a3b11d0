"""A library with a budget: documents keep to it when they are added, appended, merged and read again."""

import pytest

from attar.errors import OptionError
from attar.library.library import Library
from attar.reader.reader import Reader
from benchmarks.stories import tell_stories

pytestmark = pytest.mark.slow

TEXT = " ".join(story.text for story in tell_stories(3, 20))
BUDGET = 3_000


@pytest.fixture
def reader(shipped):
    return shipped


@pytest.fixture
def library(reader, tmp_path):
    with Library(tmp_path / "library", reader, budget=BUDGET) as library:
        library.add("log", TEXT[:4_000])
        yield library


def test_documents_are_added_and_appended_within_it(library, reader):
    assert BUDGET // 2 < library.show("log").bytes <= BUDGET
    with Library(library.store.path, reader) as other:  # the document has its budget, not the library
        other.append("log", TEXT[4_000:7_000])
        assert other.show("log").bytes <= BUDGET
        assert other.memory("log").phrases.characters == 7_002
        other.add("whole", TEXT[:4_000])
        assert other.show("whole").bytes > BUDGET


def test_the_same_text_is_written_again_only_for_another_budget(library, reader):
    assert library.add("log", TEXT[:4_000]).change == "unchanged"
    with Library(library.store.path, reader) as other:
        assert other.add("log", TEXT[:4_000]).change == "unchanged"
    with Library(library.store.path, reader, budget=2_000) as other:
        assert other.add("log", TEXT[:4_000]).change == "replaced"
        assert other.show("log").bytes <= 2_000


def test_it_stays_when_the_library_moves_to_another_reader(library, tmp_path):
    reader = Reader.load()
    reader.fingerprint = "f" * 64
    library.reread(reader)
    assert library.show("log").reader == "f" * 64
    assert library.show("log").bytes <= BUDGET
    assert library.store.get("log").entry.budget == BUDGET


@pytest.mark.parametrize("budget", [0, -1, 2.5, True])
def test_what_is_no_number_of_bytes_is_refused(reader, tmp_path, budget):
    with pytest.raises(OptionError, match="budget: expected a number of bytes from 1 up"):
        Library(tmp_path / "library", reader, budget=budget)
