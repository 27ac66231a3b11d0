"""Documents go in, come out the same, in the order of their names, and stay."""

import os
from pathlib import Path

import numpy as np
import pytest

from attar.errors import OptionError, StoreError, UnknownDocumentError
from attar.store import Store, digest_of

NAMES = ["a", "a/b", "two\nlines", "Ωμέγα 🜁", "x" * 10_000, "x" * 10_000 + "y", "x" * 478]


def test_what_was_put_comes_out(store, make_memory):
    memory = make_memory(7)
    entry = store.put("emma", memory, title="Emma", text="Emma Woodhouse, handsome")
    found = store.get("emma")
    assert found.entry == entry == store.entry("emma")
    assert (found.name, found.entry.title, found.text) == ("emma", "Emma", "Emma Woodhouse, handsome")
    assert found.entry.digest == digest_of("Emma Woodhouse, handsome")
    assert (found.entry.tokens, found.entry.form, found.entry.dtype) == (7, "triangle", "float32")
    assert found.memory == store.memory("emma") == memory


def test_a_document_without_its_text(store, make_memory):
    store.put("emma", make_memory(), digest=digest_of("not kept"))
    assert store.get("emma").text is None
    assert store.entry("emma").digest == digest_of("not kept")


def test_an_empty_text_is_a_text(store, make_memory):
    store.put("emma", make_memory(), text="")
    assert store.get("emma").text == ""


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_memories_are_kept_in_the_stores_own_type_of_number(folder, make_memory, dtype):
    with Store.open(folder, dtype=dtype) as store:
        store.put("emma", make_memory(1, 40))
        assert store.dtype == store.entry("emma").dtype == dtype
        assert store.memory("emma") == make_memory(1, 40).astype(dtype)
    with Store.open(folder) as store:
        assert store.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_names_come_out_with_the_company_they_keep(folder, make_acquaintances, dtype):
    memory = make_acquaintances(1).astype(dtype)
    with Store.open(folder, dtype=dtype) as store:
        store.put("emma", make_acquaintances(1))
        assert bytes(store.get("emma").memory_data) == memory.to_bytes()
        assert store.memory("emma") == store.get("emma").memory == memory
        with store.snapshot() as now:
            assert now.memory("emma").company == memory.company
        assert store.memory("emma").company.mentions().any()
        assert list(store.check()) == []


def test_any_name_will_do(store, make_memory):
    for number, name in enumerate(NAMES):
        store.put(name, make_memory(number))
    for number, name in enumerate(NAMES):
        assert name in store
        assert store.memory(name) == make_memory(number)
    assert [entry.name for entry in store.documents()] == sorted(NAMES)
    assert list(store.check()) == []


def test_long_names_are_listed_in_order_on_every_page(store, make_memory):
    names = ["x" * 500 + str(number) for number in range(9)] + ["x", "y", "x" * 478, "x" * 477 + "y"]
    with store.transaction() as changes:
        for name in names:
            changes.put(name, make_memory())
    paged = []
    while page := [f.name for f in store.documents(after=paged[-1] if paged else None, limit=2)]:
        paged += page
    assert paged == sorted(names)


def test_documents_are_listed_behind_a_name_that_need_not_be_there(store, make_memory):
    for name in "abcd":
        store.put(name, make_memory())
    assert [entry.name for entry in store.documents(after="bb")] == ["c", "d"]
    assert [entry.name for entry in store.documents(limit=0)] == []


def test_a_list_longer_than_a_page_may_be_read_while_the_store_changes(store, make_memory):
    with store.transaction() as changes:
        for number in range(600):
            changes.put(f"{number:03}", make_memory())
    seen = []
    for entry in store.documents():
        seen.append(entry.name)
        if entry.name == "100":
            store.remove("599")
    assert seen == [f"{number:03}" for number in range(599)]


def test_replacing_keeps_when_the_name_was_first_written(store, make_memory):
    first = store.put("emma", make_memory(1), text="one")
    second = store.put("emma", make_memory(2))
    assert second.created == first.created
    assert second.changed > first.changed
    assert store.get("emma").text is None
    assert len(store) == 1


def test_removed_is_gone(store, make_memory):
    store.put("emma", make_memory(), text="Emma")
    store.remove("emma")
    assert "emma" not in store
    assert (len(store), store.stats().memory_bytes, store.stats().text_bytes) == (0, 0, 0)


@pytest.mark.parametrize("ask", [Store.get, Store.memory, Store.entry, Store.remove])
def test_an_unknown_name_is_said_to_be_unknown(store, ask):
    with pytest.raises(
        UnknownDocumentError, match=r"document 'emm': expected one in the store, got no such name"
    ):
        ask(store, "emm")


def test_many_are_given_in_the_order_asked_for(store, make_memory):
    for number, name in enumerate("abc"):
        store.put(name, make_memory(number))
    assert [record.name for record in store.get_many(["c", "a", "c"])] == ["c", "a", "c"]
    with store.snapshot() as now:
        assert [memory.tokens for memory in now.memories(["c", "a"])] == [2, 0]


def test_a_reading_hands_out_the_files_own_bytes(store, make_memory):
    store.put("emma", make_memory(1, 100))
    with store.snapshot() as now:
        numbers = now.memory("emma").numbers
        assert not numbers.flags.owndata
        assert not numbers.flags.writeable
        assert numbers.ctypes.data % 64 == 0
        assert np.shares_memory(np.frombuffer(now.view("emma"), np.uint8), numbers)


def test_small_memories_are_aligned_too(store, make_memory):
    for number in range(9):
        store.put("x" * number + "y", make_memory(number))
    with store.snapshot() as now:
        assert all(now.memory("x" * number + "y").numbers.flags.aligned for number in range(9))


def test_a_reading_stays_at_its_moment(store, make_memory):
    store.put("emma", make_memory(1))
    with store.snapshot() as now:
        store.put("emma", make_memory(2))
        store.put("lydia", make_memory(3))
        assert now.memory("emma") == make_memory(1)
        assert "lydia" not in now
        assert now.header().documents == 1
    assert store.memory("emma") == make_memory(2)


def test_what_was_given_outlives_the_store(folder, make_memory):
    with Store.open(folder) as store:
        store.put("emma", make_memory(1, 100), text="Emma")
        memory, record = store.memory("emma"), store.get("emma")
    assert memory == record.memory == make_memory(1, 100)
    assert record.text == "Emma"


def test_a_store_is_a_folder_of_two_files(folder, make_memory):
    with Store.open(folder) as store:
        store.put("emma", make_memory())
    assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]


def test_a_store_keeps_its_first_readers_memories_only(folder, make_memory):
    with Store.open(folder) as store:
        assert store.reader is None
        store.put("emma", make_memory())
        assert store.reader == "reader-1"
        with pytest.raises(
            OptionError, match=r"the store's reader 'reader-1', got one of the reader 'reader-2'"
        ):
            store.put("lydia", make_memory(reader="reader-2"))
        assert len(store) == 1
    with pytest.raises(
        OptionError, match=r"expected its reader 'reader-1', got the reader 'reader-2'; open it with"
    ):
        Store.open(folder, reader="reader-2")


def test_the_reader_named_at_opening_is_the_one_to_come(folder, make_memory):
    with Store.open(folder, reader="reader-2") as store, pytest.raises(OptionError, match="'reader-2'"):
        store.put("emma", make_memory())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int4"}, "dtype"),
        ({"durability": "maybe"}, "durability"),
        ({"dtype": "int8"}, "as it was made"),
    ],
)
def test_options_that_are_none(folder, options, message):
    Store.open(folder).close()
    with pytest.raises(OptionError, match=message):
        Store.open(folder, **options)


@pytest.mark.parametrize("durability", ["sync", "relaxed", "none"])
def test_every_durability_keeps_what_a_process_wrote(folder, make_memory, durability):
    with Store.open(folder, durability=durability) as store:
        store.put("emma", make_memory(1))
    with Store.open(folder) as store:
        assert store.memory("emma") == make_memory(1)


def test_places_that_are_no_stores(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "letter.txt").write_text("text")
    for place, message in [("file", "a file"), ("things", "a folder with other files")]:
        with pytest.raises(StoreError, match=message):
            Store.open(tmp_path / place)
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreError, match="expected a store, got no such folder"):
            Store.open(tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()
    assert os.listdir(tmp_path / "things") == ["letter.txt"]


def test_a_store_open_for_reading_is_not_written(folder, make_memory):
    Store.open(folder).close()
    with Store.open(folder, read_only=True) as store:
        for change in (lambda: store.put("emma", make_memory()), store.compact):
            with pytest.raises(StoreError, match="a read-only one"):
                change()


def test_a_closed_store_says_so(folder):
    store = Store.open(folder)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="a closed one"):
        store.get("emma")
    assert "closed" in repr(store)


def test_a_process_may_open_a_store_twice(folder, make_memory):
    with Store.open(folder) as one, Store.open(folder) as other:
        one.put("emma", make_memory(1))
        assert other.memory("emma") == make_memory(1)
        one.close()
        other.put("lydia", make_memory(2))
        assert len(other) == 2


def test_a_process_opens_a_store_alike_everywhere(folder):
    with (
        Store.open(folder),
        Store.open(folder, read_only=True),
        pytest.raises(StoreError, match="the same options"),
    ):
        Store.open(folder, durability="none")


def test_a_forgotten_store_is_let_go(folder, make_memory):
    for number in range(3):
        store = Store.open(folder, durability=("sync", "none")[number % 2])
        store.put("emma", make_memory(number))
        del store
    with Store.open(folder) as store:
        assert store.memory("emma") == make_memory(2)


def test_a_store_lives_as_long_as_its_reading(folder, make_memory):
    Store.open(folder).put("emma", make_memory(1))
    with Store.open(folder).snapshot() as now:
        assert now.memory("emma") == make_memory(1)
    with Store.open(folder).transaction() as changes:
        changes.put("emma", make_memory(2))
    assert Store.open(folder).memory("emma") == make_memory(2)


def test_a_store_is_not_closed_within_a_reading(store, make_memory):
    store.put("emma", make_memory(1))
    with store.snapshot() as now:
        with pytest.raises(StoreError, match="no open snapshot"):
            store.close()
        assert now.memory("emma") == make_memory(1)
    assert "emma" in store


def test_a_store_that_was_deleted_and_made_again_is_a_new_one(tmp_path, make_memory):
    for number in range(3):
        with Store.open(tmp_path / "store") as store:
            assert len(store) == 0
            store.put("emma", make_memory(number))
        for file in (tmp_path / "store").iterdir():
            file.unlink()
        (tmp_path / "store").rmdir()


def test_stats_count_without_going_through(store, make_memory):
    with store.transaction() as changes:
        for number in range(3):
            changes.put(str(number), make_memory(number, 60), text="text")
    stats = store.stats()
    assert (stats.version, stats.reader, stats.dtype, stats.documents, stats.tokens) == (
        1,
        "reader-1",
        "float32",
        3,
        3,
    )
    assert stats.memory_bytes == sum(entry.memory_bytes for entry in store.documents())
    assert stats.text_bytes == sum(entry.text_bytes for entry in store.documents())
    assert stats.file_bytes == Path(store.path, "data.mdb").stat().st_size
    assert 0 <= stats.free_bytes < stats.file_bytes
