"""Checking finds every record that does not match its entry; compacting saves space and changes nothing else."""

import dataclasses
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from attar.errors import StoreError
from attar.store.format import HEADER_KEY, encode, key_of, read_entry, wrap
from attar.store.store import Store


@pytest.fixture
def filled(store, make_memory):
    for number, name in enumerate(["a", "b", "x" * 999]):
        store.put(name, make_memory(number), text=f"text {number}")
    return store


def overwrite(store: Store, key: bytes, value: bytes | None) -> None:
    """Write past the store what it never would."""
    with store._environment.map.begin(write=True) as transaction:
        if value is None:
            transaction.delete(key)
        else:
            transaction.put(key, value)


def found(store: Store) -> list[tuple[str | None, str]]:
    return [(fault.name, fault.line) for fault in store.check()]


def flipped(store: Store, key: bytes) -> bytes:
    with store._environment.map.begin() as transaction:
        value = bytearray(transaction.get(key))
    value[-1] ^= 4
    return bytes(value)


def test_a_sound_store_has_no_faults(filled):
    assert found(filled) == []


@pytest.mark.parametrize(("kind", "what"), [(b"f", "entry"), (b"m", "memory"), (b"t", "text")])
def test_a_flipped_bit_is_found_with_the_documents_name(filled, kind, what):
    overwrite(filled, kind + b"b", flipped(filled, kind + b"b"))
    name, line = found(filled)[0]
    assert name == "b"
    assert line.startswith(f"{what} of 'b': expected a whole record, got a wrong checksum")


@pytest.mark.parametrize("kind", [b"f", b"m", b"t"])
@pytest.mark.parametrize("mend", ["put", "remove"])
def test_a_damaged_document_can_be_replaced_or_removed(filled, make_memory, kind, mend):
    overwrite(filled, kind + b"b", flipped(filled, kind + b"b"))
    if mend == "put":
        filled.put("b", make_memory(5))
    else:
        filled.remove("b")
    assert found(filled) == []
    assert len(filled) == (3 if mend == "put" else 2)


@pytest.mark.parametrize(("kind", "what"), [(b"m", "memory"), (b"t", "text")])
def test_a_missing_memory_or_text_is_found(filled, kind, what):
    overwrite(filled, kind + b"b", None)
    assert found(filled)[0][0] == "b"
    assert what in found(filled)[0][1]


def test_a_missing_entry_is_found_by_the_totals(filled):
    overwrite(filled, b"fb", None)
    ((name, line),) = found(filled)
    assert name is None
    assert "documents=3" in line
    assert "documents=2" in line


def test_a_value_without_an_entry_is_found(filled):
    overwrite(filled, b"mzz", wrap(b"m", b"?"))
    assert "expected 10 values for its documents, got 11" in found(filled)[0][1]


@pytest.mark.parametrize("other", ["a", "x" * 1000])
def test_an_entry_with_another_name_is_found(filled, other):
    with filled.snapshot() as snapshot:
        stray = wrap(b"f", encode(msgspec.structs.replace(snapshot.entry("b"), name=other)))
    overwrite(filled, b"fb", stray)
    assert "key of" in found(filled)[0][1]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"tokens": 9}, "tokens"),
        ({"form": "names"}, "form"),
        ({"dtype": "int8"}, "dtype"),
        ({"digest": b"1"}, "digest"),
    ],
)
def test_an_entry_that_does_not_match_its_memory_or_text_is_found(filled, change, what):
    with filled._environment.map.begin() as transaction:
        entry = read_entry(transaction.get(b"fb"), "b")
    overwrite(filled, b"fb", wrap(b"f", encode(msgspec.structs.replace(entry, **change))))
    assert any(name == "b" and line.startswith(f"{what} of 'b'") for name, line in found(filled))


def test_a_memory_of_another_reader_is_found(filled, make_memory):
    overwrite(filled, b"mb", wrap(b"m", make_memory(1, reader="reader-x").to_bytes()))
    ((name, line),) = found(filled)
    assert name == "b"
    assert line.startswith("reader of 'b': expected 'reader-1', got 'reader-x'")


def test_a_damaged_header_is_found(filled):
    overwrite(filled, HEADER_KEY, flipped(filled, HEADER_KEY))
    assert [name for name, _ in found(filled)] == [None]


def test_a_record_with_a_long_name_is_checked(filled):
    key = b"m" + key_of("x" * 999)
    overwrite(filled, key, flipped(filled, key))
    assert "wrong checksum" in found(filled)[0][1]


def test_a_read_only_store_can_be_checked(filled, folder):
    filled.close()
    with Store.open(folder, read_only=True) as store:
        assert found(store) == []


def fill(store, make_memory, count=40):
    with store.transaction() as changes:
        for number in range(count):
            changes.put(str(number), make_memory(number, 60), text="text")


def test_compacting_frees_the_space_of_removed_documents(store, make_memory):
    fill(store, make_memory)
    for number in range(35):
        store.remove(str(number))
    before = store.stats()
    saved = store.compact()
    after = store.stats()
    assert saved == before.file_bytes - after.file_bytes > before.file_bytes // 2
    assert after.free_bytes < 8 * 4096


def test_compacting_changes_no_document(store, make_memory):
    fill(store, make_memory)
    before = (list(store.documents()), store.header)
    store.compact()
    assert (list(store.documents()), store.header) == before
    assert all(store.memory(str(number)) == make_memory(number, 60) for number in range(40))
    assert list(store.check()) == []
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]


def test_an_empty_store_can_be_compacted(store):
    store.compact()
    assert len(store) == 0


def test_a_compacted_store_can_be_written(store, folder, make_memory):
    fill(store, make_memory)
    store.compact()
    store.put("emma", make_memory(1))
    store.close()
    with Store.open(folder) as again:
        assert again.memory("emma") == make_memory(1)
        assert len(again) == 41


def test_other_store_objects_stay_usable_after_compacting(store, folder, make_memory):
    fill(store, make_memory)
    with Store.open(folder) as other:
        store.compact()
        other.put("emma", make_memory(1))
        assert store.memory("emma") == make_memory(1)


def test_snapshots_of_other_threads_wait_for_compacting(store, make_memory):
    fill(store, make_memory)
    done, faults = threading.Event(), []

    def read():
        while not done.is_set():
            with store.snapshot() as snapshot:
                if snapshot.memory("7", check=True) != make_memory(7, 60):
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


def test_transactions_of_other_threads_wait_for_compacting(store, make_memory):
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


def test_compacting_within_a_snapshot_of_the_same_thread_is_refused(store):
    with store.snapshot(), pytest.raises(StoreError, match="no open snapshot"):
        store.compact()


def test_a_failed_copy_leaves_the_store_unchanged(store, make_memory, monkeypatch):
    fill(store, make_memory)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("attar.store.maintenance.os.replace", full)
        with pytest.raises(StoreError, match="a full disk"):
            store.compact()
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]
    assert len(store) == 40
    assert list(store.check()) == []


def test_the_copy_of_a_killed_compaction_is_deleted(store, folder):
    store.close()
    (folder / "data.mdb.copy").write_bytes(b"half of it")
    with Store.open(folder):
        assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]


# What imports of version 0.1.0 let in: entries, by field, and memories.
ODD_FIELDS = {
    "name": [None, 5, "", b"b"],
    "title": [None, 5, 1.5, b"T"],
    "digest": [None, "abc", b"x" * 33, b"short"],
    "created": [None, 1.5, -1, 2**62],
    "changed": ["now", float("nan")],
    "tokens": [None, 1.0, float("nan"), -1, 2**63],
    "form": [None, "cube", 3],
    "dtype": [None, "float64"],
    "memory_bytes": [None, -1, 1.5, 7],
    "text_bytes": ["7", -1, 1.5, 7, None],
}
ODD = [(field, value) for field, values in ODD_FIELDS.items() for value in values]


@pytest.mark.parametrize(("field", "value"), ODD, ids=[f"{field} {value!r}" for field, value in ODD])
def test_every_odd_fact_that_was_ever_let_in_is_found(filled, field, value):
    with filled._environment.map.begin() as transaction:
        entry = read_entry(transaction.get(b"fb"), "b")
    values = list(msgspec.structs.astuple(entry))
    values[entry.__struct_fields__.index(field)] = value
    overwrite(filled, b"fb", wrap(b"f", encode(values)))
    assert "b" in [name for name, _ in found(filled)]


def test_numbers_that_are_not_finite_are_found(filled, make_memory):
    memory = make_memory(1)
    numbers = memory.numbers.copy()
    numbers[0] = float("inf")
    overwrite(filled, b"mb", wrap(b"m", dataclasses.replace(memory, numbers=numbers).to_bytes()))
    ((name, line),) = found(filled)
    assert (name, "finite" in line) == ("b", True)
