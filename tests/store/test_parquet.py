"""Out to Parquet and in again, nothing changes; what is no export is named in one line."""

import dataclasses
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attar.errors import FormatError, OptionError, ReaderMismatchError
from attar.store import parquet
from attar.store.format import encode, wrap
from attar.store.origin import Origin
from attar.store.parquet import export_store, import_store, read_export_info
from attar.store.store import Store


@pytest.fixture
def filled(store, make_memory, make_named_memory):
    store.put("a\nb/c", make_memory(1, 60), title="A", text="Emma 🜁")
    store.put("x" * 999, make_memory(2), digest=b"d" * 32)
    store.put("b", make_memory(3).astype("int8"), text="")
    with store.transaction() as changes:
        origin = Origin("/letters/c.pdf", "2026-03-04", [(0, "page 1"), (900, "page 2")])
        changes.put("c", make_named_memory(4), origin=origin)
    return store


@pytest.fixture
def export(filled, tmp_path):
    assert export_store(filled, tmp_path / "out.parquet") == 4
    return tmp_path / "out.parquet"


@pytest.fixture
def second(tmp_path):
    with Store.open(tmp_path / "second") as store:
        yield store


def raw(store: Store) -> dict[bytes, bytes]:
    with store._environment.map.begin() as transaction, transaction.cursor() as cursor:
        return {key: value for key, value in cursor if key[:1] not in (b"a", b"j")}


def test_imported_documents_equal_the_exported_ones_byte_for_byte(filled, export, second, tmp_path):
    assert import_store(second, export) == 4
    assert second.memory("c").cooccurrence == filled.memory("c").cooccurrence
    assert raw(second) == raw(filled)
    assert (second.reader, len(second)) == (filled.reader, len(filled))
    assert list(second.check()) == []
    export_store(second, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == export.read_bytes()


def test_an_export_is_a_parquet_table(export):
    rows = pq.read_table(export).to_pylist()
    assert [row["name"] for row in rows] == ["a\nb/c", "b", "c", "x" * 999]
    assert [row["text"] for row in rows] == ["Emma 🜁", "", None, None]
    assert rows[0]["created"].year >= 2026


def test_an_export_without_the_columns_of_later_versions_is_imported(export, second, tmp_path):
    pq.write_table(pq.read_table(export).drop_columns(["source", "date", "parts"]), tmp_path / "old.parquet")
    assert import_store(second, tmp_path / "old.parquet") == 4
    entry = second.get("c").entry
    assert (entry.source, entry.date, entry.parts) == ("", "", b"")


def test_an_export_describes_itself(export):
    note = read_export_info(export)
    assert (note.version, note.reader, note.dtype, note.documents) == (1, "reader-1", "float32", 4)


def test_many_documents_are_exported_and_imported_in_groups(
    store, second, make_memory, tmp_path, monkeypatch
):
    monkeypatch.setattr(parquet, "_ROWS", 4)
    with store.transaction() as changes:
        for number in range(10):
            changes.put(str(number), make_memory(number))
    export_store(store, tmp_path / "out.parquet")
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3
    before = second.stats().changes
    assert import_store(second, tmp_path / "out.parquet") == 10
    assert second.stats().changes - before == 3


def test_an_empty_store_is_exported_and_imported(store, second, tmp_path):
    assert export_store(store, tmp_path / "out.parquet") == 0
    assert import_store(second, tmp_path / "out.parquet") == 0


def test_importing_again_changes_nothing(export, second):
    assert import_store(second, export) == 4
    before = second.stats().changes
    assert import_store(second, export) == 0
    assert second.stats().changes == before


def test_a_name_taken_by_another_document_is_refused_unless_replaced(export, second, make_memory):
    second.put("b", make_memory(9))
    with pytest.raises(OptionError, match="document 'b': expected a new name"):
        import_store(second, export)
    assert len(second) == 1
    assert import_store(second, export, replace=True) == 4
    assert second.memory("b").tokens == 3


def test_another_readers_export_is_refused(export, second, make_memory):
    second.put("mine", make_memory(1, reader="reader-2"))
    with pytest.raises(ReaderMismatchError, match=r"the store's reader 'reader-2', got those of 'reader-1'"):
        import_store(second, export)
    assert len(second) == 1


def test_files_that_are_not_exports_are_refused(export, second, tmp_path):
    whole = export.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("text")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "table")
    for name, message in [
        ("cut", "a truncated one"),
        ("text", "another file"),
        ("none", "no such file"),
        ("table", "one of another kind"),
    ]:
        with pytest.raises(FormatError, match=message) as caught:
            import_store(second, tmp_path / name)
        assert "\n" not in str(caught.value)
    assert len(second) == 0


def test_a_newer_export_is_refused(export, second, tmp_path):
    table = pq.read_table(export)
    newer = table.schema.metadata[b"attar"].replace(b'"version":1', b'"version":2')
    pq.write_table(table.replace_schema_metadata({"attar": newer}), tmp_path / "newer")
    with pytest.raises(FormatError, match="expected version 1, got version 2; update attar"):
        import_store(second, tmp_path / "newer")


def test_an_export_with_a_changed_memory_is_refused(export, second, tmp_path):
    table = pq.read_table(export)
    memories = [bytes([*data[:-1], data[-1] ^ 1]) for data in table["memory"].to_pylist()]
    at = table.column_names.index("memory")
    pq.write_table(
        table.set_column(at, "memory", pa.array(memories, pa.large_binary())), tmp_path / "flipped"
    )
    with pytest.raises(FormatError, match="document 'a"):
        import_store(second, tmp_path / "flipped")
    assert len(second) == 0


def test_an_export_that_fails_leaves_no_file(filled, tmp_path, monkeypatch):
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(parquet, "_table", fail)
    with pytest.raises(ZeroDivisionError):
        export_store(filled, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_an_export_into_a_missing_folder_raises(filled, tmp_path):
    with pytest.raises(OSError, match="no-such-folder"):
        export_store(filled, tmp_path / "no-such-folder" / "out.parquet")


def with_column(export, target, column, values, kind=None):
    """The export with other values in one column."""
    table = pq.read_table(export)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.array(values, kind)), target)
    return target


# What pandas, another tool or an attacker may make of a column, and what the line says.
ODD_COLUMNS = {
    "tokens as floats": ("tokens", [1.0, 3.0, 60.0, 2.0], "tokens: expected `int`, got `float`"),
    "tokens with a null": ("tokens", [1, None, 60, 2], "tokens: expected `int`, got `null`"),
    "tokens that are NaN": ("tokens", [1.0, float("nan"), 60.0, 2.0], "tokens: expected `int`, got `float`"),
    "other tokens": ("tokens", [1, 4, 60, 2], "tokens of 'b': expected 4, got 3"),
    "negative tokens": ("tokens", [-1, 3, 60, 2], "tokens of 'a.nb/c': expected `int` >= 0"),
    "titles that are numbers": ("title", [5, 6, 7, 8], "title: expected `str`, got `int`"),
    "titles with a null": ("title", ["A", None, "", ""], "title: expected `str`, got `null`"),
    "a null name": ("name", ["a\nb/c", None, "c", "d"], "name: expected `str`, got `null`"),
    "an empty name": ("name", ["a\nb/c", "", "c", "d"], "name of '': expected `str` of length >= 1"),
    "names that are bytes": ("name", [b"a", b"b", b"c", b"d"], "name: expected `str`, got `bytes`"),
    "texts that are numbers": ("text", [1, 2, 3, 4], "text: expected `str . null`, got `int`"),
    "another form": ("form", ["triangle", "states", "names", "triangle"], "form of 'b': expected 'states'"),
    "an unknown form": (
        "form",
        ["triangle", "cube", "names", "triangle"],
        "form of 'b': expected one of its values, got 'cube'",
    ),
    "another dtype": ("dtype", ["float32", "float16", "float32", "float32"], "dtype of 'b'"),
    "a short digest": ("digest", [b"", b"", b"d" * 31, b""], "digest's length of 'c'"),
    "a digest of another text": ("digest", [b"d" * 32, b"", b"", b""], "digest of 'a.nb/c'"),
    "a memory that is missing": ("memory", [None] * 4, "memory: expected `bytes`, got `null`"),
    "a memory that is text": ("memory", ["attm"] * 4, "memory: expected `bytes`, got `str`"),
    "times that are text": ("created", ["now"] * 4, "a whole Parquet file, got a damaged one"),
    "a time of the year 300,000": ("created", [2**53 * 1000] * 4, "created of 'a.nb/c': expected `int` <="),
}


@pytest.mark.parametrize(("column", "values", "message"), ODD_COLUMNS.values(), ids=ODD_COLUMNS)
def test_a_column_of_other_values_is_refused_and_the_store_stays_usable(
    export, second, tmp_path, make_memory, column, values, message
):
    second.put("mine", make_memory(9))
    odd = with_column(export, tmp_path / "odd.parquet", column, values)
    with pytest.raises(FormatError, match=message) as caught:
        import_store(second, odd)
    assert "\n" not in str(caught.value)
    with Store.open(tmp_path / "second", read_only=True) as again:
        assert [entry.name for entry in again.documents()] == ["mine"]
        assert list(again.check()) == []


def test_names_that_are_not_utf8_are_refused(export, second, tmp_path):
    data = export.read_bytes()
    odd = with_column(export, tmp_path / "odd.parquet", "name", ["a", "b", "c", "dddddd"])
    data = odd.read_bytes()
    assert data.count(b"dddddd") >= 1
    odd.write_bytes(data.replace(b"dddddd", b"dd\xff\xfedd"))
    with pytest.raises(FormatError, match="expected"):
        import_store(second, odd)
    assert len(second) == 0


def test_times_of_another_unit_are_converted(export, filled, second, tmp_path):
    table = pq.read_table(export)
    at = table.column_names.index("created")
    nanoseconds = table.column("created").cast(pa.timestamp("ns", tz="UTC"))
    pq.write_table(table.set_column(at, "created", nanoseconds), tmp_path / "ns.parquet")
    import_store(second, tmp_path / "ns.parquet")
    assert raw(second) == raw(filled)


def test_a_memory_with_numbers_that_are_not_finite_is_refused(filled, second, tmp_path, make_memory):
    memory = make_memory(1)
    numbers = memory.numbers.copy()
    numbers[0] = float("nan")
    data = dataclasses.replace(memory, numbers=numbers).to_bytes()
    export_store(filled, tmp_path / "out.parquet")
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    odd = with_column(
        tmp_path / "out.parquet", tmp_path / "odd.parquet", "memory", [data] + [r["memory"] for r in rows[1:]]
    )
    with pytest.raises(FormatError, match="expected finite numbers, got NaN or infinity"):
        import_store(second, odd)


@pytest.mark.slow
def test_a_file_that_claims_more_than_the_limit_is_refused_before_it_is_read(export, second, tmp_path):
    big = with_column(export, tmp_path / "big.parquet", "memory", [bytes(2 * 10**7)] * 4, pa.large_binary())
    assert big.stat().st_size < 10**7
    with pytest.raises(FormatError, match=r"at most 10,000,000 bytes, got one of 20,.*max-decompressed-mb"):
        import_store(second, big, max_bytes=10**7)
    with pytest.raises(FormatError, match="document 'a"):
        import_store(second, big, max_bytes=10**9)


BOMB = """
import resource, sys
from attar.errors import AttarError
from attar.store import Store, import_store
with Store.open(sys.argv[1]) as store:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        import_store(store, sys.argv[2])
    except AttarError as fault:
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, fault)
"""


@pytest.mark.slow
def test_one_large_value_in_every_row_does_not_fill_the_memory(export, tmp_path):
    rows, value = 256, bytes(20_000_000)
    table = pa.concat_tables([pq.read_table(export)] * (rows // 4))
    once = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value], pa.binary()))
    table = table.set_column(table.column_names.index("memory"), "memory", once)
    bomb = tmp_path / "bomb.parquet"
    with pq.ParquetWriter(bomb, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(table.schema.metadata)
    assert bomb.stat().st_size < 10**5
    command = [sys.executable, "-c", BOMB, tmp_path / "other", bomb]
    ran = subprocess.run(command, capture_output=True, text=True)
    megabytes, _, line = ran.stdout.partition(" ")
    assert "document 'a" in line
    assert int(megabytes) < 1000


def spoil(store, key, value):
    with store._environment.map.begin(write=True) as transaction:
        transaction.put(key, value)


def test_a_damaged_document_is_left_out_of_an_export_and_named(filled, second, tmp_path):
    entry = encode(["c", 5, b"", 0, 0, 1, "names", "float32", 9, None])
    spoil(filled, b"fc", wrap(b"f", entry))
    spoil(filled, b"mb", wrap(b"m", b"?"))
    faults = []
    assert export_store(filled, tmp_path / "out.parquet", on_fault=faults.append) == 2
    assert [fault.name for fault in faults] == ["b", "c"]
    assert import_store(second, tmp_path / "out.parquet") == 2
    assert list(second.check()) == []
    spoil(second, b"fa\nb/c", b"?")
    assert import_store(second, tmp_path / "out.parquet") == 1
    assert list(second.check()) == []
    with pytest.raises(FormatError):
        export_store(filled, tmp_path / "out.parquet")


@pytest.mark.parametrize("column", ["created", "name"])
def test_a_column_that_is_there_twice_is_refused(export, second, tmp_path, column):
    table = pq.read_table(export)
    pq.write_table(table.append_column(column, table.column(column)), tmp_path / "twice.parquet")
    with pytest.raises(FormatError, match="a store's columns, each once"):
        import_store(second, tmp_path / "twice.parquet")
