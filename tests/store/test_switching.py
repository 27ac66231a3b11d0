"""`Store.switch_reader`: all memories of another reader in one transaction, or none."""

import numpy as np
import pytest

from attar.errors import StoreError
from attar.memory.memory import Memory
from attar.store.origin import Origin
from attar.store.store import Store
from attar.store.switching import source_version


def memory_of(number: int, reader: str, size: int = 8) -> Memory:
    return Memory.of_matrix(np.full((size, size), float(number)), tokens=number, reader=reader)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", map_size=2**20) as store:
        with store.transaction() as changes:
            for number in range(1, 5):
                origin = Origin(f"{number}.pdf", "2026-11-16", [(0, "page 1")])
                kept = {"title": f"Number {number}", "text": str(number), "applied": (b"key",)}
                changes.put(str(number), memory_of(number, "old"), signature=b"?", origin=origin, **kept)
        yield store


def stage(store: Store, folder, names, size: int = 8) -> Store:
    staged = Store.open(folder)
    with staged.transaction() as changes:
        for name in names:
            entry = store.entry(name)
            memory = memory_of(int(name), "new", size)
            changes.put(name, memory, digest=entry.digest, applied=source_version(entry))
    return staged


def contents(store: Store) -> dict[str, tuple[str, int, str | None]]:
    records = store.get_many(str(entry.name) for entry in store.documents())
    return {each.name: (each.memory.reader, each.memory.tokens, each.text) for each in records}


def test_memories_change_and_everything_else_stays(store, tmp_path):
    before = {str(entry.name): entry for entry in store.documents()}
    with stage(store, tmp_path / "staged", "1234") as staged:
        assert store.switch_reader("new", staged, lambda: ()).documents == 4
    assert contents(store) == {name: ("new", int(name), name) for name in "1234"}
    for entry in store.documents():
        for field in ("title", "digest", "created", "text_bytes", "applied", "source", "date", "parts"):
            assert getattr(entry, field) == getattr(before[entry.name], field)
        assert entry.changed > before[entry.name].changed
    assert store.reader == "new"
    assert list(store.check()) == []


def test_switching_readers_grows_the_map_if_it_is_full(store, tmp_path):
    with stage(store, tmp_path / "staged", "1234", size=400) as staged:
        store.switch_reader("new", staged, lambda: ())
    assert contents(store) == {name: ("new", int(name), name) for name in "1234"}
    assert list(store.check()) == []


@pytest.mark.parametrize("what", ["missing", "of an earlier version"])
def test_a_memory_that_is_missing_or_old_changes_nothing(store, tmp_path, what):
    with stage(store, tmp_path / "staged", "123" if what == "missing" else "1234") as staged:
        if what != "missing":
            store.put("4", memory_of(4, "old"), text="4")
        before = contents(store)
        with pytest.raises(StoreError, match=r"document '4': .*run attar reread again"):
            store.switch_reader("new", staged, lambda: ())
    assert contents(store) == before
    assert store.reader == "old"


def test_documents_can_be_dropped(store, tmp_path):
    with stage(store, tmp_path / "staged", "123") as staged:
        store.switch_reader("new", staged, lambda: {"4"})
    assert sorted(contents(store)) == ["1", "2", "3"]
    assert list(store.check()) == []


def test_a_snapshot_sees_the_old_memories_and_nobody_else_can_write(store, tmp_path):
    def catch_up() -> tuple[str, ...]:
        with pytest.raises(StoreError, match="one transaction at a time"):
            store.remove("1")
        return ()

    with stage(store, tmp_path / "staged", "1234") as staged, store.snapshot() as snapshot:
        store.switch_reader("new", staged, catch_up)
        assert snapshot.memory("1").reader == "old"
    assert store.memory("1").reader == "new"
