"""Documents are added once, in batches, reported when they are on disk, and merged.

On a GPU they are read ahead of the writer: what may differ there is tested in both ways.
"""

from contextlib import contextmanager

import pytest

from attar.errors import FormatError, NameTakenError, OptionError
from attar.library import drafts
from attar.library.library import Library
from attar.memory.phrases import PhraseIndex
from attar.store.store import Store

from .conftest import damage


@pytest.fixture
def ahead(folder, reader, monkeypatch):
    """A library that reads as on a GPU, two documents at a time."""
    monkeypatch.setattr("attar.library.library._BATCH_ON_GPU", 2)
    with Library(folder, reader) as library:
        library.device = "as on a GPU"
        yield library


@pytest.fixture(params=["library", "ahead"])
def either(request):
    return request.getfixturevalue(request.param)


def kinds(changes):
    return [each.change for each in changes]


def named(texts):
    return [(f"story-{number}", text) for number, text in enumerate(texts)]


def test_a_batch_gives_the_memories_of_single_documents(either, reader, texts, monkeypatch):
    monkeypatch.setattr("attar.library.library._BATCH", 4)
    assert kinds(either.add_many(named(texts))) == ["added"] * len(texts)
    for name, text in named(texts):
        assert either.memory(name) == reader.read(text)
    assert len(either.search("Ann")) == len(texts)


def test_only_what_is_new_is_read(either, reader, texts, monkeypatch):
    either.add_many(named(texts[:3]))
    read, read_many = [], type(reader).read_many
    monkeypatch.setattr(
        type(reader),
        "read_many",
        lambda self, texts, **given: read.extend(texts) or read_many(self, texts, **given),
    )
    assert kinds(either.add_many(named(texts[:5]))) == ["unchanged"] * 3 + ["added"] * 2
    assert read == texts[3:5]


def test_another_text_under_an_existing_name_is_refused(library, texts):
    library.add("emma", texts[0])
    before = library.show("emma")
    with pytest.raises(
        NameTakenError, match=r"document 'emma' already exists with a different text; use --replace"
    ):
        library.add("emma", texts[1])
    assert library.show("emma") == before


def test_replacing_a_document_keeps_its_creation_time(library, reader, texts):
    library.add("emma", texts[0])
    created = library.show("emma").created
    assert library.add("emma", texts[1], replace=True).change == "replaced"
    assert library.memory("emma") == reader.read(texts[1])
    assert library.show("emma").created == created


def test_documents_before_a_refused_one_are_added_and_reported(either, texts):
    either.add("story-2", "Another text.")
    reported, refused = [], []
    with pytest.raises(NameTakenError, match="'story-2'"):
        either.add_many(named(texts[:4]), on_change=reported.append)
    assert [each.name for each in reported] == ["story-0", "story-1"]
    assert [each.name for each in either.documents()] == ["story-0", "story-1", "story-2"]
    either.add_many(named(texts[:4]), on_refused=refused.append)
    assert [type(fault) for fault in refused] == [NameTakenError]
    assert "story-3" in either


def test_documents_before_an_error_of_the_source_are_added(either, texts):
    def source():
        yield from named(texts[:2])
        raise FormatError.expected("third", "text", "nothing")

    with pytest.raises(FormatError, match="third"):
        either.add_many(source())
    assert [each.name for each in either.documents()] == ["story-0", "story-1"]


def test_a_document_is_on_disk_when_it_is_reported(library, folder, texts, monkeypatch):
    monkeypatch.setattr("attar.library.library._BATCH", 2)

    def look(change):
        with Store.open(folder, read_only=True) as store:
            assert change.name in store

    library.add_many(named(texts), on_change=look)


def test_what_took_two_seconds_to_read_is_written_before_the_next_document(library, texts, monkeypatch):
    """Ctrl-C, or a kill, loses no more than that."""
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(drafts.time, "monotonic", lambda: float(next(clock)))
    stored = []

    def slow_documents():
        for name, text in named(texts[:4]):
            stored.append(len(library))
            yield name, text

    library.add_many(slow_documents())
    assert stored == [0, 0, 1, 2]
    assert len(library) == 4


def test_a_document_that_another_process_adds_meanwhile_is_unchanged(
    library, folder, reader, texts, monkeypatch
):
    reads = reader.read_many

    def read_and_be_overtaken(texts, **options):
        monkeypatch.undo()
        with Library(folder, reader) as other:
            other.add("emma", texts[0])
        return reads(texts, **options)

    monkeypatch.setattr(reader, "read_many", read_and_be_overtaken)
    assert library.add("emma", texts[0]).change == "unchanged"


def test_memories_are_cut_and_packed_while_others_may_write(folder, reader, texts, monkeypatch):
    begin, pack = Store.transaction, PhraseIndex.to_bytes
    writing, packed = [], []

    @contextmanager
    def transaction(store):
        with begin(store) as changes:
            writing.append(store)
            yield changes
            writing.pop()

    monkeypatch.setattr(Store, "transaction", transaction)
    monkeypatch.setattr(PhraseIndex, "to_bytes", lambda index: packed.append(bool(writing)) or pack(index))
    with Library(folder, reader, budget=len(reader.read(texts[0]).to_bytes()) - 50) as library:
        library.add("emma", texts[0])
        library.add("tea", "Ann left.")
    assert packed
    assert not any(packed)


def test_a_document_that_is_too_large_is_refused_and_the_others_are_added(library, texts, monkeypatch):
    library.add("first", "Ann left.")
    monkeypatch.setattr("attar.memory.memory.MOST_BYTES", 10_000)
    refused = []
    documents = [("large", "".join(texts)), ("small", "Bob came.")]
    assert [change.name for change in library.add_many(documents, on_refused=refused.append)] == ["small"]
    assert [type(fault) for fault in refused] == [OptionError]


@pytest.mark.parametrize("device", [None, "as on a GPU"])
def test_adding_a_damaged_document_again_repairs_it(library, folder, reader, texts, device):
    library.add_many(named(texts[:2]))
    library.close()
    damage(folder, b"mstory-1")
    with Library(folder, reader) as again:
        again.device = device
        with pytest.raises(FormatError, match="memory of 'story-1' is damaged"):
            again.ask("story-1", "Who left?")
        assert kinds(again.add_many(named(texts[:2]))) == ["unchanged", "replaced"]
        assert again.memory("story-1") == reader.read(texts[1])
        assert list(again.store.check()) == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("emma", "", "the text of 'emma' is empty; leave it out"),
        ("emma", " \n", "the text of 'emma' is blank; leave it out"),
        ("", "Ann left.", "name: expected at least one character"),
        ("emma", "half \ud800", "the text of 'emma' has half of a surrogate pair"),
        ("half \ud800", "Ann left.", "half of a surrogate pair"),
        ("emma", b"bytes", "text of 'emma': expected a string, got bytes"),
        (7, "Ann left.", "name: expected a string, got int"),
    ],
    ids=["empty", "blank", "no name", "half a character", "half a character in the name", "bytes", "number"],
)
def test_an_invalid_document_is_refused_in_one_line(library, name, text, line):
    with pytest.raises(Exception, match=line) as fault:
        library.add(name, text)
    assert "\n" not in str(fault.value)
    assert len(library) == 0


def pair(texts):
    return [("one", texts[0]), ("two", texts[1])]


def test_merging_does_not_load_the_reader(library, folder, texts):
    library.add_many(pair(texts))
    with Library(folder, "no such reader") as other:
        change = other.merge("both", ["one", "two"])
        parts = [other.show(name).tokens for name in ("one", "two")]
        assert (change.change, change.tokens) == ("merged", sum(parts))
        assert other._reader.fingerprint is None
    assert "both" in library
