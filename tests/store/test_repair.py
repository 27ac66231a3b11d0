"""A repair keeps every document that can be read, puts aside the others with their names, and can be killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from attar.errors import BusyError, RecordError, StoreError
from attar.store.format import HEADER_KEY, encode, key_of, wrap
from attar.store.pages import PageFile
from attar.store.repair import repair_store
from attar.store.signatures import Signatures
from attar.store.store import Store


@pytest.fixture
def filled(folder, make_memory, make_named_memory):
    with Store.open(folder) as store:
        for number in range(12):
            store.put(f"doc {number:02}", make_memory(number, 60), title=f"T{number}", text=f"Emma {number}.")
        store.put("named", make_named_memory(3))
        store.put("x" * 999, make_memory(5))
    return folder


def overwrite(folder, key, value):
    """Write past the store what it never would."""
    with Store.open(folder) as store, store._environment.map.begin(write=True) as transaction:
        transaction.put(key, value) if value is not None else transaction.delete(key)


def value_of(folder, key):
    with Store.open(folder) as store, store._environment.map.begin() as transaction:
        return bytes(transaction.get(key))


def flipped(folder, key):
    value = bytearray(value_of(folder, key))
    value[-1] ^= 4
    return bytes(value)


def names(folder):
    with Store.open(folder, read_only=True) as store:
        assert list(store.check()) == []
        return [entry.name for entry in store.documents()]


def page_size(folder):
    with Store.open(folder) as store:
        return store._environment.map.stat()["psize"]


def test_an_intact_store_is_not_changed(filled):
    before = (filled / "data.mdb").read_bytes()
    done = repair_store(filled)
    assert (done.documents, done.faults, done.folder) == (14, [], None)
    assert (filled / "data.mdb").read_bytes() == before
    assert sorted(os.listdir(filled)) == ["data.mdb", "lock.mdb"]


def test_a_damaged_memory_is_put_aside_with_its_name_and_the_rest_kept(filled):
    expected = names(filled)
    damaged = flipped(filled, b"mdoc 03")
    overwrite(filled, b"mdoc 03", damaged)
    before = (filled / "data.mdb").read_bytes()
    done = repair_store(filled)
    assert done.documents == 13
    (fault,) = done.faults
    assert fault.name == "doc 03"
    assert "put aside: memory of 'doc 03': expected a whole record, got a wrong checksum" in fault.line
    assert names(filled) == [name for name in expected if name != "doc 03"]
    assert done.folder == filled / "repair-1"
    assert (done.folder / "data.mdb").read_bytes() == before
    report = json.loads((done.folder / "report.json").read_text())
    assert report["documents"] == 13
    assert report["faults"][0]["name"] == "doc 03"
    (aside,) = done.folder.glob("*.memory")
    assert aside.read_bytes() == damaged


def test_a_document_keeps_what_is_intact_of_it(filled, make_memory):
    entry = msgspec.msgpack.decode(value_of(filled, b"fdoc 01")[16:])
    entry[5] = 1.5
    overwrite(filled, b"fdoc 01", wrap(b"f", encode(entry)))
    overwrite(filled, b"tdoc 02", flipped(filled, b"tdoc 02"))
    done = repair_store(filled)
    assert done.documents == 14
    assert [fault.name for fault in done.faults] == ["doc 01", "doc 02"]
    assert all("the rest is kept" in fault.line for fault in done.faults)
    names(filled)
    with Store.open(filled) as store:
        first, second = store.get("doc 01"), store.get("doc 02")
    assert (first.memory, first.text, first.entry.title) == (make_memory(1, 60), "Emma 1.", "")
    assert (second.memory, second.text, second.entry.title) == (make_memory(2, 60), None, "T2")


CHANGES = b"j" + (10**6).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("key", "value", "name", "line"),
    [
        (b"sdoc 03", b"?", "doc 03", "signature of 'doc 03': expected a whole record, got 1 bytes"),
        (b"sdoc 03", wrap(b"s", bytes(9)), "doc 03", "signature of 'doc 03': expected one of its document"),
        (b"sgone", wrap(b"s", bytes(9)), "gone", "got one of a document that is gone"),
        (b"s", b"?", None, "attar store refit fits them again"),
        (CHANGES, b"?", None, "changes of 'store': expected a whole record"),
        (CHANGES, wrap(b"j", encode("emma")), None, "expected keys of documents"),
        (b"jlate", wrap(b"j", encode([])), None, "expected a number of 8 bytes, got b'late'"),
        (b"zfoo", b"?", None, "key b'zfoo': expected one of this version, got an unknown one"),
        (b"abc", b"?", None, "key b'abc': expected one of this version"),
        (b"f", b"?", None, "key b'f': expected one of this version"),
        (b"t\xff", b"?", "\ufffd", "put aside"),
    ],
    ids=[
        "signature",
        "earlier signature",
        "signature of none",
        "statistics",
        "changes",
        "changes that are no list",
        "number of changes",
        "unknown kind",
        "header with a name",
        "entry without a name",
        "text without a name",
    ],
)
def test_what_the_check_finds_beside_the_documents_is_left_out(filled, key, value, name, line):
    expected = names(filled)
    overwrite(filled, key, value)
    with Store.open(filled, read_only=True) as store:
        assert list(store.check())
    done = repair_store(filled)
    (fault,) = done.faults
    assert (fault.name, done.documents) == (name, 14)
    assert line in fault.line
    assert names(filled) == expected


def test_signatures_and_statistics_that_are_intact_are_kept(filled, make_memory):
    with Store.open(filled) as store, store.transaction() as changes:
        changes.put_signature(None, b"statistics")
        for number in range(3):
            changes.put("doc 00 " * number + "signed", make_memory(number), signature=b"%d" % number)
        changes.put_signature("doc 01", b"of doc 01")
    overwrite(filled, b"mdoc 01", b"?")
    (fault,) = repair_store(filled).faults
    assert fault.name == "doc 01"
    with Store.open(filled) as store, store.snapshot() as now:
        kept = Signatures(now)
        assert kept.statistics == b"statistics"
        assert sorted(data for _, _, data in kept) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("value", [None, wrap(b"a", encode([None, "float32", 1.5])), b"?"])
def test_a_lost_header_is_made_again(filled, value):
    expected = names(filled)
    overwrite_header = [sys.executable, "-c", OVERWRITE, str(filled), repr(value)]
    subprocess.run(overwrite_header, check=True)
    with pytest.raises((RecordError, ValueError)):
        Store.open(filled)
    done = repair_store(filled)
    assert (done.documents, [fault.name for fault in done.faults]) == (14, [None])
    assert names(filled) == expected
    with Store.open(filled) as store:
        assert store.reader == "reader-1"


OVERWRITE = f"""
import lmdb, sys
with lmdb.open(sys.argv[1], map_size=2**30) as database, database.begin(write=True) as transaction:
    value = eval(sys.argv[2])
    transaction.put({HEADER_KEY!r}, value) if value is not None else transaction.delete({HEADER_KEY!r})
"""


def test_what_is_left_of_a_truncated_file_is_kept(filled, make_memory):
    data, whole, size = filled / "data.mdb", (filled / "data.mdb").read_bytes(), page_size(filled)
    kept = []
    for pages in range(2, len(whole) // size, 5):
        data.write_bytes(whole[: pages * size])
        done = repair_store(filled)
        kept.append(done.documents)
        assert done.faults
        for name in names(filled):
            number = int(name[4:]) if name.startswith("doc") else None
            with Store.open(filled) as store:
                assert number is None or store.memory(name) == make_memory(number, 60)
    assert max(kept) > 6


def test_leaves_below_a_damaged_branch_are_found_and_removed_documents_are_not(folder, make_memory):
    with Store.open(folder) as store:
        for number in range(60):
            store.put(f"doc {number:02}", make_memory(number), text=f"Emma {number}. " * 9)
        for number in range(0, 60, 7):
            store.remove(f"doc {number:02}")
        expected = [entry.name for entry in store.documents()]
        size = store._environment.map.stat()["psize"]
    content = bytearray((folder / "data.mdb").read_bytes())
    with open(folder / "data.mdb", "rb") as file:
        root = PageFile(file.fileno(), len(content)).metas()[0].root
    content[root * size + 10] ^= 64  # the root is no branch page any more
    (folder / "data.mdb").write_bytes(content)
    done = repair_store(folder)
    assert done.documents == len(expected)
    assert names(folder) == expected


def test_a_store_that_is_open_is_not_repaired(filled):
    with Store.open(filled), pytest.raises(BusyError, match="expected exclusive access"):
        repair_store(filled)


def test_a_folder_without_a_store_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(StoreError, match="expected a store"):
            repair_store(place)


def test_each_repair_has_a_folder_of_its_own(filled):
    for number, name in enumerate(["doc 01", "doc 02"], 1):
        overwrite(filled, b"m" + key_of(name), b"?")
        assert repair_store(filled).folder == filled / f"repair-{number}"
    assert len(names(filled)) == 12


REPAIRING = (
    "import sys; from attar.store import repair_store; print('go', flush=True); repair_store(sys.argv[1])"
)


@pytest.mark.slow
def test_a_killed_repair_leaves_the_store_as_it_was_or_repaired(filled):
    overwrite(filled, b"mdoc 03", b"?")
    before = (filled / "data.mdb").read_bytes()
    moments = random.Random(0)
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", REPAIRING, filled], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(moments.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = (filled / "data.mdb").read_bytes()
        if now != before:
            assert len(names(filled)) == 13
            (filled / "data.mdb").write_bytes(before)
    done = repair_store(filled)
    assert done.documents == 13
    assert not {"repair.partial", "data.mdb.copy"} & set(os.listdir(filled))
    assert len(names(filled)) == 13


def test_a_value_that_no_key_leads_to_is_found_and_put_in_its_place(folder, make_memory):
    """A flipped bit in a key of a branch page: every page is sound, and LMDB does not find some of the values."""
    with Store.open(folder) as store:
        for number in range(60):
            store.put(f"doc {number:02}", make_memory(number), text=f"Emma {number}. " * 9)
        expected = [entry.name for entry in store.documents()]
        size = store._environment.map.stat()["psize"]
    content = bytearray((folder / "data.mdb").read_bytes())
    with open(folder / "data.mdb", "rb") as file:
        root = PageFile(file.fileno(), len(content)).metas()[0].root
    at = content.index(b"tdoc ", root * size, (root + 1) * size)
    content[at + 5] ^= 1  # doc 2. becomes doc 3., or the other way
    (folder / "data.mdb").write_bytes(content)
    with Store.open(folder, read_only=True) as store:
        assert "no key leads to it" in next(iter(store.check())).line
    assert repair_store(folder).documents == 60
    assert names(folder) == expected
