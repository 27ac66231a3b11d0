"""Compacting gives space back and changes nothing else."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from attar.store import Store, StoreError


def fill(store, make_memory, count=40):
    with store.writing() as changes:
        for number in range(count):
            changes.put(str(number), make_memory(number, 60), text="text")


def test_space_is_given_back(store, make_memory):
    fill(store, make_memory)
    for number in range(35):
        store.remove(str(number))
    before = store.stats()
    saved = store.compact()
    after = store.stats()
    assert saved == before.file_bytes - after.file_bytes > before.file_bytes // 2
    assert after.free_bytes < 8 * 4096


def test_nothing_else_changes(store, make_memory):
    fill(store, make_memory)
    before = (list(store.documents()), store.about)
    store.compact()
    assert (list(store.documents()), store.about) == before
    assert all(store.memory(str(number)) == make_memory(number, 60) for number in range(40))
    assert list(store.check()) == []
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]


def test_an_empty_store_is_compacted_too(store):
    store.compact()
    assert len(store) == 0


def test_the_store_goes_on_afterwards(store, folder, make_memory):
    fill(store, make_memory)
    store.compact()
    store.put("emma", make_memory(1))
    store.close()
    with Store.open(folder) as again:
        assert again.memory("emma") == make_memory(1)
        assert len(again) == 41


def test_every_store_of_the_process_goes_on(store, folder, make_memory):
    fill(store, make_memory)
    with Store.open(folder) as other:
        store.compact()
        other.put("emma", make_memory(1))
        assert store.memory("emma") == make_memory(1)


def test_other_threads_readings_wait(store, make_memory):
    fill(store, make_memory)
    done, faults = threading.Event(), []

    def read():
        while not done.is_set():
            with store.reading() as now:
                if now.memory("7", check=True) != make_memory(7, 60):
                    faults.append("7")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(5):
        store.put(f"x{number}", make_memory(number))
        store.compact()
    done.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(store) == 45


def test_other_threads_changes_wait(store, make_memory):
    fill(store, make_memory)

    def write(thread):
        for number in range(20):
            store.put(f"{thread}-{number}", make_memory(number))
            assert store.stats().documents > 40

    with ThreadPoolExecutor(2) as pool:
        written = [pool.submit(write, thread) for thread in range(2)]
        while not all(change.done() for change in written):
            store.compact(timeout=60)
    assert [change.exception() for change in written] == [None, None]
    assert len(store) == 80
    assert list(store.check()) == []


def test_not_within_a_reading_of_the_same_thread(store):
    with store.reading(), pytest.raises(StoreError, match="no open reading"):
        store.compact()


def test_a_copy_that_fails_leaves_the_store_as_it_was(store, make_memory, monkeypatch):
    fill(store, make_memory)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("attar.store.compact.os.replace", full)
        with pytest.raises(StoreError, match="a full disk"):
            store.compact()
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]
    assert len(store) == 40
    assert list(store.check()) == []


def test_what_a_killed_process_left_goes_away(store, folder):
    store.close()
    (folder / "data.mdb.copy").write_bytes(b"half of it")
    with Store.open(folder):
        assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]
