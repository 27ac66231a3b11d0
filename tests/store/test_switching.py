"""`Store.switch_reader`: all memories of another reader in one transaction, or none."""

import pytest

from attar.errors import RecordError, StoreError
from attar.store.maintenance import source_version
from attar.store.records import Origin
from attar.store.store import Store
from tests.store.made import flip, make_memory, memory_in, put


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", map_size=2**20) as store:
        with store.transaction() as changes:
            for number in range(1, 5):
                origin = Origin(f"{number}.pdf", "2026-11-16", [(0, "page 1")])
                kept = {"title": f"Number {number}", "text": str(number), "applied": (b"key",)}
                put(
                    changes,
                    str(number),
                    make_memory(number, reader="old"),
                    signature=b"?",
                    origin=origin,
                    **kept,
                )
        yield store


def stage(store: Store, folder, names, size: int = 8) -> Store:
    staged = Store.open(folder)
    with staged.transaction() as changes:
        for name in names:
            entry = store.entry(name)
            memory = make_memory(int(name), size, "new")
            put(changes, name, memory, digest=entry.digest, applied=source_version(entry))
    return staged


def contents(store: Store) -> dict[str, tuple[str, int, str | None]]:
    records = [store.get(str(entry.name)) for entry in store.documents()]
    return {record.name: (record.memory.reader, record.memory.tokens, record.text) for record in records}


def test_memories_change_and_everything_else_stays(store, tmp_path):
    before = {str(entry.name): entry for entry in store.documents()}
    with stage(store, tmp_path / "staged", "1234") as staged:
        assert store.switch_reader("new", staged, lambda: None).documents == 4
    assert contents(store) == {name: ("new", int(name), name) for name in "1234"}
    for entry in store.documents():
        for field in ("title", "digest", "created", "text_bytes", "applied", "source", "date", "parts"):
            assert getattr(entry, field) == getattr(before[entry.name], field)
        assert entry.changed > before[entry.name].changed
    assert store.reader == "new"
    assert list(store.check()) == []


def test_switching_readers_grows_the_map_if_it_is_full(store, tmp_path):
    with stage(store, tmp_path / "staged", "1234", size=4000) as staged:
        store.switch_reader("new", staged, lambda: None)
    assert contents(store) == {name: ("new", int(name), name) for name in "1234"}
    assert list(store.check()) == []


@pytest.mark.parametrize("what", ["missing", "of an earlier version"])
def test_a_memory_that_is_missing_or_old_changes_nothing(store, tmp_path, what):
    with stage(store, tmp_path / "staged", "123" if what == "missing" else "1234") as staged:
        if what != "missing":
            put(store, "4", make_memory(4, reader="old"), text="4")
        before = contents(store)
        with pytest.raises(StoreError, match="document '4' was not read with the new reader"):
            store.switch_reader("new", staged, lambda: None)
    assert contents(store) == before
    assert store.reader == "old"


def test_a_staged_memory_that_is_damaged_changes_nothing(store, tmp_path):
    before = contents(store)
    with stage(store, tmp_path / "staged", "1234") as staged:
        flip(staged, b"m3")
        with pytest.raises(RecordError, match="memory of '3' is damaged"):
            store.switch_reader("new", staged, lambda: None)
    assert contents(store) == before


def test_a_snapshot_sees_the_old_memories_and_nobody_else_can_write(store, tmp_path):
    def catch_up() -> None:
        with pytest.raises(StoreError, match="this thread has a transaction open already"):
            store.remove("1")

    with stage(store, tmp_path / "staged", "1234") as staged, store.snapshot() as snapshot:
        store.switch_reader("new", staged, catch_up)
        assert memory_in(snapshot, "1").reader == "old"
    assert memory_in(store, "1").reader == "new"
