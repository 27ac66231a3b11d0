"""Documents survive their files; the CNN format's broken files are refused with the line."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.paper.cloze import (
    ClozeDocument,
    document_writer,
    parse_question,
    read_documents,
    read_folder,
)
from attar.paper.sets import ClozeSet

from .cloze_documents import documents, write_folder

ROW = {
    "name": ["a"],
    "source": ["set"],
    "sentences": [["@entity1 met @entity2 ."]],
    "name_ids": [[1, 2]],
    "names": [["Ann", "Bob"]],
    "questions": [["@placeholder met @entity2"]],
    "answers": [[1]],
}


class TestParquet:
    @settings(max_examples=30, deadline=None)  # it writes files
    @given(st.lists(documents, max_size=4))
    def test_documents_survive(self, tmp_path_factory, written: list[ClozeDocument]) -> None:
        path = tmp_path_factory.getbasetemp() / "a.parquet"
        with document_writer(path) as write:
            for document in written:
                write(document)
        assert list(read_documents(path)) == written

    @pytest.mark.parametrize(
        "change",
        [
            {"name": [None]},
            {"sentences": [["a", None]]},
            {"sentences": ["one string"]},
            {"names": [["Ann"]]},
            {"name_ids": [[1, -2]]},
            {"answers": [[10_000]]},
            {"answers": [[]]},
        ],
        ids=str,
    )
    def test_another_value_is_refused_in_one_line(self, tmp_path: Path, change: dict) -> None:
        pq.write_table(pa.table(ROW), tmp_path / "a.parquet")
        (document,) = read_documents(tmp_path / "a.parquet")
        assert (document.names, document.answers) == (["Ann", "Bob"], [1])
        pq.write_table(pa.table(ROW | change), tmp_path / "a.parquet")
        with pytest.raises(FormatError, match=r"a\.parquet: document 0 is not one of") as refused:
            list(read_documents(tmp_path / "a.parquet"))
        assert "\n" not in str(refused.value)


FILE = (
    b"http://example.com/a\n\n( @entity1 ) -- @entity0 met @entity1 . he left .\n\n"
    b"@placeholder met @entity1\n\n@entity0\n\n@entity1:CNN\n@entity0:Ann: the first"
)


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^a is not a question of the CNN set: expected"):
        parse_question(data, "a")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"u\n\nd\n\nq", "url, document, question, answer, names"),
        (FILE.replace(b"left", b"\xff"), "url, document"),
        (FILE.replace(b"@placeholder", b"@placeholder @placeholder"), "a question with one"),
        (FILE.replace(b"\n\n@entity0\n\n", b"\n\n@entity7\n\n"), "an answer among the names"),
        (FILE.replace(b"-- @entity0 met", b"-- Ann met"), "an answer among the names, and in the document"),
        (FILE + "\n@entity٣٣:Bob".encode(), "names as @entityN:Name"),
        (FILE + b"\n@entity" + b"7" * 5000 + b":Bob", "names as @entityN:Name"),
        (FILE + b"\n@entity1:BBC", "names as .*, each N from 0 to 9999 once"),
    ],
)
def test_the_error_for_a_malformed_file_says_what_was_expected(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=rf"^a\.question is not .*expected {message}"):
        parse_question(data, "a.question")


def document(number: int) -> ClozeDocument:
    sentences = [f"@entity0 met @entity1 in {number} .", "@entity1 left ."]
    questions = ["@placeholder left .", "@placeholder met @entity1 ."]
    return ClozeDocument(f"http://{number}", "cnn", sentences, [0, 1], ["Ann", "Bob"], questions, [1, 0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "cnn" / "questions" / "training"
    assert write_folder(map(document, range(5)), place) == 10
    return place


def test_questions_are_grouped_by_document(folder: Path) -> None:
    found = sorted(read_folder(folder, "cnn"), key=lambda document: document.name)
    for grouped in found:  # in the order of the files' names
        asked = sorted(zip(grouped.questions, grouped.answers, strict=True))
        grouped.questions, grouped.answers = (list(column) for column in zip(*asked, strict=True))
    assert found == [document(number) for number in range(5)]


def test_malformed_files_are_left_out_with_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "bad.question").write_bytes(b"url only")
    (folder / "x.question").symlink_to(folder / "nowhere")
    assert len(list(read_folder(folder, "cnn"))) == 5
    assert "bad.question is not a question" in caplog.messages[0]
    assert "x.question" in caplog.messages[1]
    for file in folder.iterdir():
        if not file.is_symlink():
            file.write_bytes(b"url only")
    with pytest.raises(FormatError, match="there are no well-formed"):
        list(read_folder(folder, "cnn"))


def test_a_set_finds_its_splits_and_is_named_by_its_folder(folder: Path) -> None:
    write_folder([document(7)], folder.parent / "test")
    for path, source in ((folder.parent, "questions"), (folder.parent.parent, "cnn")):
        found = ClozeSet.open(path)
        assert found.splits == ("training", "test")
        assert [each.source for each in found.documents("test")] == [source]
    with pytest.raises(FormatError, match="has no dev split, only training and test"):
        found.documents("dev")
