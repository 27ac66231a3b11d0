"""A folder's files come all at once or not at all, and a folder made for them does not stay without them."""

from pathlib import Path

import pytest

from attar.cloze.together import FilesTogether
from attar.errors import AttarError


def write_and_stop(folder: Path, fault: BaseException) -> None:
    with FilesTogether(folder) as files:
        files.place("a").write_text("new")
        files.remove("c")
        raise fault


def test_files_come_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").write_text("old")
    with FilesTogether(tmp_path) as files:
        files.place("a").write_text("new")
        files.place("b").write_text("new")
        files.remove("c")
        files.remove("never there")
        assert (tmp_path / "a").read_text() == (tmp_path / "c").read_text() == "old"
        assert not (tmp_path / "b").exists()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "new", "b": "new"}


def test_nothing_changes_after_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_and_stop(tmp_path, KeyboardInterrupt())
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "old", "c": "old"}


def test_folders_that_were_made_go_after_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no names"):
        write_and_stop(tmp_path / "x" / "y", ValueError("no names"))
    assert list(tmp_path.iterdir()) == []


def test_folders_that_others_use_by_now_stay(tmp_path: Path) -> None:
    def share_and_stop() -> None:
        with FilesTogether(tmp_path / "x" / "y"):
            (tmp_path / "x" / "theirs").write_text("kept")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        share_and_stop()
    assert [place.name for place in (tmp_path / "x").iterdir()] == ["theirs"]


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(AttarError, match="expected a folder to write to, got No space left on device"):
        write_and_stop(tmp_path, OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_taken_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    refused = pytest.raises(AttarError, match="expected a folder to write to, got Is a directory")
    with refused, FilesTogether(tmp_path) as files:
        files.place("a").write_text("new")
    assert [place.name for place in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("folder", ["afile", "afile/x"])
def test_a_file_is_no_folder(tmp_path: Path, folder: str) -> None:
    (tmp_path / "afile").write_text("here first")
    with pytest.raises(AttarError, match="expected a folder to write to"):
        FilesTogether(tmp_path / folder).__enter__()
