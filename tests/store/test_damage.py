"""Whatever happens to the file: LMDB never meets it, or the check finds it, and one line says what it is."""

import random

import lmdb
import numpy as np
import pytest

from attar.errors import AttarError, FormatError, RecordError
from attar.memory import Memory
from attar.store import Store
from attar.store.environment import Environment


def fill(store, make_memory, count=20):
    with store.writing() as changes:
        for number in range(count):
            changes.put(f"doc {number}", make_memory(number, 60), text="text " * number)


def test_a_cut_file_is_named_wherever_it_was_cut(folder, make_memory):
    with Store.open(folder) as store:
        fill(store, make_memory)
    data = folder / "data.mdb"
    whole = data.read_bytes()
    for length in [*range(1, len(whole), 9001), 4096, 8192, len(whole) - 1]:
        data.write_bytes(whole[:length])
        for options in ({}, {"read_only": True}):
            with pytest.raises(AttarError) as caught:
                Store.open(folder, **options)
            assert "\n" not in str(caught.value)
        assert data.stat().st_size == length
    data.write_bytes(whole)
    with Store.open(folder) as store:
        assert list(store.check()) == []


# Changes after which LMDB has given up pages at the file's end without ever having written them.
SHORT = [
    [("b", 60), ("a", 4)],
    [("c", 300), ("b", 60), ("b", 60)],
    [("a", 100), ("c", 4), ("a", 60), ("c", 4), ("b", 0), ("a", 0), ("b", 60), ("b", 20)],
]


def test_pages_given_up_before_they_were_written_are_not_missed(folder, monkeypatch):
    """As left by a writer that is killed right after its commit."""

    def memory(size: int) -> Memory:
        return Memory.of_matrix(np.eye(size), tokens=1, reader="reader-1")

    with Store.open(folder) as store, monkeypatch.context() as patch:
        patch.setattr(Environment, "fill_up", lambda self: None)
        for steps in SHORT:
            with store.writing() as changes:
                for name, size in steps:
                    if size:
                        changes.put(name, memory(size))
                    else:
                        changes.remove(name)
        whole = store._environment.map.stat()["psize"] * (store._environment.map.info()["last_pgno"] + 1)
    assert (folder / "data.mdb").stat().st_size < whole
    with Store.open(folder) as store:
        assert (folder / "data.mdb").stat().st_size == whole
        assert store.memory("b") == memory(20)
        assert list(store.check()) == []


def test_a_file_that_is_no_database_is_named(folder):
    Store.open(folder).close()
    for content in (b"x" * 20_000, bytes(20_000), b"{}"):
        (folder / "data.mdb").write_bytes(content)
        with pytest.raises(RecordError, match="expected the file as it was written"):
            Store.open(folder)
        assert (folder / "data.mdb").read_bytes() == content


def test_a_store_that_lost_its_head_is_not_taken_for_a_new_one(folder, make_memory):
    with Store.open(folder) as store:
        fill(store, make_memory)
        store.compact()
        page = store._environment.map.stat()["psize"]
    with (folder / "data.mdb").open("r+b") as file:
        # The number of the last change, in the second of LMDB's heads: its first, of an empty file, counts.
        file.seek(page + 144)
        file.write(bytes(8))
    with pytest.raises(FormatError, match="another database, or a damaged one"):
        Store.open(folder)


def test_flipped_bits_are_found_by_the_check_and_never_end_the_process(folder, make_memory):
    with Store.open(folder) as store:
        fill(store, make_memory, 6)
        store.compact()
        expected = {facts.name: store.memory(facts.name) for facts in store.documents()}
    data = folder / "data.mdb"
    whole = data.read_bytes()
    places = random.Random(0)
    for _ in range(150):
        # Behind LMDB's two heads, which have no checksum (`attar.store.pages`).
        bit = places.randrange(8 * 2 * 4096, 8 * len(whole))
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        data.write_bytes(flipped)
        try:
            store = Store.open(folder)
        except AttarError:
            continue
        with store:
            faults = list(store.check())
            if not faults:
                # It lay where nothing is written: all is as it was.
                assert {facts.name: store.memory(facts.name) for facts in store.documents()} == expected


def test_a_flipped_bit_in_a_memory_is_named_when_it_is_read(folder, make_memory):
    with Store.open(folder) as store:
        store.put("emma", make_memory(1, 60))
        store.put("lydia", make_memory(2, 60))
        numbers = make_memory(1, 60).numbers.tobytes()
    data = folder / "data.mdb"
    content = bytearray(data.read_bytes())
    content[content.index(numbers) + 100] ^= 1
    data.write_bytes(content)
    with Store.open(folder) as store:
        for ask in (store.memory, store.get):
            with pytest.raises(
                RecordError, match="memory of 'emma': expected a whole record, got a wrong checksum"
            ):
                ask("emma")
        assert store.memory("lydia") == make_memory(2, 60)
        assert [fault.name for fault in store.check()] == ["emma"]
        store.put("emma", make_memory(1, 60))
        assert list(store.check()) == []


def test_a_database_of_something_else_is_left_alone(folder):
    with lmdb.open(str(folder)) as database, database.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    before = (folder / "data.mdb").read_bytes()
    with pytest.raises(FormatError, match="another database"):
        Store.open(folder)
    assert (folder / "data.mdb").read_bytes() == before
