"""What search keeps in a store lives and dies with its documents."""

import contextlib

import msgspec
import numpy as np
import pytest

from attar.memory.memory import Memory
from attar.store.format import key_of
from attar.store.repair import repair_store
from attar.store.signatures import _CHANGES, Signatures
from attar.store.store import Store


def memory(number=1):
    return Memory.of_matrix(np.full((4, 4), float(number)), tokens=number, reader="r")


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store") as store:
        yield store


def put(store, name, signature=b"s", number=1):
    with store.transaction() as changes:
        return changes.put(name, memory(number), text=str(number), signature=signature)


def signatures(store):
    with store.snapshot() as now:
        return {key: data for key, _, data in Signatures(now)}


def test_a_signature_is_written_with_its_document(store):
    entry = put(store, "emma", b"one")
    with store.snapshot() as now:
        assert Signatures(now).get(key_of("emma")) == (entry.changed, b"one")


def test_a_replaced_document_has_the_new_signature_or_none(store):
    put(store, "emma", b"one")
    put(store, "emma", b"two", 2)
    assert signatures(store) == {b"emma": b"two"}
    put(store, "emma", None, 3)
    assert signatures(store) == {}


def test_a_removed_document_takes_its_signature_with_it(store):
    put(store, "emma")
    put(store, "x" * 1_000)
    store.remove("emma")
    assert list(signatures(store)) == [key_of("x" * 1_000)]


def test_a_failed_transaction_leaves_the_signature_as_it_was(store):
    put(store, "emma", b"one")
    with contextlib.suppress(RuntimeError), store.transaction() as changes:
        changes.put("emma", memory(2), signature=b"two")
        raise RuntimeError
    assert signatures(store) == {b"emma": b"one"}


def test_statistics_and_later_signatures_leave_documents_as_they_are(store):
    entry = put(store, "emma", None)
    with store.transaction() as changes:
        changes.put_signature(None, b"statistics")
        changes.put_signature("emma", b"later")
    assert store.entry("emma") == entry
    assert signatures(store) == {b"emma": b"later"}
    with store.snapshot() as now:
        assert Signatures(now).statistics == b"statistics"
    assert list(store.check()) == []


def test_the_list_of_changes_names_what_was_written_and_removed(store):
    put(store, "a")
    with store.snapshot() as now:
        before = Signatures(now).change
    put(store, "b")
    store.remove("a")
    with store.snapshot() as now:
        assert Signatures(now).changed_since(before) == {b"a", b"b"}
        assert Signatures(now).changed_since(before + 2) == set()
        assert Signatures(now).changed_since(before + 3) is None


def test_changes_too_long_ago_are_forgotten(store, monkeypatch):
    monkeypatch.setattr("attar.store.signatures._CHANGES", 3)
    for number in range(1, 7):
        put(store, "a", number=number)
    with store.snapshot() as now:
        assert Signatures(now).changed_since(1) is None
        assert Signatures(now).changed_since(4) == {b"a"}
    assert list(store.check()) == []
    assert _CHANGES > 100


def test_compaction_keeps_them(store):
    put(store, "a", b"one")
    store.compact()
    assert signatures(store) == {b"a": b"one"}
    with store.snapshot() as now:
        assert Signatures(now).change == 1


def test_a_damaged_signature_is_none_and_check_tells(store):
    put(store, "a", b"one")
    with store._environment.transaction(write=True) as transaction:
        value = bytearray(transaction.get(b"sa"))
        value[-1] ^= 1
        transaction.put(b"sa", bytes(value))
    assert signatures(store) == {}
    assert [fault.name for fault in store.check()] == ["a"]


@pytest.mark.parametrize("gone", [True, False])
def test_check_finds_a_signature_of_another_version(store, gone):
    put(store, "a", b"one")
    with store._environment.transaction(write=True) as transaction:
        transaction.put(b"sb" if gone else b"sa", transaction.get(b"sa"))
        if not gone:
            from attar.store import format

            entry = msgspec.structs.replace(format.read_entry(transaction.get(b"fa"), "a"), changed=1)
            transaction.put(b"fa", format.wrap(b"f", format.encode(entry)))
    lines = [fault.line for fault in store.check()]
    assert any(("gone" if gone else "earlier version") in line for line in lines)


def test_a_repair_keeps_the_signatures_of_the_documents_that_it_keeps(tmp_path):
    with Store.open(tmp_path / "store") as store:
        put(store, "a", b"one")
        put(store, "b", b"two")
        with store._environment.transaction(write=True) as transaction:
            transaction.put(b"mb", b"damaged")
    assert repair_store(tmp_path / "store").documents == 1
    with Store.open(tmp_path / "store") as store:
        assert signatures(store) == {b"a": b"one"}
        assert list(store.check()) == []
