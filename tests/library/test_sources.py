"""Files, folders and JSON lines become documents with names; others are refused in one line."""

import json
import lzma

import pytest

from attar.errors import FormatError
from attar.library import Draft, find_files, read_files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    (tmp_path / "texts" / "a.txt").write_text("Ann left.")
    (tmp_path / "texts" / "sub" / "b.txt").write_text("Bob came.")
    (tmp_path / "texts" / "sub" / "c.txt.xz").write_bytes(lzma.compress(b"Eve met Bob."))
    lines = [{"id": "x/1", "text": "One."}, {"text": "Two."}]
    (tmp_path / "texts" / "sub" / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "texts" / "picture.png").write_bytes(b"\x89PNG\0")
    return tmp_path / "texts"


def names(paths, **options):
    return [draft.name for draft in read_files(find_files(paths), **options)]


def test_a_folders_texts_are_named_by_their_relative_paths(folder):
    assert names([folder]) == ["a", "sub/b", "sub/c", "x/1", "d-2"]


def test_a_file_is_named_without_its_suffix(folder):
    assert names([folder / "sub" / "b.txt", folder / "sub" / "c.txt.xz"]) == ["b", "c"]


def test_a_file_with_an_unknown_suffix_is_plain_text_under_its_full_name(tmp_path):
    (tmp_path / "notes.md").write_text("Ann left.")
    assert list(read_files(find_files([tmp_path / "notes.md"]))) == [Draft.of("notes.md", "Ann left.")]


BAD = {
    "empty": (b"", "got nothing"),
    "blank": (b" \n ", "got blanks only"),
    "binary": (b"GIF\0\0", "got .*binary"),
    "latin": ("Brontë".encode("latin-1"), "byte 0xeb at 5"),
}


@pytest.mark.parametrize("ending", [".txt", ".md"])
@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_not_text_is_refused_in_one_line_that_names_it(tmp_path, kind, ending):
    data, came = BAD[kind]
    (tmp_path / f"bad{ending}").write_bytes(data)
    with pytest.raises(
        FormatError, match=rf"bad{ending}: expected .*text, {came}|bad{ending}.*{came}"
    ) as fault:
        names([tmp_path / f"bad{ending}"])
    assert "\n" not in str(fault.value)


def test_bad_files_can_be_skipped(folder):
    (folder / "empty.txt").touch()
    (folder / "sub" / "cut.txt.xz").write_bytes(b"\xfd7zXZ")
    faults = []
    assert names([folder], on_error=faults.append) == ["a", "sub/b", "sub/c", "x/1", "d-2"]
    assert ["empty.txt" in str(fault) or "cut.txt.xz" in str(fault) for fault in faults] == [True, True]


def test_only_the_empty_text_of_a_jsonl_file_is_skipped(tmp_path):
    lines = [{"text": "One."}, {"text": ""}, {"text": "Three."}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    faults = []
    assert names([tmp_path / "d.jsonl"], on_error=faults.append) == ["d-1", "d-3"]
    assert "text of 'd-2'" in str(faults[0])


def test_a_missing_path_is_refused_before_anything_is_read(folder):
    with pytest.raises(FormatError, match="expected a file or a folder, got nothing there"):
        find_files([folder, folder / "missing.txt"])


def test_a_folder_without_texts_is_refused(tmp_path):
    with pytest.raises(FormatError, match="none of these in it"):
        find_files([tmp_path])


def test_progress_grows_to_the_total_size(folder):
    files, calls = find_files([folder]), []
    list(read_files(files, progress=calls.append))
    assert calls == sorted(calls)
    assert calls[-1] == sum(file.bytes for file in files)
