"""Where documents came from, and their parts: kept, checked, and absent in stores of earlier versions."""

import msgspec
import pytest

from attar.errors import RecordError
from attar.store.format import DocumentEntry, decode_entry, encode
from attar.store.origin import Origin, pack_parts, unpack_parts

PARTS = [(0, "page 1"), (900, "page 2")]


def test_an_entry_of_an_earlier_version_has_no_origin():
    entry = DocumentEntry("emma", "Emma", b"d" * 32, 1, 2, 3, "phrases", "int8", 4, source="/a", parts=b"x")
    earlier = msgspec.msgpack.encode(msgspec.msgpack.decode(encode(entry))[:12])
    read = decode_entry(earlier)
    assert (read.name, read.source, read.date, read.parts) == ("emma", "", "", b"")


def test_a_document_keeps_its_origin(store, make_memory):
    with store.transaction() as changes:
        changes.put("emma", make_memory(1), text="Emma", origin=Origin("/books/emma.pdf", "1815", PARTS))
    entry = store.get("emma").entry
    assert (entry.source, entry.date, unpack_parts(entry.parts, "emma")) == ("/books/emma.pdf", "1815", PARTS)


@pytest.mark.parametrize(
    ("again", "source"), [("Emma", "/books/emma.pdf"), ("Anne", "")], ids=["same", "other"]
)
def test_only_the_same_text_keeps_the_origin_when_it_is_written_again(store, make_memory, again, source):
    with store.transaction() as changes:
        changes.put("emma", make_memory(1), text="Emma", origin=Origin("/books/emma.pdf", "1815", PARTS))
    store.put("emma", make_memory(2), text=again)
    assert store.get("emma").entry.source == source


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
def test_damaged_parts_are_refused_and_found_by_the_check(store, make_memory, data):
    with pytest.raises(RecordError, match="parts of 'emma'"):
        unpack_parts(data, "emma")
    store.put("emma", make_memory(1), text="Emma")
    record = store.get("emma")
    with store.transaction() as changes:
        entry = msgspec.structs.replace(record.entry, parts=data)
        changes.put_record(type(record)(entry, record.memory_data, record.text_data), record.memory.reader)
    assert ["parts of 'emma'" in fault.line for fault in store.check()] == [True]
