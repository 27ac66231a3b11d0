"""The CNN format is read and written to the byte; folders of it are grouped by document and cached as Parquet."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.cloze import cnn
from attar.cloze.cnn import (
    QuestionFile,
    _split_tokens,
    group_questions,
    list_questions,
    parse_question,
    read_folder,
)
from attar.cloze.documents import ClozeDocument, DocumentWriter, Question
from attar.cloze.sets import ClozeSet
from attar.errors import FormatError
from benchmarks.question_files import format_question, ungroup_questions, write_folder

FILE = (
    b"http://example.com/a\n\n( @entity1 ) -- @entity0 met @entity1 . he left .\n\n"
    b"@placeholder met @entity1\n\n@entity0\n\n@entity1:CNN\n@entity0:Ann: the first"
)


def test_blocks_are_read() -> None:
    file = parse_question(FILE, "a.question")
    assert file.url == "http://example.com/a"
    assert file.question == "@placeholder met @entity1"
    assert file.answer == "@entity0"
    assert file.names == ((1, "CNN"), (0, "Ann: the first"))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
def test_formatting_gives_the_same_bytes(ending: bytes) -> None:
    assert format_question(parse_question(FILE + ending, "a")) == FILE + ending


line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1).filter(
    str.strip
)
names = st.dictionaries(
    st.integers(0, 999),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")),
    min_size=1,
)


@given(line, line, names, st.data())
def test_every_well_formed_file_survives_formatting_and_parsing(
    url: str, document: str, names: dict[int, str], data: st.DataObject
) -> None:
    answer = data.draw(st.sampled_from(sorted(names)))
    file = QuestionFile(
        url,
        f"{document} @entity{answer} .",
        "who is @placeholder ?",
        f"@entity{answer}",
        tuple(names.items()),
        "\n",
    )
    assert parse_question(format_question(file), "a") == file


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: expected five blocks"),
        (b"u\n\nd\n\nq", "line 5: expected five blocks"),
        (FILE + b"\n\nmore", "line 12: expected five blocks .* got 6 blocks"),
        (FILE.replace(b"http://example.com/a", b" "), "line 1: expected the url on one line"),
        (FILE.replace(b". he", b".\nhe"), "line 3: expected the document on one line"),
        (FILE.replace(b"@placeholder", b"@placeholder @placeholder"), "line 5: expected a question with one"),
        (FILE.replace(b"@placeholder", b"who"), "line 5: expected a question with one"),
        (
            FILE.replace(b"\n\n@entity0\n\n", b"\n\n@entity7\n\n"),
            "line 7: expected an answer among the names",
        ),
        (FILE.replace(b"\n\n@entity0\n\n", b"\n\nAnn\n\n"), "line 7: expected an answer among the names"),
        (FILE.replace(b"@entity1:CNN", b"@entity1 CNN"), "line 9: expected @entityN:Name"),
        (FILE + b"\nnonsense", "line 11: expected @entityN:Name"),
        (FILE.replace(b"left", b"\xff"), "line 3: expected UTF-8 text, got the byte 0xff"),
        (
            FILE.replace(b"@entity0:", b"@entity007:"),
            "line 10: expected @entityN:Name, N .* without leading zeros",
        ),
        (FILE + "\n@entity٣٣:Bob".encode(), "line 11: expected @entityN:Name"),
        (FILE + b"\n@entity4000000000:Bob", "line 11: expected @entityN:Name, N from 0 to 9999"),
        (FILE + b"\n@entity" + b"7" * 5000 + b":Bob", "line 11: expected @entityN:Name"),
        (
            FILE + b"\n@entity1:BBC",
            "line 11: expected one name for @entity1, got 'BBC' after 'CNN'",
        ),
        (
            FILE.replace(b"-- @entity0 met", b"-- Ann met"),
            "line 7: expected an answer that is in the document, got '@entity0'",
        ),
    ],
)
def test_the_error_for_a_malformed_file_names_the_line(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=rf"^a\.question, {message}"):
        parse_question(data, "a.question")


@pytest.mark.parametrize("word", ["@entity5000", "@entity" + "7" * 5000, "@entity007", "@placeholder"])
def test_a_mark_without_a_name_is_accepted_in_the_document(word: str) -> None:
    data = FILE.replace(b"he left", word.encode() + b" left")
    assert word in parse_question(data, "a").document


def test_a_name_listed_twice_is_accepted() -> None:
    assert format_question(parse_question(FILE + b"\n@entity1:CNN", "a")) == FILE + b"\n@entity1:CNN"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_file_or_a_clear_error(data: bytes) -> None:
    try:
        parsed = parse_question(data, "a")
    except FormatError as mistake:
        message = str(mistake)
    else:
        assert format_question(parsed) == data
        return
    assert message.startswith("a, line ")


def test_sentences_keep_all_tokens_in_order() -> None:
    tokens = ['"', "why", "?", '"', "he", "said", ".", "she", "left", "!", "and", "then"]
    cut = _split_tokens(tokens)
    assert [token for sentence in cut for token in sentence] == tokens
    assert cut[-1] == ["and", "then"]


def test_questions_are_grouped_by_document_and_ungrouped_again() -> None:
    first = parse_question(FILE, "a")
    second = QuestionFile(first.url, first.document, "@entity0 met @placeholder", "@entity1", first.names)
    document = group_questions([first, second], "cnn")
    assert document.name == "http://example.com/a"
    assert document.names == {1: "CNN", 0: "Ann: the first"}
    assert [question.answer for question in document.questions] == [0, 1]
    assert len(document.sentences) == 2
    assert ungroup_questions(document) == [first, second]


def document(number: int) -> ClozeDocument:
    sentences = [["@entity0", "met", "@entity1", "in", str(number), "."], ["@entity1", "left", "."]]
    questions = [
        Question(("@placeholder", "met", "@entity1", "."), 0),
        Question(("@placeholder", "left", "."), 1),
    ]
    return ClozeDocument(f"http://{number}", "cnn", sentences, {0: "Ann", 1: "Bob"}, questions)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "cnn" / "questions" / "training"
    assert write_folder(map(document, range(5)), place) == 10
    return place


def by_name(documents: list[ClozeDocument]) -> list[ClozeDocument]:
    for found in documents:
        found.questions.sort(key=lambda question: question.answer)
    return sorted(documents, key=lambda found: found.name)


def test_questions_are_grouped_by_document(folder: Path) -> None:
    assert by_name(list(read_folder(folder))) == [document(number) for number in range(5)]


def test_the_parquet_beside_it_is_used_while_it_is_fresh(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = list(read_folder(folder))
    assert (folder.parent / "training.parquet").is_file()
    monkeypatch.setattr(cnn, "_group_folder", None)
    assert list(read_folder(folder)) == first


@pytest.mark.parametrize("change", ["added", "removed", "edited", "cut"])
def test_the_cache_is_written_again_after_a_change(folder: Path, change: str) -> None:
    before = list(read_folder(folder))
    files = sorted(folder.glob("*.question"))
    if change == "added":
        write_folder(iter([document(9)]), folder)
    elif change == "removed":
        for file in files:
            if b"http://0" in file.read_bytes():
                file.unlink()
    elif change == "edited":
        for file in files:
            file.write_bytes(file.read_bytes().replace(b"http://0", b"http://8"))
            os.utime(file, ns=(1, 1))
    else:
        (folder.parent / "training.parquet").write_bytes(b"PAR1")
    after = list(read_folder(folder))
    assert len(after) == {"added": 6, "removed": 4, "edited": 5, "cut": 5}[change]
    assert (by_name(after) == by_name(before)) is (change == "cut")


def test_a_malformed_file_is_refused_by_name(folder: Path) -> None:
    (folder / "bad.question").write_bytes(b"url only")
    with pytest.raises(FormatError, match=r"bad\.question, line 1: expected five blocks"):
        list(read_folder(folder))
    assert not list(folder.parent.glob("*parquet*"))
    assert not list(folder.parent.glob(".*"))


def test_a_malformed_file_is_skipped_on_request(folder: Path) -> None:
    (folder / "bad.question").write_bytes(b"url only")
    skipped: list[FormatError] = []
    assert len(list(read_folder(folder, on_malformed=skipped.append))) == 5
    assert len(skipped) == 1
    with pytest.raises(FormatError):
        list(read_folder(folder))


def test_skipped_files_are_reported_every_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bad.question").write_bytes(b"url only")
    first: list[FormatError] = []
    again: list[FormatError] = []
    list(read_folder(folder, on_malformed=first.append))
    monkeypatch.setattr(cnn, "_group_folder", None)
    assert len(list(read_folder(folder, on_malformed=again.append))) == 5
    assert [str(fault) for fault in again] == [str(fault) for fault in first]


def test_a_broken_link_is_a_malformed_file(folder: Path) -> None:
    (folder / "x.question").symlink_to(folder / "nowhere")
    with pytest.raises(FormatError, match=r"x\.question: expected a \.question file, got No such file"):
        list(read_folder(folder))
    skipped: list[FormatError] = []
    assert len(list(read_folder(folder, on_malformed=skipped.append))) == 5
    assert len(skipped) == 1


def test_a_skipped_file_that_can_be_read_later_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(read_folder(folder))
    (folder.parent / "training.parquet").unlink()

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert list(read_folder(folder, on_malformed=lambda fault: None)) == []
    assert list(read_folder(folder, on_malformed=lambda fault: None)) == whole


@pytest.mark.parametrize("note", ["{} refuse", '{{"fingerprint": "{}", "left_out": []}}'])
def test_a_cache_of_earlier_rules_is_not_used(
    folder: Path, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cnn, "_RULES", 1)
        with DocumentWriter(folder.parent / "training.parquet", note.format(list_questions(folder)[1])):
            pass  # as one that lost its documents would be
    assert len(list(read_folder(folder))) == 5


def test_a_folder_is_read_without_a_cache_if_the_disk_is_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_is_full(writer: DocumentWriter) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DocumentWriter, "_flush", disk_is_full)
    assert len(list(read_folder(folder))) == 5
    assert [place.name for place in folder.parent.iterdir()] == ["training"]


def test_the_source_is_the_name_that_the_set_is_opened_by(folder: Path) -> None:
    for path, source in ((folder.parent, "questions"), (folder.parent.parent, "cnn")):
        assert {each.source for each in ClozeSet.open(path).documents("training")} == {source}


def test_a_read_only_folder_is_read_without_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    assert len(list(read_folder(folder))) == 5
    assert not list(folder.parent.glob("*.parquet"))


def test_progress_is_reported_per_file(folder: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    list(read_folder(folder, progress=lambda *step: steps.append(step)))
    assert [step[1:] for step in steps if step[0] == "grouping questions"] == [(n, 10) for n in range(10)]


def test_missing_and_empty_folders_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such folder"):
        list(read_folder(tmp_path / "none"))
    with pytest.raises(FormatError, match="none in it"):
        list(read_folder(tmp_path))


def test_a_set_finds_its_splits(folder: Path) -> None:
    write_folder(iter([document(7)]), folder.parent / "test")
    found = ClozeSet.open(folder.parent.parent)
    assert found.splits == ("training", "test")
    assert [each.source for each in found.documents("test")] == ["cnn"]
    assert ClozeSet.open(folder.parent).splits == ("training", "test")
    list(found.documents("training"))
    assert ClozeSet.open(folder.parent.parent).splits == ("training", "test")
    with pytest.raises(FormatError, match="training or test, got 'dev'"):
        found.documents("dev")
