"""Documents go in, come out the same, in the order of their names, and stay."""

import os
from pathlib import Path

import numpy as np
import pytest

from attar.errors import OptionError, ReaderMismatchError, StoreError, UnknownDocumentError
from attar.store.format import digest_of, encode, wrap
from attar.store.store import Store
from attar.store.validation import Fault

NAMES = ["a", "a/b", "two\nlines", "Ωμέγα 🜁", "x" * 10_000, "x" * 10_000 + "y", "x" * 478]


def test_get_returns_what_was_put(store, make_memory):
    memory = make_memory(7)
    entry = store.put("emma", memory, title="Emma", text="Emma Woodhouse, handsome")
    found = store.get("emma")
    assert found.entry == entry == store.entry("emma")
    assert (found.name, found.entry.title, found.text) == ("emma", "Emma", "Emma Woodhouse, handsome")
    assert found.entry.digest == digest_of("Emma Woodhouse, handsome")
    assert (found.entry.tokens, found.entry.form, found.entry.dtype) == (7, "triangle", "float32")
    assert found.memory == store.memory("emma") == memory


def test_a_document_can_be_stored_without_its_text(store, make_memory):
    store.put("emma", make_memory(), digest=digest_of("not kept"))
    assert (store.get("emma").text, store.entry("emma").digest) == (None, digest_of("not kept"))


def test_an_empty_text_is_kept(store, make_memory):
    store.put("emma", make_memory(), text="")
    assert store.get("emma").text == ""


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_memories_are_converted_to_the_dtype_of_the_store(folder, make_memory, dtype):
    with Store.open(folder, dtype=dtype) as store:
        store.put("emma", make_memory(1, 40))
        assert store.dtype == store.entry("emma").dtype == dtype
        assert store.memory("emma") == make_memory(1, 40).astype(dtype)
    with Store.open(folder) as store:
        assert store.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_memories_of_names_keep_their_cooccurrences(folder, make_named_memory, dtype):
    memory = make_named_memory(1).astype(dtype)
    with Store.open(folder, dtype=dtype) as store:
        store.put("emma", make_named_memory(1))
        assert bytes(store.get("emma").memory_data) == memory.to_bytes()
        assert store.memory("emma") == store.get("emma").memory == memory
        with store.snapshot() as snapshot:
            assert snapshot.memory("emma").cooccurrence == memory.cooccurrence
        assert store.memory("emma").cooccurrence.mentions.any()
        assert list(store.check()) == []


def test_any_text_can_be_a_name(store, make_memory):
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


def test_documents_are_listed_after_any_name(store, make_memory):
    for name in "abcd":
        store.put(name, make_memory())
    assert [entry.name for entry in store.documents(after="bb")] == ["c", "d"]
    assert [entry.name for entry in store.documents(limit=0)] == []


def test_a_long_list_can_be_read_while_the_store_changes(store, make_memory):
    with store.transaction() as changes:
        for number in range(600):
            changes.put(f"{number:03}", make_memory())
    seen = []
    for entry in store.documents():
        seen.append(entry.name)
        if entry.name == "100":
            store.remove("599")
    assert seen == [f"{number:03}" for number in range(599)]


def test_replacing_a_document_keeps_its_creation_time(store, make_memory):
    first = store.put("emma", make_memory(1), text="one")
    second = store.put("emma", make_memory(2))
    assert second.created == first.created
    assert second.changed > first.changed
    assert store.get("emma").text is None
    assert len(store) == 1


def test_a_removed_document_is_gone(store, make_memory):
    store.put("emma", make_memory(), text="Emma")
    store.remove("emma")
    assert "emma" not in store
    assert (len(store), store.stats().memory_bytes, store.stats().text_bytes) == (0, 0, 0)


@pytest.mark.parametrize("ask", [Store.get, Store.memory, Store.entry, Store.remove])
def test_an_unknown_name_raises(store, ask):
    with pytest.raises(
        UnknownDocumentError, match=r"document 'emm': expected one in the store, got no such name"
    ):
        ask(store, "emm")


def test_get_many_keeps_the_order_of_the_names(store, make_memory):
    for number, name in enumerate("abc"):
        store.put(name, make_memory(number))
    assert [record.name for record in store.get_many(["c", "a", "c"])] == ["c", "a", "c"]
    with store.snapshot() as snapshot:
        assert [memory.tokens for memory in snapshot.memories(["c", "a"])] == [2, 0]


def test_a_snapshot_returns_views_of_the_file(store, make_memory):
    store.put("emma", make_memory(1, 100))
    with store.snapshot() as snapshot:
        numbers = snapshot.memory("emma").numbers
        assert not numbers.flags.owndata
        assert not numbers.flags.writeable
        assert numbers.ctypes.data % 64 == 0
        assert np.shares_memory(np.frombuffer(snapshot.view("emma"), np.uint8), numbers)


def test_small_memories_are_aligned(store, make_memory):
    for number in range(9):
        store.put("x" * number + "y", make_memory(number))
    with store.snapshot() as snapshot:
        assert all(snapshot.memory("x" * number + "y").numbers.flags.aligned for number in range(9))


def test_a_snapshot_does_not_see_later_changes(store, make_memory):
    store.put("emma", make_memory(1))
    with store.snapshot() as snapshot:
        store.put("emma", make_memory(2))
        store.put("lydia", make_memory(3))
        assert snapshot.memory("emma") == make_memory(1)
        assert "lydia" not in snapshot
        assert snapshot.header().documents == 1
    assert store.memory("emma") == make_memory(2)


def test_returned_records_stay_valid_after_closing(folder, make_memory):
    with Store.open(folder) as store:
        store.put("emma", make_memory(1, 100), text="Emma")
        memory, record = store.memory("emma"), store.get("emma")
    assert memory == record.memory == make_memory(1, 100)
    assert record.text == "Emma"


def test_a_store_is_a_folder_of_two_files(folder, make_memory):
    with Store.open(folder) as store:
        store.put("emma", make_memory())
    assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]


def test_memories_of_a_second_reader_are_refused(folder, make_memory):
    with Store.open(folder) as store:
        assert store.reader is None
        store.put("emma", make_memory())
        assert store.reader == "reader-1"
        with pytest.raises(
            ReaderMismatchError, match=r"the store's reader 'reader-1', got one of the reader 'reader-2'"
        ):
            store.put("lydia", make_memory(reader="reader-2"))
        assert len(store) == 1
    with pytest.raises(
        ReaderMismatchError, match=r"expected its reader 'reader-1', got the reader 'reader-2'; open it with"
    ):
        Store.open(folder, reader="reader-2")


def test_memories_of_another_reader_than_the_given_one_are_refused(folder, make_memory):
    with (
        Store.open(folder, reader="reader-2") as store,
        pytest.raises(ReaderMismatchError, match="'reader-2'"),
    ):
        store.put("emma", make_memory())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int4"}, "dtype"),
        ({"durability": "maybe"}, "durability"),
        ({"dtype": "int8"}, "as it was made"),
    ],
)
def test_invalid_options_are_refused(folder, options, message):
    Store.open(folder).close()
    with pytest.raises(OptionError, match=message):
        Store.open(folder, **options)


@pytest.mark.parametrize("durability", ["sync", "relaxed", "none"])
def test_documents_are_kept_with_every_durability(folder, make_memory, durability):
    with Store.open(folder, durability=durability) as store:
        store.put("emma", make_memory(1))
    with Store.open(folder) as store:
        assert store.memory("emma") == make_memory(1)


def test_folders_and_files_that_are_not_stores_are_refused(tmp_path):
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


def test_exists_tells_stores_from_other_folders(store, tmp_path):
    (tmp_path / "things").mkdir()
    assert Store.exists(store.path)
    assert not Store.exists(tmp_path / "things")
    assert not Store.exists(tmp_path / "none")


def test_a_read_only_store_cannot_be_written(folder, make_memory):
    Store.open(folder).close()
    with Store.open(folder, read_only=True) as store:
        for change in (lambda: store.put("emma", make_memory()), store.compact):
            with pytest.raises(StoreError, match="a read-only one"):
                change()


def test_a_closed_store_cannot_be_used(folder):
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


def test_a_second_opening_with_another_durability_is_refused(folder):
    with (
        Store.open(folder),
        Store.open(folder, read_only=True),
        pytest.raises(StoreError, match="the same options"),
    ):
        Store.open(folder, durability="none")


def test_an_unreferenced_store_is_closed(folder, make_memory):
    for number in range(3):
        store = Store.open(folder, durability=("sync", "none")[number % 2])
        store.put("emma", make_memory(number))
        del store
    with Store.open(folder) as store:
        assert store.memory("emma") == make_memory(2)


def test_a_snapshot_or_transaction_keeps_its_store_open(folder, make_memory):
    Store.open(folder).put("emma", make_memory(1))
    with Store.open(folder).snapshot() as snapshot:
        assert snapshot.memory("emma") == make_memory(1)
    with Store.open(folder).transaction() as changes:
        changes.put("emma", make_memory(2))
    assert Store.open(folder).memory("emma") == make_memory(2)


def test_closing_within_a_snapshot_is_refused(store, make_memory):
    store.put("emma", make_memory(1))
    with store.snapshot() as snapshot:
        with pytest.raises(StoreError, match="no open snapshot"):
            store.close()
        assert snapshot.memory("emma") == make_memory(1)
    assert "emma" in store


def test_a_store_deleted_and_created_again_is_empty(tmp_path, make_memory):
    for number in range(3):
        with Store.open(tmp_path / "store") as store:
            assert len(store) == 0
            store.put("emma", make_memory(number))
        for file in (tmp_path / "store").iterdir():
            file.unlink()
        (tmp_path / "store").rmdir()


def test_stats_match_the_documents(store, make_memory):
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


def test_a_bad_entry_hides_no_other_from_a_list(store, make_memory, monkeypatch):
    monkeypatch.setattr("attar.store.store._PAGE", 2)
    for number in range(7):
        store.put(f"doc {number}", make_memory(number))
    odd = encode(["doc 3", 5, b"", 0, 0, 1, "triangle", "float32", 9, None])
    other = encode(["a", "", b"", 0, 0, 1, "triangle", "float32", 9, None])
    with store._environment.map.begin(write=True) as transaction:
        transaction.put(b"fdoc 3", wrap(b"f", odd))
        transaction.put(b"fdoc 4", b"?")
        transaction.put(b"fdoc 6", wrap(b"f", other))
        transaction.put(b"f\xffz", b"?")
    listed = list(store.documents())
    assert [entry.name for entry in listed] == [*(f"doc {number}" for number in range(7)), "\ufffdz"]
    faults = {entry.name: entry.line for entry in listed if isinstance(entry, Fault)}
    assert list(faults) == ["doc 3", "doc 4", "doc 6", "\ufffdz"]
    assert faults["doc 3"].startswith(
        "entry of 'doc 3': expected the fields of this version, got Expected `str`"
    )
    assert [entry.name for entry in store.documents(after="doc 2", limit=2)] == ["doc 3", "doc 4"]
    assert {fault.name for fault in store.check()} >= {"doc 3", "doc 4", "doc 6", "\ufffdz"}
