"""A folder as rounds of changed files: all at first, then what is added, changed, renamed or removed."""

import threading

import pytest

from attar.documents import following
from attar.documents.following import watch_folder
from attar.errors import FormatError, MissingError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "letters" / "sub").mkdir(parents=True)
    (tmp_path / "letters" / "a.txt").write_text("Ann left.")
    (tmp_path / "letters" / "sub" / "b.txt").write_text("Bob came.")
    return tmp_path / "letters"


@pytest.fixture
def rounds(folder):
    """The rounds of a folder, as the names of the files that changed in each."""
    stop = threading.Event()
    yield ([file.name for file in found.files] for found in watch_folder(folder, stop=stop))
    stop.set()


def test_the_first_round_has_all_files(rounds):
    assert next(rounds) == ["a", "sub/b"]


def test_a_file_that_came_before_the_watching_began_is_not_missed(folder, rounds):
    next(rounds)
    (folder / "new.txt").write_text("Eve met Bob.")
    assert next(rounds) == ["new"]


@pytest.fixture
def watched(folder, rounds):
    """The rounds after two that are over: the watching has begun."""
    next(rounds)
    (folder / "begun.txt").write_text("Begun.")
    next(rounds)
    return rounds


def test_a_changed_file_is_read_again_and_others_are_not(folder, watched):
    (folder / "a.txt").write_text("Ann stayed.")
    assert next(watched) == ["a"]


def test_a_renamed_folder_has_new_files(folder, watched):
    (folder / "sub").rename(folder / "other")
    assert next(watched) == ["other/b"]


def test_a_round_without_files_says_that_some_are_gone(folder, watched):
    (folder / "a.txt").unlink()
    assert next(watched) == []


def test_files_of_other_kinds_are_no_round_and_are_named_once(folder):
    stop = threading.Event()
    rounds = watch_folder(folder, stop=stop)
    (folder / "song.mp3").write_bytes(b"\0")
    assert [file.path.name for file in next(rounds).skipped] == ["song.mp3"]
    (folder / "other.mp3").write_bytes(b"\0")
    (folder / "c.txt").write_text("Cid slept.")
    found = next(rounds)
    assert ([file.name for file in found.files], [file.path.name for file in found.skipped]) == (
        ["c"],
        ["other.mp3"],
    )
    stop.set()


def test_it_ends_when_it_is_stopped(folder):
    stop = threading.Event()
    rounds = watch_folder(folder, stop=stop)
    next(rounds)
    threading.Timer(0.1, stop.set).start()
    assert list(rounds) == []


def test_a_folder_that_vanishes_is_one_line(folder, watched):
    folder.rename(folder.with_name("away"))
    with pytest.raises(FormatError, match="letters is gone; its documents stay; watch it again"):
        next(watched)


def test_another_folder_in_its_place_is_not_taken_for_it(folder, watched):
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    with pytest.raises(FormatError, match="letters is now another folder; its documents stay"):
        next(watched)


@pytest.mark.parametrize(
    ("name", "line"), [("nowhere", "does not exist; check the path"), ("a.txt", "is a file, not a folder")]
)
def test_what_is_no_folder_is_refused_at_once(folder, name, line):
    with pytest.raises(FormatError, match=line):
        watch_folder(folder / name)


def test_a_file_that_vanishes_during_the_walk_does_not_end_it(folder, monkeypatch):
    walk, calls = following.find_files, []

    def vanish_once(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise FormatError("a.txt cannot be read: No such file or directory")
        return walk(*arguments, **options)

    monkeypatch.setattr(following, "find_files", vanish_once)
    assert len(next(watch_folder(folder)).files) == 2


def test_without_watchfiles_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "watchfiles", None)
    with pytest.raises(MissingError, match=r"watching a folder needs watchfiles.*pip install '.\[watch\]'"):
        watch_folder(folder)
