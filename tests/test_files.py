"""File locks end at the deadline, or with their holder."""

import fcntl
import os
import threading
import time

import pytest

from attar.errors import BusyError, StoreError
from attar.files import WriterLock, lock_file


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


def test_a_lock_is_taken_once_it_is_released(open_twice):
    first, second = open_twice
    assert lock_file(first, fcntl.LOCK_EX, None)
    timer = threading.Timer(0.05, fcntl.flock, (first, fcntl.LOCK_UN))
    timer.start()
    assert lock_file(second, fcntl.LOCK_EX, time.monotonic() + 30)
    timer.join()


def test_shared_locks_do_not_exclude_each_other(open_twice):
    assert all(lock_file(file, fcntl.LOCK_SH, time.monotonic()) for file in open_twice)


def test_a_writer_lock_excludes_other_openings_of_the_file(open_twice):
    first, second = open_twice
    with (
        WriterLock("file").held(lambda: first, None),
        pytest.raises(BusyError, match="another writer, still at work after"),
        WriterLock("file").held(lambda: second, 0.01),
    ):
        pass


def test_a_writer_lock_is_not_taken_twice_by_a_thread(open_twice):
    lock = WriterLock("file")
    with (
        lock.held(lambda: open_twice[0], None),
        pytest.raises(StoreError, match="file: expected one transaction at a time"),
        lock.held(lambda: open_twice[0], None),
    ):
        pass
    with lock.held(lambda: open_twice[0], 0.0):
        pass
