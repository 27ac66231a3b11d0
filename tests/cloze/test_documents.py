"""Documents survive a Parquet file, and the file is complete or absent."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.cloze.documents import ClozeDocument, DocumentWriter, Question, _schema, read_documents, read_note
from attar.errors import FormatError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
token = st.text(st.characters(exclude_categories=["Cs", "Z"], exclude_characters=" "), min_size=1, max_size=5)
tokens = st.lists(token, min_size=1, max_size=5)
documents = st.builds(
    ClozeDocument,
    text,
    text,
    st.lists(tokens, max_size=3),
    st.dictionaries(st.integers(0, 600), text, max_size=4),
    st.lists(st.builds(Question, tokens.map(tuple), st.integers(0, 600)), max_size=3),
)


@settings(max_examples=30, deadline=None)  # it writes files
@given(st.lists(documents, max_size=4))
def test_documents_survive_a_parquet_file(written: list[ClozeDocument]) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "a.parquet"
        with DocumentWriter(path, "note") as writer:
            for document in written:
                writer.write(document)
        assert list(read_documents(path)) == written
        assert read_note(path) == "note"


def test_many_documents_are_written_and_read_in_batches(tmp_path: Path) -> None:
    with DocumentWriter(tmp_path / "a.parquet") as writer:
        for number in range(1300):
            writer.write(ClozeDocument(str(number), "", [["a"]], {}))
    assert [document.name for document in read_documents(tmp_path / "a.parquet")] == list(
        map(str, range(1300))
    )


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with DocumentWriter(path) as writer:
        writer.write(ClozeDocument("old", "", [["a"]], {}))

    def write_and_stop() -> None:
        with DocumentWriter(path) as writer:
            writer.write(ClozeDocument("new", "", [["a"]], {}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert [document.name for document in read_documents(path)] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "document", [ClozeDocument("\ud800", "", [], {}), ClozeDocument("", "", [], {2**40: "Bob"})]
)
def test_a_document_that_cannot_be_written_leaves_the_old_file(
    document: ClozeDocument, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    with DocumentWriter(path) as writer:
        writer.write(ClozeDocument("old", "", [["a"]], {}))
    with pytest.raises(ValueError, match=r"surrogates|too large"), DocumentWriter(path) as writer:
        writer.write(document)
    assert [each.name for each in read_documents(path)] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_another_kind_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nothing like it")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet: expected a cloze set's Parquet file"):
        list(read_documents(tmp_path / "a.parquet"))
    with pytest.raises(FormatError, match=r"b\.parquet: expected a cloze set's columns, such as name, got x"):
        list(read_documents(tmp_path / "b.parquet"))
    with pytest.raises(FormatError, match="no such file"):
        list(read_documents(tmp_path / "c.parquet"))


ROW = {
    "name": ["a"],
    "source": ["set"],
    "sentences": [["@entity1 met @entity2 ."]],
    "name_ids": [[1, 2]],
    "names": [["Ann", "Bob"]],
    "questions": [["@placeholder met @entity2"]],
    "answers": [[1]],
}


def write(path: Path, change: dict[str, pa.Array] | None = None) -> Path:
    """One row, with some columns as another hand would have written them."""
    columns = {field.name: pa.array(ROW[field.name], field.type) for field in _schema("")}
    pq.write_table(pa.table(columns | (change or {})), path, compression="zstd", store_schema=False)
    return path


def test_the_row_that_is_changed_below_is_read(tmp_path: Path) -> None:
    (document,) = read_documents(write(tmp_path / "a.parquet"))
    assert (document.names, document.questions[0].answer) == ({1: "Ann", 2: "Bob"}, 1)


@pytest.mark.parametrize("column", list(ROW))
@pytest.mark.parametrize("inside", [False, True], ids=["a null", "a null in a list"])
def test_a_null_is_refused(tmp_path: Path, column: str, inside: bool) -> None:
    value = [[*ROW[column][0], None]] if inside and isinstance(ROW[column][0], list) else [None]
    path = write(tmp_path / "a.parquet", {column: pa.array(value, _schema("").field(column).type)})
    with pytest.raises(
        FormatError, match=rf"a\.parquet, document 0: .*got `null` - at `\$\.{column}"
    ) as refused:
        list(read_documents(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("name", pa.array([7]), r"column name: expected string, got int64"),
        ("sentences", pa.array(["one string"]), "column sentences: expected list.*, got string"),
        ("sentences", pa.array([[b"bytes"]]), "column sentences: expected list.*binary"),
        ("name_ids", pa.array([[1.0, 2.0]]), "column name_ids: expected .*double"),
        ("answers", pa.array([[1]], pa.list_(pa.int64())), "column answers: expected .*int64"),
        ("names", pa.array([["Ann"]]), r"longer|shorter"),
        ("name_ids", pa.array([[1, -2]], pa.list_(pa.int32())), r"Expected `int` >= 0 - at `\$\.name_ids"),
        ("answers", pa.array([[2**31 - 1]], pa.list_(pa.int32())), r"Expected `int` <= 9999"),
        ("answers", pa.array([[]], pa.list_(pa.int32())), r"longer|shorter"),
    ],
)
def test_another_type_length_or_range_is_refused(
    tmp_path: Path, column: str, values: pa.Array, message: str
) -> None:
    with pytest.raises(FormatError, match=message) as refused:
        list(read_documents(write(tmp_path / "a.parquet", {column: values})))
    assert "\n" not in str(refused.value)


def test_columns_with_odd_names_are_refused_in_one_line(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a\nb": [1]}), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"such as name, got a\\nb") as refused:
        list(read_documents(tmp_path / "a.parquet"))
    assert "\n" not in str(refused.value)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    values = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(FormatError, match=r"a\.parquet, document 0: .*utf-8"):
        list(read_documents(write(tmp_path / "a.parquet", {"name": values})))


def test_a_few_bytes_that_stand_for_gigabytes_are_refused_without_them(tmp_path: Path) -> None:
    """20 GiB: 20,000 references to one sentence of a mebibyte."""
    sentences = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * 2**20])
    offsets = pa.array([0, 20_000], pa.int32())
    path = tmp_path / "a.parquet"
    write(path, {"sentences": pa.ListArray.from_arrays(offsets, sentences)})
    assert path.stat().st_size < 10_000
    pool = pa.default_memory_pool()
    limit = max(pool.max_memory(), pool.bytes_allocated() + 2**28)
    with pytest.raises(FormatError, match=r"expected at most [0-9,]+ bytes of text, got 20,[0-9,]+"):
        list(read_documents(path))
    assert pool.max_memory() <= limit


def test_a_group_of_rows_that_claims_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attar.cloze.documents._GROUP_BYTES", 100)
    with pytest.raises(FormatError, match=r"expected groups of rows of at most 100 bytes, got one of \d+"):
        list(read_documents(write(tmp_path / "a.parquet")))


EVERY_BYTE = """
import sys
from pathlib import Path
from attar.cloze.documents import read_documents
from attar.errors import AttarError
file, whole = Path(sys.argv[1]), Path(sys.argv[1]).read_bytes()
footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for at in range(footer, len(whole)):
    for change in (1, 4, 255):
        changed = bytearray(whole)
        changed[at] ^= change
        file.write_bytes(changed)
        try:
            list(read_documents(file))
        except AttarError as refusal:
            assert "\\n" not in str(refusal)
print("done")
"""


@pytest.mark.slow
def test_any_byte_of_the_files_own_description_may_be_wrong(tmp_path: Path) -> None:
    """In a process of its own: where pyarrow throws in C++ unprepared, it ends the process."""
    path = write(tmp_path / "a.parquet")
    ran = subprocess.run(
        [sys.executable, "-c", EVERY_BYTE, path], capture_output=True, text=True, timeout=300
    )
    assert ran.stdout == "done\n", ran.stderr[-2000:]
