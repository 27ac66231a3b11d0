"""Changes are made together or not at all, one writer at a time, in a map that grows."""

import threading

import pytest

from attar.errors import OptionError
from attar.store import BusyError, Store, StoreError

SMALL_MAP = 2**18


def test_changes_are_made_together(store, make_memory):
    store.put("a", make_memory())
    with store.writing() as changes:
        changes.put("b", make_memory(1))
        changes.remove("a")
        assert [facts.name for facts in store.documents()] == ["a"]
    assert [facts.name for facts in store.documents()] == ["b"]


def test_a_fault_undoes_all_of_them(store, make_memory):
    store.put("a", make_memory(1))

    def fail() -> None:
        with store.writing() as changes:
            changes.put("a", make_memory(2))
            changes.put("b", make_memory(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.memory("a") == make_memory(1)
    assert len(store) == 1


def test_a_refused_document_need_not_undo_the_others(store, make_memory):
    with store.writing() as changes:
        changes.put("a", make_memory(1))
        with pytest.raises(OptionError):
            changes.put("b", make_memory(2, reader="another"))
        with pytest.raises(OptionError):
            changes.put("", make_memory(2))
    assert [facts.name for facts in store.documents()] == ["a"]


def test_ended_changes_say_so(store, make_memory):
    with store.writing() as changes:
        pass
    with pytest.raises(StoreError, match="failed or ended; begin anew"):
        changes.put("a", make_memory())


def test_a_record_too_large_to_write_leaves_nothing_of_itself(store, make_memory, monkeypatch):
    monkeypatch.setattr("attar.store.seal.LIMIT", 1000)
    with store.writing() as changes:
        changes.put("a", make_memory(1))
        with pytest.raises(OptionError, match="at most 1,000 bytes"):
            changes.put("b", make_memory(2, 60))
    assert [facts.name for facts in store.documents()] == ["a"]
    assert list(store.check()) == []


def test_changes_see_themselves(store, make_memory):
    with store.writing() as changes:
        changes.put("a", make_memory(1), text="one")
        assert "a" in changes
        assert changes.get("a").text == "one"
        assert changes.about.documents == 1
        changes.remove("a")
        assert "a" not in changes


def test_a_document_may_change_several_times_in_one_go(folder, make_memory):
    with Store.open(folder) as store, store.writing() as changes:
        for number in range(20):
            changes.put("a", make_memory(number, 100))
    with Store.open(folder) as store:
        assert store.memory("a") == make_memory(19, 100)
        assert list(store.check()) == []


def test_no_change_writes_nothing(store):
    before = store.stats().changes
    with store.writing():
        pass
    assert store.stats().changes == before


def test_the_map_grows_with_single_changes(folder, make_memory):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        for number in range(60):
            store.put(str(number), make_memory(number, 60))
        assert store.stats().map_bytes > SMALL_MAP
        assert all(store.memory(str(number)) == make_memory(number, 60) for number in range(60))
        assert list(store.check()) == []


def test_the_map_grows_within_one_change(folder, make_memory):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        store.put("old", make_memory(0, 60))
        with store.writing() as changes:
            changes.remove("old")
            for number in range(60):
                changes.put(str(number), make_memory(number, 60))
        assert store.stats().map_bytes > SMALL_MAP
        assert len(store) == 60
        assert list(store.check()) == []


def test_the_map_grows_between_other_threads_readings(folder, make_memory):
    done, faults = threading.Event(), []

    def read(store):
        while not done.is_set():
            with store.reading() as now:
                some = list(now.documents())[:3]
                faults.extend(f for f in some if now.memory(f.name, check=True).tokens != f.tokens)

    with Store.open(folder, map_size=SMALL_MAP) as store:
        threads = [threading.Thread(target=read, args=(store,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(60):
            store.put(str(number), make_memory(number, 60))
        done.set()
        for thread in threads:
            thread.join()
        assert store.stats().map_bytes > SMALL_MAP
    assert faults == []


def test_the_map_cannot_grow_under_an_open_reading_of_the_same_thread(folder, make_memory):
    with Store.open(folder, map_size=SMALL_MAP) as store:
        store.put("a", make_memory(1))

        def outgrow() -> None:
            with store.writing() as changes:
                for number in range(60):
                    changes.put(str(number), make_memory(number, 60))

        def swallow() -> None:
            with store.writing() as changes:
                with pytest.raises(StoreError, match="no open reading"):
                    changes.put("large", make_memory(1, 400))
                changes.put("small", make_memory(1))

        with store.reading() as now:
            with pytest.raises(StoreError, match="no open reading or changes in this thread"):
                outgrow()
            with pytest.raises(StoreError, match="failed or ended"):
                swallow()
            assert now.memory("a") == make_memory(1)
        assert len(store) == 1
        store.put("b", make_memory(2))
        assert list(store.check()) == []


def test_a_change_within_a_change_is_refused(store, make_memory):
    with store.writing(), pytest.raises(StoreError, match="a second within the first"):
        store.put("a", make_memory())


def test_a_second_thread_waits_its_turn(store, make_memory):
    began = threading.Event()

    def second():
        began.set()
        store.put("b", make_memory(2))

    thread = threading.Thread(target=second)
    with store.writing() as changes:
        thread.start()
        began.wait()
        changes.put("a", make_memory(1))
        assert "b" not in changes
    thread.join()
    assert len(store) == 2


def test_a_second_thread_that_will_not_wait_is_told(store, make_memory):
    told = []

    def second():
        try:
            store.put("b", make_memory(2), timeout=0.01)
        except BusyError as fault:
            told.append(str(fault))

    with store.writing():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert ["another writer, still at work after 0.01 s; wait for it" in line for line in told] == [True]
