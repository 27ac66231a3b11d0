"""Out to Parquet and in again, nothing changes; what is no export is named in one line."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attar.errors import FormatError, NameTakenError, ReaderMismatchError
from attar.store import parquet
from attar.store.parquet import export_store, import_store
from attar.store.records import pack_parts
from attar.store.store import Store
from tests.store.made import make_memory, memory_in, overwrite, put


@pytest.fixture
def filled(store):
    put(store, "a\nb/c", make_memory(1, 60), title="A", text="Emma 🜁")
    put(store, "x" * 999, make_memory(2), digest=b"d" * 32)
    put(store, "b", make_memory(3), text="")
    parts = pack_parts([(0, "page 1"), (900, "page 2")])
    put(store, "c", make_memory(4), source="/letters/c.pdf", date="2026-03-04", parts=parts)
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


def test_a_name_taken_by_another_document_is_refused_unless_replaced(export, second):
    put(second, "b", make_memory(9))
    with pytest.raises(
        NameTakenError, match="document 'b' already exists, and is another one; use --replace"
    ):
        import_store(second, export)
    assert len(second) == 1
    assert import_store(second, export, replace=True) == 4
    assert memory_in(second, "b").tokens == 3


def test_another_readers_export_is_refused(export, second):
    put(second, "mine", make_memory(1, reader="reader-2"))
    with pytest.raises(ReaderMismatchError, match="of the reader 'reader-1', the store's is 'reader-2'"):
        import_store(second, export)
    assert len(second) == 1


def test_files_that_are_not_exports_are_refused(export, second, tmp_path):
    whole = export.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("text")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "table")
    for name, message in [
        ("cut", "is no Parquet file, or a truncated one"),
        ("text", "is no Parquet file"),
        ("none", "there is no file"),
        ("table", "is a Parquet file, but not of a store"),
    ]:
        with pytest.raises(FormatError, match=message) as caught:
            import_store(second, tmp_path / name)
        assert "\n" not in str(caught.value)
    assert len(second) == 0


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


def with_column(export, target, column, values, kind=None):
    """The export with other values in one column."""
    table = pq.read_table(export)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.array(values, kind)), target)
    return target


# What pandas, another tool or an attacker may make of a column, and what the line says.
ODD_COLUMNS = {
    "tokens as floats": ("tokens", [1.0, 3.0, 4.0, 2.0], "Expected `int`, got `float` - at `tokens`"),
    "other tokens": ("tokens", [1, 9, 4, 2], "tokens of 'b': expected 9, got 3"),
    "a null name": ("name", ["a\nb/c", None, "c", "d"], "Expected `str`, got `null` - at `name`"),
    "an empty name": ("name", ["a\nb/c", "", "c", "d"], "Expected `str` of length >= 1 - at `name`"),
    "a digest of another text": ("digest", [b"d" * 32, b"", b"", b""], "digest of 'a.nb/c'"),
    "a memory that is missing": ("memory", [None] * 4, "Expected `bytes`, got `null`"),
    "times that are text": ("created", ["now"] * 4, "is damaged; export it again"),
    "a time of the year 300,000": ("created", [2**53 * 1000] * 4, "Expected `int` <= .* at `created`"),
}


@pytest.mark.parametrize(("column", "values", "message"), ODD_COLUMNS.values(), ids=ODD_COLUMNS)
def test_a_column_of_other_values_is_refused_and_the_store_stays_usable(
    export, second, tmp_path, column, values, message
):
    put(second, "mine", make_memory(9))
    odd = with_column(export, tmp_path / "odd.parquet", column, values)
    with pytest.raises(FormatError, match=message) as caught:
        import_store(second, odd)
    assert "\n" not in str(caught.value)
    with Store.open(tmp_path / "second", read_only=True) as again:
        assert [entry.name for entry in again.documents()] == ["mine"]
        assert list(again.check()) == []


BOMB = """
import resource, sys
from attar.errors import AttarError
from attar.store.parquet import import_store
from attar.store.store import Store
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


def test_a_damaged_document_is_left_out_of_an_export_and_named(filled, second, tmp_path):
    overwrite(filled, b"fc", b"?")
    overwrite(filled, b"mb", b"?")
    faults = []
    assert export_store(filled, tmp_path / "out.parquet", on_fault=faults.append) == 2
    assert [fault.name for fault in faults] == ["b", "c"]
    assert import_store(second, tmp_path / "out.parquet") == 2
    assert list(second.check()) == []
    overwrite(second, b"fa\nb/c", b"?")
    assert import_store(second, tmp_path / "out.parquet") == 1
    assert list(second.check()) == []
    with pytest.raises(FormatError):
        export_store(filled, tmp_path / "out.parquet")
