"""A reader is found by a path, by the name of a shipped one, or by the fingerprint of a library."""

import pytest

from attar.errors import ReaderMismatchError
from attar.reader.folders import NAMES, SHIPPED, ReaderFolder, find_reader, shipped_folder, shipped_reader


@pytest.fixture
def folder(tiny_reader_folder) -> ReaderFolder:
    return ReaderFolder.open(tiny_reader_folder)


def test_shipped_readers_are_found_by_name_and_by_fingerprint():
    for name in NAMES:
        folder = ReaderFolder.open(name)
        assert folder.path == SHIPPED / name
        assert shipped_reader(folder.fingerprint) == name
    assert ReaderFolder.open(None) == shipped_folder("answers")
    assert shipped_reader("0" * 64) is None


def test_a_folder_in_the_working_directory_comes_before_a_shipped_name(folder, tmp_path, monkeypatch):
    (tmp_path / "answers").symlink_to(folder.path)
    monkeypatch.chdir(tmp_path)
    assert ReaderFolder.open("answers").fingerprint == folder.fingerprint


def test_a_library_gets_the_given_reader_or_the_shipped_one_that_made_it(folder):
    default = shipped_folder("answers").fingerprint
    assert find_reader("library", folder, None) == folder
    assert find_reader("library", folder, folder.fingerprint) == folder
    assert find_reader("library", None, default) == shipped_folder("answers")
    # The library has moved to the default since it was opened.
    assert find_reader("library", folder, default, moved=True) == shipped_folder("answers")


def test_another_reader_is_refused_with_the_remedy(folder):
    default = shipped_folder("answers").fingerprint
    with pytest.raises(
        ReaderMismatchError, match=r"the reader [0-9a-f]{12}, which is not in the package; give its folder"
    ):
        find_reader("library", None, folder.fingerprint)
    with pytest.raises(
        ReaderMismatchError, match=r"the reader answers, not with [0-9a-f]{12}; leave out --reader"
    ):
        find_reader("library", folder, default)
    with pytest.raises(ReaderMismatchError, match="or move the library to another reader with attar reread"):
        find_reader("library", folder, "0" * 64)
