"""Files and folders in Python: added, brought in line, followed; a mistake is one line, and nothing is half-written."""

import threading

import pytest

from attar.errors import FormatError, NameTakenError, OptionError


@pytest.fixture
def letters(tmp_path):
    (tmp_path / "letters" / "sub").mkdir(parents=True)
    (tmp_path / "letters" / "a.txt").write_text("Ann left.")
    (tmp_path / "letters" / "sub" / "b.txt").write_text("Bob came.")
    return tmp_path / "letters"


def kinds(changes):
    return {change.name: change.change for change in changes}


def names(library, within=None):
    return [document.name for document in library.documents(within=within)]


def test_a_file_that_changed_replaces_its_own_document_only(library, letters):
    library.add_file(letters / "a.txt")
    (letters / "a.txt").write_text("Ann stayed.")
    assert kinds(library.add_file(letters / "a.txt")) == {"a": "replaced"}
    with pytest.raises(NameTakenError, match="already exists"):
        library.add_file(b"Another Ann.", "a.txt")
    assert kinds(library.add_file(b"Another Ann.", "a.txt", replace=True)) == {"a": "replaced"}


def test_a_folder_is_added_and_brought_in_line(library, letters):
    seen, calls = [], []
    added = library.add_folder(letters, on_change=seen.append, progress=lambda *call: calls.append(call))
    assert kinds(added.changes) == {"a": "added", "sub/b": "added"}
    assert seen == added.changes
    assert [call for call in calls if call[0] == "bytes"][-1] == ("bytes", 18, 18)
    (letters / "a.txt").unlink()
    (letters / "sub" / "b.txt").write_text("Bob stayed.")
    assert library.add_folder(letters).removed == []
    again = library.add_folder(letters, sync=True)
    assert (kinds(again.changes), again.removed) == ({"sub/b": "unchanged"}, ["a"])


def test_what_cannot_be_added_is_told_and_the_others_are_added(library, letters):
    (letters / "cut.pdf").write_bytes(b"%PDF-1.7 cut")
    (letters / "song.mp3").write_bytes(b"\0")
    library.add("a", "Another text.")
    refused = []
    done = library.add_folder(letters, on_refused=refused.append)
    assert kinds(done.changes) == {"sub/b": "added"}
    assert [str(fault) for fault in refused] == done.refused
    assert "cut.pdf" in done.refused[0]
    assert "'a' already exists" in done.refused[1]
    assert "song.mp3" in done.skipped[0]


LONG = "t" * 10_000


@pytest.mark.parametrize(
    ("call", "kind", "line"),
    [
        (lambda library, place: library.add_folder(place / "none"), FormatError, "none does not exist"),
        (lambda library, place: library.add_folder(place / "a.txt"), FormatError, "is a file, not a folder"),
        (lambda library, place: library.add_file(place / "none.txt"), FormatError, "cannot read .*none.txt"),
        (lambda library, place: library.add_file(place), FormatError, "Is a directory; add it with add_fold"),
        (lambda library, place: library.add_file(b"Ann left."), OptionError, "the file needs a name"),
        (lambda library, place: library.add_file(place / "a.txt", tags=[LONG]), OptionError, "got 10,000"),
        (lambda library, place: library.add_folder(place, tags=[LONG]), OptionError, "got 10,000"),
        (lambda library, place: library.watch(place, tags=[LONG]), OptionError, "got 10,000"),
        (lambda library, place: library.watch(place / "none"), FormatError, "none does not exist"),
    ],
    ids=range(9),
)
def test_a_mistake_is_one_line_and_nothing_is_written(library, letters, call, kind, line):
    with pytest.raises(kind, match=line) as fault:
        call(library, letters)
    assert "\n" not in str(fault.value)
    assert names(library) == []


def test_a_library_follows_a_folder(library, letters):
    stop, seen = threading.Event(), []
    rounds = library.watch(letters, on_change=seen.append, stop=stop)
    assert kinds(next(rounds).changes) == {"a": "added", "sub/b": "added"}
    (letters / "c.txt").write_text("Cid slept.")
    assert kinds(next(rounds).changes) == {"c": "added"}
    (letters / "c.txt").write_text("Cid woke.")
    assert kinds(next(rounds).changes) == {"c": "replaced"}
    (letters / "sub").rename(letters / "other")
    moved = next(rounds)
    assert (kinds(moved.changes), moved.removed) == ({"other/b": "added"}, ["sub/b"])
    (letters / "a.txt").unlink()
    assert next(rounds).removed == ["a"]
    assert names(library) == ["c", "other/b"]
    stop.set()
    assert list(rounds) == []
    assert len(seen) == 5


def test_a_file_that_cannot_be_read_is_read_once_it_can_be(library, letters):
    (letters / "c.txt").write_bytes(b"GIF\0\1")
    rounds = library.watch(letters)
    assert "c.txt" in next(rounds).refused[0]
    (letters / "c.txt").write_text("Cid slept.")
    assert kinds(next(rounds).changes) == {"c": "added"}
