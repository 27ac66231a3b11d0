"""Out to Parquet and in again, nothing changes; what is no export is named in one line."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attar.errors import FormatError, OptionError, ReaderMismatchError
from attar.store import Store, export_store, import_store, parquet, read_export_info


@pytest.fixture
def filled(store, make_memory, make_named_memory):
    store.put("a\nb/c", make_memory(1, 60), title="A", text="Emma 🜁")
    store.put("x" * 999, make_memory(2), digest=b"d" * 32)
    store.put("b", make_memory(3).astype("int8"), text="")
    store.put("c", make_named_memory(4))
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
        return {key: value for key, value in cursor if key != b"a"}


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
