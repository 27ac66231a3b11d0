"""Documents survive a Parquet file, and the file is complete or absent."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.cloze import ClozeDocument, DocumentWriter, Question
from attar.cloze.documents import read_documents, read_note
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.parquet").write_bytes(b"nothing like it")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet: expected a cloze set's Parquet file"):
        list(read_documents(tmp_path / "a.parquet"))
    with pytest.raises(FormatError, match=r"b\.parquet: expected a cloze set's columns, got x"):
        list(read_documents(tmp_path / "b.parquet"))
    with pytest.raises(FormatError, match="no such file"):
        list(read_documents(tmp_path / "c.parquet"))
