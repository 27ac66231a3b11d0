"""Documents go in, come out the same, in the order of their names, and stay."""

import os

import msgspec
import pytest

from attar.errors import ReaderMismatchError, StoreError, UnknownDocumentError
from attar.memory.memory import wrap
from attar.store.records import Fault, digest_of, pack_parts, unpack_parts, write_entry
from attar.store.store import Store
from tests.store.made import make_memory, memory_in, overwrite, put, remove

NAMES = ["a", "a/b", "two\nlines", "Ωμέγα 🜁", "x" * 10_000, "x" * 10_000 + "y", "x" * 478]


def test_get_returns_what_was_put(store):
    memory = make_memory(7)
    parts = [(0, "page 1"), (900, "page 2")]
    given = {"title": "Emma", "source": "/books/emma.pdf", "date": "1815", "parts": pack_parts(parts)}
    entry = put(store, "emma", memory, text="Emma Woodhouse, handsome", **given)
    found = store.get("emma")
    assert found.entry == entry == store.get("emma").entry
    assert (found.name, found.entry.title, found.text) == ("emma", "Emma", "Emma Woodhouse, handsome")
    assert found.entry.digest == digest_of("Emma Woodhouse, handsome")
    assert (found.entry.tokens, found.memory) == (7, memory)
    assert (found.entry.source, found.entry.date) == ("/books/emma.pdf", "1815")
    assert unpack_parts(found.entry.parts, "emma") == parts


def test_any_text_can_be_a_name(store):
    for number, name in enumerate(NAMES):
        put(store, name, make_memory(number))
    for number, name in enumerate(NAMES):
        assert name in store
        assert memory_in(store, name) == make_memory(number)
    assert [entry.name for entry in store.documents()] == sorted(NAMES)
    assert list(store.check()) == []


def test_a_long_list_can_be_read_while_the_store_changes(store):
    with store.transaction() as changes:
        for number in range(600):
            put(changes, f"{number:03}", make_memory())
    seen = []
    for entry in store.documents():
        seen.append(entry.name)
        if entry.name == "100":
            remove(store, "599")
    assert seen == [f"{number:03}" for number in range(599)]


@pytest.mark.parametrize("ask", [Store.get, remove])
def test_an_unknown_name_raises(store, ask):
    with pytest.raises(UnknownDocumentError, match="there is no document 'emm'"):
        ask(store, "emm")


def test_a_snapshot_that_has_ended_cannot_be_used(store):
    with store.snapshot() as now:
        pass
    with pytest.raises(StoreError, match="has failed, has ended or was not entered; begin another"):
        now.entry("emma")


def test_a_snapshot_does_not_see_later_changes(store):
    put(store, "emma", make_memory(1))
    with store.snapshot() as snapshot:
        put(store, "emma", make_memory(2))
        put(store, "lydia", make_memory(3))
        assert memory_in(snapshot, "emma") == make_memory(1)
        assert "lydia" not in snapshot
        assert snapshot.header.documents == 1
    assert memory_in(store, "emma") == make_memory(2)


def test_memories_of_a_second_reader_are_refused(folder):
    with Store.open(folder) as store:
        assert store.reader is None
        put(store, "emma", make_memory())
        assert store.reader == "reader-1"
        with pytest.raises(ReaderMismatchError, match="by the reader 'reader-2', the store's is 'reader-1'"):
            put(store, "lydia", make_memory(reader="reader-2"))
        assert len(store) == 1
    with pytest.raises(ReaderMismatchError, match="has memories of the reader 'reader-1', not of 'reader-2'"):
        Store.open(folder, reader="reader-2")


def test_folders_and_files_that_are_not_stores_are_refused(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "letter.txt").write_text("text")
    for place, message in [("file", "is a file, not"), ("things", "has other files, and no store")]:
        with pytest.raises(StoreError, match=message):
            Store.open(tmp_path / place)
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreError, match="there is no library"):
            Store.open(tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()
    assert os.listdir(tmp_path / "things") == ["letter.txt"]


def test_a_read_only_store_cannot_be_written(folder):
    Store.open(folder).close()
    with Store.open(folder, read_only=True) as store:
        for change in (lambda: put(store, "emma", make_memory()), store.compact):
            with pytest.raises(StoreError, match="open for reading only"):
                change()


def test_a_closed_store_cannot_be_used(folder):
    store = Store.open(folder)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed; open it again"):
        store.get("emma")
    assert "closed" in repr(store)


def test_a_process_may_open_a_store_twice(folder):
    with Store.open(folder) as one, Store.open(folder) as other:
        put(one, "emma", make_memory(1))
        assert memory_in(other, "emma") == make_memory(1)
        one.close()
        put(other, "lydia", make_memory(2))
        assert len(other) == 2


def test_a_snapshot_or_transaction_keeps_its_store_open(folder):
    put(Store.open(folder), "emma", make_memory(1))
    with Store.open(folder).snapshot() as snapshot:
        assert memory_in(snapshot, "emma") == make_memory(1)
    with Store.open(folder).transaction() as changes:
        put(changes, "emma", make_memory(2))
    assert memory_in(Store.open(folder), "emma") == make_memory(2)


def test_a_bad_entry_hides_no_other_from_a_list(store, monkeypatch):
    monkeypatch.setattr("attar.store.store._PAGE", 2)
    for number in range(7):
        put(store, f"doc {number}", make_memory(number))
    odd = msgspec.msgpack.encode(["doc 3", 5, b"", 0, 0, 1, 9, None])
    overwrite(store, b"fdoc 3", wrap(b"f", odd, "entry"))
    overwrite(store, b"fdoc 4", b"?")
    overwrite(store, b"fdoc 6", write_entry(msgspec.structs.replace(store.get("doc 5").entry, name="a")))
    overwrite(store, b"f\xffz", b"?")
    listed = list(store.documents())
    assert [entry.name for entry in listed] == [*(f"doc {number}" for number in range(7)), "\ufffdz"]
    faults = {entry.name: entry.line for entry in listed if isinstance(entry, Fault)}
    assert list(faults) == ["doc 3", "doc 4", "doc 6", "\ufffdz"]
    assert faults["doc 3"].startswith("entry of 'doc 3' is damaged: Expected `str`")
    assert faults["doc 6"] == "entry of 'doc 6' is the entry of 'a'"
    assert [entry.name for entry in store.documents(after="doc 2", limit=2)] == ["doc 3", "doc 4"]
    assert {fault.name for fault in store.check()} >= {"doc 3", "doc 4", "doc 6", "\ufffdz"}
