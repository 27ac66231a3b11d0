"""Checking finds every record that does not match its entry; compacting saves space and changes nothing else."""

import os
import threading

import msgspec
import pytest

from attar.errors import RecordError, StoreError
from attar.store.records import pack_parts, unpack_parts, write_entry
from attar.store.store import Store
from tests.store.made import flip, make_memory, memory_in, overwrite, put, remove, value_of


@pytest.fixture
def filled(store):
    for number, name in enumerate(["a", "b", "x" * 999]):
        put(store, name, make_memory(number), text=f"text {number}")
    return store


def found(store: Store) -> list[tuple[str | None, str]]:
    return [(fault.name, fault.line) for fault in store.check()]


def test_a_damaged_signature_is_none_and_found(store):
    put(store, "a", make_memory(1), signature=b"one")
    flip(store, b"sa")
    with store.snapshot() as now:
        assert list(now.signatures()) == []
    assert store.get("a").signature is None
    assert [name for name, _ in found(store)] == ["a"]


@pytest.mark.parametrize("gone", [True, False])
def test_a_signature_of_another_version_is_found(store, gone):
    put(store, "a", make_memory(1), signature=b"one")
    if gone:
        overwrite(store, b"sb", value_of(store, b"sa"))
    else:
        overwrite(store, b"fa", write_entry(msgspec.structs.replace(store.get("a").entry, changed=1)))
        assert store.get("a").signature is None
    assert any(("gone" if gone else "earlier version") in line for _, line in found(store))


@pytest.mark.parametrize(("kind", "what"), [(b"f", "entry"), (b"m", "memory"), (b"t", "text")])
def test_a_flipped_bit_is_found_with_the_documents_name(filled, kind, what):
    flip(filled, kind + b"b")
    name, line = found(filled)[0]
    assert name == "b"
    assert line.startswith(f"{what} of 'b' is damaged: its checksum is wrong")


@pytest.mark.parametrize("kind", [b"f", b"m", b"t"])
@pytest.mark.parametrize("mend", ["put", "remove"])
def test_a_damaged_document_can_be_replaced_or_removed(filled, kind, mend):
    flip(filled, kind + b"b")
    if mend == "put":
        put(filled, "b", make_memory(5))
    else:
        remove(filled, "b")
    assert found(filled) == []
    assert len(filled) == (3 if mend == "put" else 2)


@pytest.mark.parametrize("other", ["a", "x" * 1000])
def test_an_entry_with_another_name_is_found(filled, other):
    overwrite(filled, b"fb", write_entry(msgspec.structs.replace(filled.get("b").entry, name=other)))
    assert "entry of 'b' is the entry of" in found(filled)[0][1]


@pytest.mark.parametrize(
    ("change", "what"),
    [({"tokens": 9}, "tokens"), ({"digest": b"1"}, "digest"), ({"memory_bytes": 7}, "memory's bytes")],
)
def test_an_entry_that_does_not_match_its_memory_or_text_is_found(filled, change, what):
    overwrite(filled, b"fb", write_entry(msgspec.structs.replace(filled.get("b").entry, **change)))
    assert any(name == "b" and line.startswith(f"{what} of 'b'") for name, line in found(filled))


PARTS = [(0, "page 1"), (900, "page 2")]


@pytest.mark.parametrize(
    "data",
    [
        b"no zlib",
        pack_parts(PARTS)[:-3],
        pack_parts([(9, "b"), (3, "a")]),
        pack_parts([(-1, "a")]),
        pack_parts([("a", 1)]),
    ],
    ids=["bytes", "cut", "order", "negative", "types"],
)
def test_damaged_parts_are_refused_and_found_by_the_check(store, data):
    with pytest.raises(RecordError, match="parts of 'emma'"):
        unpack_parts(data, "emma")
    put(store, "emma", make_memory(1), text="Emma")
    overwrite(store, b"femma", write_entry(msgspec.structs.replace(store.get("emma").entry, parts=data)))
    assert ["parts of 'emma'" in fault.line for fault in store.check()] == [True]


def fill(store, count=40):
    with store.transaction() as changes:
        for number in range(count):
            put(changes, str(number), make_memory(number, 60), text="text")


def test_compacting_changes_no_document(store):
    fill(store)
    before = (list(store.documents()), store.header)
    store.compact()
    assert (list(store.documents()), store.header) == before
    assert all(memory_in(store, str(number)) == make_memory(number, 60) for number in range(40))
    assert list(store.check()) == []
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]


def test_snapshots_of_other_threads_wait_for_compacting(store):
    fill(store)
    done, faults = threading.Event(), []

    def read():
        while not done.is_set():
            with store.snapshot() as snapshot:
                if memory_in(snapshot, "7") != make_memory(7, 60):
                    faults.append("7")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(5):
        put(store, f"x{number}", make_memory(number))
        store.compact()
    done.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(store) == 45


def test_a_failed_copy_leaves_the_store_unchanged(store, monkeypatch):
    fill(store)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("attar.store.lmdb_env.os.replace", full)
        with pytest.raises(StoreError, match="the disk is full"):
            store.compact()
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]
    assert len(store) == 40
    assert list(store.check()) == []


def test_the_copy_of_a_killed_compaction_is_deleted(store, folder):
    store.close()
    (folder / "data.mdb.copy").write_bytes(b"half of it")
    with Store.open(folder):
        assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]
