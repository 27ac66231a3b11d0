"""`Library.reread`: a library moves to another reader while others ask and add; an interruption loses nothing."""

import os
from pathlib import Path

import pytest

from attar.documents.extracted import SourceDocument
from attar.errors import BusyError, OptionError, RecordError
from attar.library.drafts import Draft
from attar.library.library import Library
from attar.library.rereading import _locked
from attar.reader import folders

pytestmark = pytest.mark.slow

QUESTION = "Who left?"


@pytest.fixture
def other(make_reader):
    """A reader with other weights."""
    return make_reader(7)


@pytest.fixture
def shipped(reader, other, tmp_path, monkeypatch) -> Path:
    """A package with both readers: a library finds its own by the fingerprint."""
    reader.save(tmp_path / "readers" / "fixed")
    other.save(tmp_path / "readers" / "answers")
    monkeypatch.setattr(folders, "SHIPPED", tmp_path / "readers")
    return tmp_path / "readers"


@pytest.fixture
def filled(library, texts):
    library.add_many(zip("abc", texts, strict=False))
    library.add("titled", texts[3], title="Emma")
    return library


def reading(reader, monkeypatch, call):
    """Call a function each time that a reader reads texts, before it does."""
    read_many = reader.read_many

    def read(texts, **options):
        call(texts)
        return read_many(texts, **options)

    monkeypatch.setattr(reader, "read_many", read)


def in_batches_of_one(monkeypatch):
    monkeypatch.setattr("attar.library.library._BATCH", 1)


@pytest.fixture
def assert_moved(folder, other, tmp_path):
    """A library has exactly these texts, and the memories that the other reader makes of them."""

    def check(texts):
        with Library(folder, other) as moved:
            assert list(moved.store.check()) == []
            assert {each.name: moved.show(each.name).text for each in moved.documents()} == texts
            for name, text in texts.items():
                assert moved.memory(name) == other.read(text)

    return check


def test_all_documents_are_read_again(filled, folder, other, texts, assert_moved):
    before = {each.name: each for each in filled.documents()}
    done = filled.reread(other)
    assert (done.reader, done.documents, done.read) == (other.fingerprint, 4, 4)
    assert filled.reader is other
    assert filled.show("titled").title == "Emma"
    for each in filled.documents():
        assert each.created == before[each.name].created
        assert each.changed > before[each.name].changed
    assert [answer.text for answer in filled.ask("a", QUESTION)]
    filled.add("new", texts[4])
    assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]
    filled.close()
    names = dict(zip(("a", "b", "c", "titled", "new"), texts, strict=False))
    assert_moved(names)


def test_documents_keep_where_they_came_from(filled, other, texts):
    document = SourceDocument(texts[4], date="2026-03-04", parts=((0, "page 1"),), name="emma")
    filled.add_many([Draft.of_source(document, "/letters/emma.pdf")])
    before = filled.store.get("emma").entry
    filled.reread(other)
    after = filled.store.get("emma").entry
    assert (after.source, after.date, after.parts) == (before.source, before.date, before.parts)
    assert after.source == "/letters/emma.pdf"


def test_documents_without_a_text_are_refused_before_anything_is_read(
    filled, folder, other, texts, monkeypatch
):
    with Library(folder, filled.reader, keep_text=False) as textless:
        textless.add_many([("x", texts[4]), ("y", texts[5])])
    reading(other, monkeypatch, lambda texts: pytest.fail("a text was read"))
    with pytest.raises(OptionError, match=r"has 2 documents without a kept text"):
        filled.reread(other)
    assert filled.store.reader == filled.reader.fingerprint
    assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]


def test_damaged_documents_are_refused_with_the_remedy(filled, other):
    with filled.store._environment.transaction(write=True) as transaction:
        transaction.put(b"fa", b"?")
    with pytest.raises(RecordError, match=r"has 1 damaged documents; .*attar store repair"):
        filled.reread(other)


def test_an_interrupted_reread_is_continued(filled, other, texts, assert_moved, monkeypatch):
    in_batches_of_one(monkeypatch)
    calls = []

    def interrupt(_):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    reading(other, monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        filled.reread(other)
    assert filled.ask("a", QUESTION)
    assert filled.store.reader == filled.reader.fingerprint
    done = filled.reread(other)
    assert (done.documents, done.read) == (4, 2)
    filled.close()
    assert_moved(dict(zip(("a", "b", "c", "titled"), texts, strict=False)))


def test_what_others_change_meanwhile_is_read_too(
    filled, folder, other, reader, texts, assert_moved, monkeypatch
):
    in_batches_of_one(monkeypatch)
    todo = [
        lambda library: library.add("new", texts[5]),
        lambda library: library.remove("a"),
        lambda library: library.append("b", texts[6]),
        lambda library: library.add("titled", texts[7], replace=True),
    ]

    def change(_):
        if todo:
            with Library(folder, reader) as library:
                todo.pop(0)(library)

    reading(other, monkeypatch, change)
    filled.reread(other)
    filled.close()
    wanted = {"b": f"{texts[1]}\n\n{texts[6]}", "c": texts[2], "new": texts[5], "titled": texts[7]}
    assert_moved(wanted)


def test_a_library_that_is_open_elsewhere_answers_all_the_time(filled, folder, shipped, other, monkeypatch):
    in_batches_of_one(monkeypatch)
    answers = []
    with Library(folder, read_only=True) as elsewhere:
        before = elsewhere.ask("a", QUESTION)
        reading(other, monkeypatch, lambda _: answers.append(elsewhere.ask("a", QUESTION)))
        filled.reread(other)
        assert len(answers) == 4
        assert all(found == before for found in answers)
        assert elsewhere.ask("a", QUESTION) == filled.ask("a", QUESTION) != before
        assert elsewhere.reader.fingerprint == other.fingerprint


def test_two_at_a_time_are_refused(filled, folder, other):
    with _locked(folder / "reread"), pytest.raises(BusyError, match="another process is rereading"):
        filled.reread(other)
    assert filled.reread(other).read == 4


@pytest.mark.parametrize("change", ["add", "append"])
def test_what_is_being_written_at_the_switch_is_read_with_the_new_reader(
    filled, folder, shipped, other, texts, monkeypatch, change
):
    with Library(folder) as elsewhere:
        method = "read_many" if change == "add" else "extend"
        read = getattr(elsewhere.reader, method)

        def overtaken(*arguments, **options):
            filled.reread(other)
            return read(*arguments, **options)

        monkeypatch.setattr(elsewhere.reader, method, overtaken)
        if change == "add":
            elsewhere.add("a", texts[5], replace=True)
        else:
            elsewhere.append("a", texts[5])
        whole = texts[5] if change == "add" else f"{texts[0]}\n\n{texts[5]}"
        assert elsewhere.memory("a") == other.read(whole)
        assert list(elsewhere.store.check()) == []
