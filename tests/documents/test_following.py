"""A folder as rounds of changed files: all at first, then what is added, changed, renamed or removed."""

import threading

import pytest

from attar.documents.following import watch_folder
from attar.errors import FormatError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "letters" / "sub").mkdir(parents=True)
    (tmp_path / "letters" / "a.txt").write_text("Ann left.")
    (tmp_path / "letters" / "sub" / "b.txt").write_text("Bob came.")
    return tmp_path / "letters"


@pytest.fixture
def rounds(folder):
    """The rounds of a folder, as the names of the files that changed in each."""
    stop = threading.Event()
    yield ([file.name for file in found.files] for found in watch_folder(folder, stop=stop))
    stop.set()


@pytest.fixture
def watched(folder, rounds):
    """The rounds after two that are over: the watching has begun."""
    next(rounds)
    (folder / "begun.txt").write_text("Begun.")
    next(rounds)
    return rounds


def test_another_folder_in_its_place_is_not_taken_for_it(folder, watched):
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    with pytest.raises(FormatError, match="letters is now another folder; its documents stay"):
        next(watched)
