"""Files appear complete or not at all; locks end at the deadline, or with their holder."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from attar.errors import AttarError, BusyError, StoreError
from attar.files import WriterLock, atomic_files, lock_file


def write_and_stop(folder: Path, fault: BaseException) -> None:
    with atomic_files(folder) as path_of:
        path_of("a").write_text("new")
        raise fault


def test_files_appear_at_the_end_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with atomic_files(tmp_path) as path_of:
        path_of("a").write_text("new")
        path_of("b").write_text("new")
        assert (tmp_path / "a").read_text() == "old"
        assert not (tmp_path / "b").exists()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "new", "b": "new"}


def test_nothing_changes_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_and_stop(tmp_path, KeyboardInterrupt())
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "old"}


def test_a_full_disk_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(AttarError, match=r"cannot write to .*: No space left on device"):
        write_and_stop(tmp_path, OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["afile", "afile/x"])
def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "afile").write_text("here first")
    with pytest.raises(AttarError, match="cannot write to"):
        write_and_stop(tmp_path / folder, KeyboardInterrupt())


@pytest.fixture
def open_twice(tmp_path):
    """One file, opened twice: locks belong to the opening."""
    path = tmp_path / "file"
    path.touch()
    files = [os.open(path, os.O_RDONLY) for _ in range(2)]
    yield files
    for file in files:
        os.close(file)


def test_a_lock_that_another_holds_is_refused_at_the_deadline(open_twice):
    first, second = open_twice
    assert lock_file(first, fcntl.LOCK_EX, None)
    began = time.monotonic()
    assert not lock_file(second, fcntl.LOCK_EX, began + 0.05)
    assert time.monotonic() - began >= 0.05


def test_a_writer_lock_is_not_taken_twice_by_a_thread(open_twice):
    lock = WriterLock("file")
    with (
        lock.held(lambda: open_twice[0], None),
        pytest.raises(StoreError, match="file: this thread has a transaction open already"),
        lock.held(lambda: open_twice[0], None),
    ):
        pass
    with lock.held(lambda: open_twice[0], 0.0):
        pass


def test_a_writer_lock_that_another_opening_holds_is_one_clear_line(open_twice):
    with (
        WriterLock("file").held(lambda: open_twice[0], None),
        pytest.raises(BusyError, match="file: another writer is at work; wait for it"),
        WriterLock("file").held(lambda: open_twice[1], 0.0),
    ):
        pass
