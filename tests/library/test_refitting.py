"""Refitting: statistics of the library's own texts, all signatures made again, while others change documents."""

import pytest

from attar.errors import OptionError
from attar.library.library import Library
from attar.results import Refit
from attar.store.records import key_of

from .conftest import damage
from .test_searching import NEW, TEXTS, found, record, without_signature


@pytest.fixture
def library(folder, reader):
    with Library(folder, reader) as library:
        library.add_many(TEXTS.items())
        yield library


@pytest.fixture
def without_text(folder, reader):
    """A library of which one document has a signature and no text."""
    with Library(folder, reader, keep_text=False) as library:
        library.add("rome", TEXTS["rome"])
    with Library(folder, reader) as library:
        library.add("tea", TEXTS["tea"])
        yield library


def after_some_progress(change, task="signatures"):
    """A progress callback that changes something at the first document of a task."""

    def progress(name, at, count):
        if (name, at) == (task, 0):
            change()

    return progress


def test_signatures_are_made_with_the_documents_own_statistics(library):
    before = record(library, "tea").statistics
    assert library.refit() == Refit(len(TEXTS))
    assert record(library, "tea").statistics != before
    assert found(library, TEXTS["tea"])[0] == "tea"
    assert list(library.store.check()) == []


def test_documents_without_a_text_are_not_lost(without_text):
    before = record(without_text, "tea")
    with pytest.raises(OptionError, match=r"1 documents .* have no kept text, such as 'rome'.*--leave-out"):
        without_text.refit()
    assert record(without_text, "tea") == before
    assert set(found(without_text, TEXTS["rome"])) == {"rome", "tea"}


@pytest.mark.parametrize("task", ["fitting", "signatures"])
def test_a_document_that_is_removed_meanwhile_is_not_missed(library, task):
    progress = after_some_progress(lambda: library.remove("rome"), task)
    assert library.refit(progress=progress) == Refit(len(TEXTS) - 1)
    assert set(found(library, TEXTS["rome"])) == TEXTS.keys() - {"rome"}


def test_a_document_without_a_text_that_comes_meanwhile_is_not_lost(library, folder, reader):
    before = record(library, "tea")
    with Library(folder, reader, keep_text=False) as other:
        progress = after_some_progress(lambda: other.add("new", NEW), "fitting")
        with pytest.raises(OptionError, match="such as 'new'"):
            library.refit(progress=progress)
    assert record(library, "tea") == before


def test_what_changes_meanwhile_is_found(library):
    library.refit(progress=after_some_progress(lambda: library.add("tea", NEW, replace=True)))
    assert set(found(library, NEW)) == TEXTS.keys()
    assert record(library, "tea").statistics == record(library, "rome").statistics


@pytest.mark.parametrize("kind", [b"f", b"t"], ids=["entry", "text"])
def test_damaged_documents_are_counted(library, folder, reader, kind):
    library.close()
    damage(folder, kind + key_of("rome"))
    with Library(folder, reader) as opened:
        assert opened.refit() == Refit(len(TEXTS) - 1, left_out=1)


def test_a_refit_stays_if_signatures_are_made_meanwhile(library, folder, reader):
    """A search notices the new statistics while another thread makes signatures with the old ones."""
    without_signature(library, "tea")

    def refit():
        with Library(folder, reader) as other:
            other.refit()
        library.defer_signatures()
        library.search("tea")

    library.make_signatures(progress=after_some_progress(refit))
    with library.store.snapshot() as now:
        assert {record(library, name).statistics for name in TEXTS} == {now.statistics_digest}


@pytest.mark.parametrize("read", ["read_many", "extend"])
def test_what_was_read_before_a_refit_has_no_signature_of_other_statistics(
    library, folder, reader, monkeypatch, read
):
    """A search notices the new statistics between the reading of a text and its writing."""
    reading = getattr(reader, read)

    def read_and_be_overtaken(*texts, **options):
        done = reading(*texts, **options)
        monkeypatch.undo()
        library.refit()
        return done

    monkeypatch.setattr(reader, read, read_and_be_overtaken)
    if read == "extend":
        library.append("tea", NEW)
    else:
        library.add("tea", NEW, replace=True)
    assert record(library, "tea") is None
    assert set(found(library, NEW)) == TEXTS.keys()
    assert record(library, "tea").statistics == record(library, "rome").statistics
