"""A check finds every record that is not what it says."""

import msgspec
import pytest

from attar.store import Store
from attar.store.keys import key_of
from attar.store.reading import HEAD, facts_in
from attar.store.record import encode
from attar.store.seal import seal


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


@pytest.mark.parametrize(("kind", "what"), [(b"f", "facts"), (b"m", "memory"), (b"t", "text")])
def test_a_flipped_bit_is_found_and_named(filled, kind, what):
    overwrite(filled, kind + b"b", flipped(filled, kind + b"b"))
    name, line = found(filled)[0]
    assert name == "b"
    assert line.startswith(f"{what} of 'b': expected a whole record, got a wrong checksum")


@pytest.mark.parametrize("kind", [b"f", b"m", b"t"])
@pytest.mark.parametrize("mend", ["put", "remove"])
def test_a_damaged_document_is_mended_by_writing_it_anew_or_removing_it(filled, make_memory, kind, mend):
    overwrite(filled, kind + b"b", flipped(filled, kind + b"b"))
    if mend == "put":
        filled.put("b", make_memory(5))
    else:
        filled.remove("b")
    assert found(filled) == []
    assert len(filled) == (3 if mend == "put" else 2)


@pytest.mark.parametrize(("kind", "what"), [(b"m", "memory"), (b"t", "text")])
def test_a_missing_part_is_found(filled, kind, what):
    overwrite(filled, kind + b"b", None)
    assert found(filled)[0][0] == "b"
    assert what in found(filled)[0][1]


def test_missing_facts_are_found_by_the_count(filled):
    overwrite(filled, b"fb", None)
    ((name, line),) = found(filled)
    assert name is None
    assert "documents=3" in line
    assert "documents=2" in line


def test_a_part_without_facts_is_found(filled):
    overwrite(filled, b"mzz", seal(b"m", b"?"))
    assert "expected 10 entries for its documents, got 11" in found(filled)[0][1]


@pytest.mark.parametrize("other", ["a", "x" * 1000])
def test_a_record_under_another_name_is_found(filled, other):
    with filled.reading() as now:
        stray = seal(b"f", encode(msgspec.structs.replace(now.facts("b"), name=other)))
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
def test_facts_that_are_not_true_are_found(filled, change, what):
    with filled._environment.map.begin() as transaction:
        facts = facts_in(transaction.get(b"fb"), "b")
    overwrite(filled, b"fb", seal(b"f", encode(msgspec.structs.replace(facts, **change))))
    assert any(name == "b" and line.startswith(f"{what} of 'b'") for name, line in found(filled))


def test_another_readers_memory_is_found(filled, make_memory):
    overwrite(filled, b"mb", seal(b"m", make_memory(1, reader="reader-x").to_bytes()))
    assert any("reader-x" in line or "bytes" in line for _, line in found(filled))


def test_a_damaged_head_is_found(filled):
    overwrite(filled, HEAD, flipped(filled, HEAD))
    assert [name for name, _ in found(filled)] == [None]


def test_a_long_names_record_is_checked_too(filled):
    key = b"m" + key_of("x" * 999)
    overwrite(filled, key, flipped(filled, key))
    assert "wrong checksum" in found(filled)[0][1]


def test_a_store_open_for_reading_is_checked_as_well(filled, folder):
    filled.close()
    with Store.open(folder, read_only=True) as store:
        assert found(store) == []
