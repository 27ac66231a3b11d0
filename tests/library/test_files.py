"""Files, folders and JSON lines become documents with names; others are refused in one line."""

import json
import lzma
import os

import pytest

from attar.documents.sources import find_files
from attar.library.drafts import add_files, read_files
from attar.library.library import Library
from attar.store.records import unpack_parts


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    (tmp_path / "texts" / "a.txt").write_text("Ann left.")
    (tmp_path / "texts" / "sub" / "b.txt").write_text("Bob came.")
    (tmp_path / "texts" / "sub" / "c.txt.xz").write_bytes(lzma.compress(b"Eve met Bob."))
    lines = [{"id": "x/1", "text": "One."}, {"text": "Two."}]
    (tmp_path / "texts" / "sub" / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "texts" / "picture.mp3").write_bytes(b"\x89PNG\0")
    return tmp_path / "texts"


def names(paths, **options):
    return [draft.name for draft in read_files(find_files(paths).files, **options)]


def test_a_draft_has_the_file_the_title_the_date_and_the_parts_of_its_document(tmp_path):
    (tmp_path / "notes.md").write_text("---\ntitle: Notes\ndate: 2026-03-04\n---\n# One\n\nAnn left.")
    (draft,) = read_files(find_files([tmp_path / "notes.md"]).files)
    assert (draft.name, draft.text, draft.entry.title) == ("notes.md", "One\n\nAnn left.", "Notes")
    assert (draft.entry.source, draft.entry.date) == (str(tmp_path / "notes.md"), "2026-03-04")
    assert unpack_parts(draft.entry.parts, draft.name) == [(0, "One")]


def test_a_document_whose_file_was_read_in_part_says_so_wherever_it_is_shown(library):
    missing = "a part of its headers"
    mail = b"From: a@b\n" + b"To: b@c\n" * 5_000 + b"\nAnn left the house.\n"
    (change,) = library.add_file(mail, "mail.eml")
    (listed,) = library.documents()
    appended = library.append("mail.eml", "Bob came.")
    for shown in (change, listed, library.show("mail.eml"), appended):
        assert shown.incomplete == missing
    library.add("note", "Bob came.")
    assert library.merge("both", ["note", "mail.eml"]).incomplete == f"mail.eml: {missing}"


def test_bad_files_can_be_skipped(folder):
    (folder / "empty.txt").touch()
    (folder / "sub" / "cut.txt.xz").write_bytes(b"\xfd7zXZ")
    faults = []
    assert names([folder], on_bad=faults.append) == ["a", "sub/b", "sub/c", "x/1", "sub/d-2"]
    assert ["empty.txt" in str(fault) or "cut.txt.xz" in str(fault) for fault in faults] == [True, True]


@pytest.fixture
def library(tmp_path, reader):
    with Library(tmp_path / "library", reader) as library:
        yield library


@pytest.fixture
def add(library):
    """Add the documents of paths, and remove those that are gone, and return what was done."""

    def added(*paths):
        added = add_files(lambda: library, find_files(paths), sync=True)
        return {change.name: change.change for change in added.changes}, added.removed, added.refused

    return added


def test_documents_whose_file_or_line_is_gone_are_removed(folder, add, library):
    add(folder)
    library.add("other", "Not from a file.")
    (folder / "a.txt").unlink()
    (folder / "sub" / "d.jsonl").write_text(json.dumps({"id": "x/1", "text": "One."}))
    assert add(folder / "sub")[1] == ["sub/d-2"]
    assert add(folder)[1] == ["a"]


def test_documents_of_a_file_that_cannot_be_read_now_are_not_gone(folder, add):
    add(folder)
    (folder / "a.txt").write_bytes(b"")
    (folder / "sub" / "d.jsonl").write_bytes(b"cut")
    changes, gone, bad = add(folder)
    assert (len(changes), gone, len(bad)) == (2, [], 2)


def test_a_document_of_another_file_is_not_replaced(folder, add, tmp_path):
    add(folder)
    (tmp_path / "a.txt").write_text("Another Ann.")
    changes, _, (line,) = add(tmp_path / "a.txt")
    assert changes == {}
    assert line.startswith("document 'a' already exists with a different text, and is not from this file")


def test_two_texts_of_one_name_in_one_file_are_not_replaced_by_each_other(tmp_path, add):
    rows = [{"id": "x", "text": "One."}, {"id": "x", "text": "Two."}, {"id": "y", "text": "Three."}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for change in ("added", "unchanged"):
        changes, _, (line,) = add(tmp_path / "d.jsonl")
        assert changes == {"x": change, "y": change}
        assert line.startswith("document 'x' already exists with a different text")


@pytest.mark.parametrize("keep_text", [True, False])
def test_a_document_that_was_appended_to_stays_when_its_file_is_added_again(
    folder, tmp_path, reader, keep_text
):
    with Library(tmp_path / "kept", reader, keep_text=keep_text) as library:

        def add(replace=False):
            added = add_files(lambda: library, find_files([folder]), sync=True, replace=replace)
            return {change.name: change.change for change in added.changes}, added.removed, added.refused

        add()
        library.append("a", "Bob came.", key="1")
        library.append("a", "Dan came.")
        before = library.store.get("a").entry
        changes, gone, bad = add()
        assert (changes["a"], gone, bad) == ("unchanged", [], [])
        (folder / "a.txt").write_text("Ann stayed.")
        changes, gone, (line,) = add()
        assert ("a" in changes, gone) == (False, [])
        assert line.startswith("document 'a' was appended to; --replace")
        assert library.store.get("a").entry == before
        assert before.source == ""
        assert add(replace=True)[0]["a"] == "replaced"
        assert add()[0]["a"] == "unchanged"


def test_a_file_whose_name_is_not_utf_8_is_one_line_and_the_others_are_read(folder):
    with open(os.fsencode(folder) + b"/caf\xe9.txt", "w") as file:
        file.write("Dan stayed.")
    faults = []
    assert "a" in names([folder], on_bad=faults.append)
    (fault,) = faults
    assert str(fault).endswith(": the name of the file is not in UTF-8; rename it")
