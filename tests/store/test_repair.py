"""A repair keeps every document that can be read, names the others, and can be killed."""

import os
import random
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from attar.errors import BusyError, RecordError
from attar.memory.memory import wrap
from attar.store.records import HEADER_KEY
from attar.store.repair import repair_store
from attar.store.store import Store
from tests.store import made
from tests.store.made import make_memory, memory_in, put

PAGE = 4096


@pytest.fixture
def filled(folder):
    with Store.open(folder) as store:
        for number in range(12):
            put(
                store, f"doc {number:02}", make_memory(number, 60), title=f"T{number}", text=f"Emma {number}."
            )
        put(store, "x" * 999, make_memory(5))
    return folder


def overwrite(folder, key, value):
    with Store.open(folder) as store:
        made.overwrite(store, key, value)


def flip(folder, key):
    with Store.open(folder) as store:
        made.flip(store, key)


def names(folder):
    """The names of a store that has no faults."""
    with Store.open(folder, read_only=True) as store:
        assert list(store.check()) == []
        return [entry.name for entry in store.documents()]


def test_an_intact_store_is_not_changed(filled):
    before = (filled / "data.mdb").read_bytes()
    repair = repair_store(filled)
    assert (repair.documents, repair.faults, repair.folder) == (13, [], None)
    assert (filled / "data.mdb").read_bytes() == before
    assert sorted(os.listdir(filled)) == ["data.mdb", "lock.mdb"]


def test_a_document_whose_memory_is_damaged_is_lost_and_the_rest_kept(filled):
    expected = [name for name in names(filled) if name != "doc 03"]
    flip(filled, b"mdoc 03")
    before = (filled / "data.mdb").read_bytes()
    repair = repair_store(filled)
    (fault,) = repair.faults
    assert (repair.documents, fault.name) == (12, "doc 03")
    assert fault.line.startswith("memory of 'doc 03' is damaged: its checksum is wrong")
    assert fault.line.endswith("(lost)")
    assert names(filled) == expected
    assert repair.folder == filled / "repair-1"
    assert (repair.folder / "data.mdb").read_bytes() == before


def test_a_document_keeps_what_is_intact_of_it(filled):
    flip(filled, b"fdoc 01")
    flip(filled, b"tdoc 02")
    repair = repair_store(filled)
    assert repair.documents == 13
    lines = {fault.name: fault.line for fault in repair.faults if fault.name is not None}
    assert list(lines) == ["doc 01", "doc 02"]
    assert all(line.endswith("(the rest is kept)") for line in lines.values())
    names(filled)
    with Store.open(filled) as store:
        first, second = store.get("doc 01"), store.get("doc 02")
    assert (first.memory, first.text, first.entry.title) == (make_memory(1, 60), "Emma 1.", "")
    assert (second.memory, second.text, second.entry.title) == (make_memory(2, 60), None, "T2")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"sdoc 03", b"?"),
        (b"sdoc 03", wrap(b"s", bytes(9), "")),
        (b"sgone", wrap(b"s", bytes(9), "")),
        (b"s", b"?"),
        (b"j" + (10**6).to_bytes(8, "big"), wrap(b"j", msgspec.msgpack.encode("emma"), "")),
        (b"zfoo", b"?"),
        (b"t\xff", b"?"),
    ],
    ids=[
        "damaged signature",
        "signature of an earlier version",
        "signature of no document",
        "damaged statistics",
        "changes that are no list",
        "unknown kind",
        "text without a document",
    ],
)
def test_what_the_check_finds_beside_the_documents_is_left_out(filled, key, value):
    expected = names(filled)
    overwrite(filled, key, value)
    with Store.open(filled, read_only=True) as store:
        assert list(store.check())
    repair = repair_store(filled)
    assert repair.faults
    assert repair.documents == 13
    assert names(filled) == expected


def test_signatures_and_statistics_that_are_intact_are_kept(filled):
    with Store.open(filled) as store, store.transaction() as changes:
        changes.put_statistics(b"statistics")
        changes.put_signature(changes.entry("doc 01"), b"of doc 01")
        changes.put_signature(changes.entry("doc 02"), b"of doc 02")
    overwrite(filled, b"mdoc 01", b"?")
    repair_store(filled)
    with Store.open(filled) as store, store.snapshot() as now:
        assert now.statistics == b"statistics"
        assert [signature.data for signature in now.signatures()] == [b"of doc 02"]


@pytest.mark.parametrize("value", [None, b"?"], ids=["missing", "damaged"])
def test_a_lost_header_is_made_again(filled, value):
    expected = names(filled)
    overwrite(filled, HEADER_KEY, value)
    with pytest.raises(ValueError, match=r"header of|another database"):
        Store.open(filled)
    repair = repair_store(filled)
    assert (repair.documents, [fault.name for fault in repair.faults]) == (13, [None])
    assert names(filled) == expected
    with Store.open(filled) as store:
        assert store.reader == "reader-1"


def damage_page(folder, at, data=b"\xa5" * PAGE):
    with (folder / "data.mdb").open("r+b") as file:
        file.seek(at * PAGE)
        file.write(data)


def test_damaged_pages_cost_only_the_documents_that_lie_there(folder):
    """Whatever LMDB does with such a page, in a process of its own: at most the documents of two pages are lost."""
    with Store.open(folder) as store:
        for number in range(200):
            put(store, f"doc {number:03}", make_memory(number), text=f"Emma {number}. " * 9)
        store.compact()
    whole = (folder / "data.mdb").read_bytes()
    root = [at for at in range(2, len(whole) // PAGE) if whole[at * PAGE + 10] == 1][-1]
    places = [at for at in range(2, len(whole) // PAGE) if at != root]
    for at in random.Random(0).sample(places, 6):
        (folder / "data.mdb").write_bytes(whole)
        damage_page(folder, at)
        repair = repair_store(folder)
        assert repair.faults
        assert repair.documents >= 150
        for name in names(folder):
            with Store.open(folder) as store:
                assert memory_in(store, name) == make_memory(int(name[4:]))


def truncate(folder, pages):
    with (folder / "data.mdb").open("r+b") as file:
        file.truncate(os.fstat(file.fileno()).st_size - pages * PAGE)


@pytest.fixture
def grown(filled):
    """A store with a document of ten pages at the end, after which only LMDB's list of free pages lies."""
    with Store.open(filled) as store:
        store.compact()
        put(store, "later", make_memory(7, 320))
    return filled


def test_of_a_truncated_file_what_can_be_reached_is_kept(grown):
    truncate(grown, pages=3)
    with pytest.raises(RecordError, match="the store file is truncated; restore a copy, or keep"):
        Store.open(grown)
    repair = repair_store(grown)
    assert (repair.documents, repair.faults[0].name) == (13, "later")
    assert "later" not in names(grown)


@pytest.mark.parametrize(
    "content", [b"x" * 20_000, bytes(20_000), b""], ids=["another file", "zeros", "empty"]
)
def test_a_file_of_which_nothing_can_be_read_is_left_as_it_is(filled, content):
    (filled / "data.mdb").write_bytes(content)
    with pytest.raises(RecordError, match="can be read"):
        repair_store(filled)
    assert (filled / "data.mdb").read_bytes() == content
    assert sorted(os.listdir(filled)) == ["data.mdb", "lock.mdb"]


def test_a_store_that_is_open_is_not_repaired(filled):
    with Store.open(filled), pytest.raises(BusyError, match="is open, in this process or another"):
        repair_store(filled)


REPAIRING = """
import sys
from attar.store.repair import repair_store
print("go", flush=True)
repair_store(sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_repair_leaves_the_store_as_it_was_or_repaired(filled):
    overwrite(filled, b"mdoc 03", b"?")
    before = (filled / "data.mdb").read_bytes()
    moments = random.Random(0)
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", REPAIRING, filled], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(moments.uniform(0, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (filled / "data.mdb").read_bytes() != before:
            assert len(names(filled)) == 12
            (filled / "data.mdb").write_bytes(before)
    assert repair_store(filled).documents == 12
    assert not {"repair.partial", "data.mdb.copy"} & set(os.listdir(filled))
    assert len(names(filled)) == 12
