"""What search keeps in a store lives and dies with its documents."""

import msgspec
import pytest

from attar.store.records import write_entry
from tests.store import made
from tests.store.made import flip, make_memory, overwrite, value_of


def put(store, name, signature=b"s", number=1):
    return made.put(store, name, make_memory(number), text=str(number), signature=signature)


def signatures(store):
    with store.snapshot() as now:
        return {signature.key: signature.data for signature in now.signatures}


def test_the_list_of_changes_names_what_was_written_and_removed(store):
    put(store, "a")
    with store.snapshot() as now:
        before = now.signatures.change
    put(store, "b")
    store.remove("a")
    with store.snapshot() as now:
        assert now.signatures.changed_since(before) == {b"a", b"b"}
        assert now.signatures.changed_since(before + 2) == set()
        assert now.signatures.changed_since(before + 3) is None


def test_changes_too_long_ago_are_forgotten(store, monkeypatch):
    monkeypatch.setattr("attar.store.signatures._CHANGES", 3)
    for number in range(1, 7):
        put(store, "a", number=number)
    with store.snapshot() as now:
        assert now.signatures.changed_since(1) is None
        assert now.signatures.changed_since(4) == {b"a"}
    assert list(store.check()) == []


def test_a_damaged_signature_is_none_and_check_tells(store):
    put(store, "a", b"one")
    flip(store, b"sa")
    assert signatures(store) == {}
    assert store.get("a").signature is None
    assert [fault.name for fault in store.check()] == ["a"]


@pytest.mark.parametrize("gone", [True, False])
def test_check_finds_a_signature_of_another_version(store, gone):
    put(store, "a", b"one")
    if gone:
        overwrite(store, b"sb", value_of(store, b"sa"))
    else:
        overwrite(store, b"fa", write_entry(msgspec.structs.replace(store.entry("a"), changed=1)))
        assert store.get("a").signature is None
    lines = [fault.line for fault in store.check()]
    assert any(("gone" if gone else "earlier version") in line for line in lines)
