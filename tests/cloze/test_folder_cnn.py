"""A folder of `.question` files is read once, grouped by document, and kept as one Parquet beside it."""

import os
from pathlib import Path

import pytest

from attar.cloze import ClozeDocument, ClozeSet, Question, folder_cnn
from attar.cloze.folder_cnn import list_questions, read_folder, write_folder
from attar.cloze.parquet import DocumentWriter
from attar.errors import FormatError


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
    monkeypatch.setattr(folder_cnn, "_group_folder", None)
    assert list(read_folder(folder)) == first


@pytest.mark.parametrize("change", ["added", "removed", "edited", "cut"])
def test_the_parquet_is_made_again_after_a_change(folder: Path, change: str) -> None:
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


def test_a_malformed_file_is_left_out_when_asked(folder: Path) -> None:
    (folder / "bad.question").write_bytes(b"url only")
    skipped: list[FormatError] = []
    assert len(list(read_folder(folder, skip=skipped.append))) == 5
    assert len(skipped) == 1
    with pytest.raises(FormatError):
        list(read_folder(folder))


def test_what_is_left_out_is_told_every_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bad.question").write_bytes(b"url only")
    first: list[FormatError] = []
    again: list[FormatError] = []
    list(read_folder(folder, skip=first.append))
    monkeypatch.setattr(folder_cnn, "_group_folder", None)
    assert len(list(read_folder(folder, skip=again.append))) == 5
    assert [str(fault) for fault in again] == [str(fault) for fault in first]


def test_a_link_to_nothing_is_a_malformed_file(folder: Path) -> None:
    (folder / "x.question").symlink_to(folder / "nowhere")
    with pytest.raises(FormatError, match=r"x\.question: expected a \.question file, got No such file"):
        list(read_folder(folder))
    skipped: list[FormatError] = []
    assert len(list(read_folder(folder, skip=skipped.append))) == 5
    assert len(skipped) == 1


def test_a_file_that_can_be_read_again_comes_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(read_folder(folder))
    (folder.parent / "training.parquet").unlink()

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert list(read_folder(folder, skip=lambda fault: None)) == []
    assert list(read_folder(folder, skip=lambda fault: None)) == whole


@pytest.mark.parametrize("note", ["{} refuse", '{{"fingerprint": "{}", "left_out": []}}'])
def test_a_parquet_of_earlier_rules_is_made_again(
    folder: Path, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(folder_cnn, "_RULES", 1)
        with DocumentWriter(folder.parent / "training.parquet", note.format(list_questions(folder)[1])):
            pass  # as one that lost its documents would be
    assert len(list(read_folder(folder))) == 5


def test_a_full_disk_keeps_nobody_from_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_is_full(writer: DocumentWriter) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DocumentWriter, "_flush", disk_is_full)
    assert len(list(read_folder(folder))) == 5
    assert [place.name for place in folder.parent.iterdir()] == ["training"]


def test_the_source_is_the_name_that_the_set_is_opened_by(folder: Path) -> None:
    for path, source in ((folder.parent, "questions"), (folder.parent.parent, "cnn")):
        assert {each.source for each in ClozeSet.open(path).documents("training")} == {source}


def test_a_folder_that_cannot_be_written_is_read_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    assert len(list(read_folder(folder))) == 5
    assert not list(folder.parent.glob("*.parquet"))


def test_progress_is_told_for_every_file(folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    list(read_folder(folder, progress=lambda *step: told.append(step)))
    assert [step[1:] for step in told if step[0] == "grouping questions"] == [(n, 10) for n in range(10)]


def test_no_folder_and_no_files_are_named(tmp_path: Path) -> None:
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
