"""Documents are added once, in groups, and reported when they are on the disk."""

import lmdb
import pytest

from attar.errors import FormatError, OptionError
from attar.library import Library, drafts
from attar.store import Store


def changes(outcomes):
    return [outcome.change for outcome in outcomes]


def named(texts):
    return [(f"story-{number}", text) for number, text in enumerate(texts)]


def test_a_documents_memory_is_what_the_reader_reads(library, reader, texts, assert_same):
    outcome = library.add("emma", texts[0], title="Emma")
    record = library.show("emma")
    assert_same(record.memory, reader.read(texts[0]))
    assert (record.entry.title, record.text) == ("Emma", None)
    assert outcome == ("emma", "added", record.memory.tokens, record.entry.memory_bytes)


def test_many_are_read_side_by_side_and_are_the_same(library, reader, texts, assert_same):
    assert changes(library.add_many(named(texts), batch=4)) == ["added"] * len(texts)
    for name, text in named(texts):
        assert_same(library.show(name).memory, reader.read(text))


def test_the_same_text_again_changes_nothing_and_is_not_read(library, texts, monkeypatch):
    library.add_many(named(texts))
    before = list(library.documents())
    monkeypatch.setattr(library, "_reader", None)
    monkeypatch.setattr(library, "_reader_path", "no such reader")
    assert changes(library.add_many(named(texts), replace=True)) == ["unchanged"] * len(texts)
    assert list(library.documents()) == before


def test_another_text_under_a_known_name_is_refused(library, texts):
    library.add("emma", texts[0])
    before = library.show("emma")
    with pytest.raises(OptionError, match=r"'emma'.*got another text; replace it \(--replace\)"):
        library.add("emma", texts[1])
    assert library.show("emma") == before


def test_replace_replaces_and_keeps_when_the_document_was_made(library, reader, texts, assert_same):
    library.add("emma", texts[0])
    created = library.show("emma").entry.created
    assert library.add("emma", texts[1], replace=True).change == "replaced"
    assert_same(library.show("emma").memory, reader.read(texts[1]))
    assert library.show("emma").entry.created == created


def test_what_comes_before_a_refused_document_is_added_and_reported(library, texts):
    library.add("story-2", "Another text.")
    reported = []
    with pytest.raises(OptionError, match="'story-2'"):
        library.add_many(named(texts), progress=reported.append)
    assert [outcome.name for outcome in reported] == ["story-0", "story-1"]
    assert [facts.name for facts in library.documents()] == ["story-0", "story-1", "story-2"]


def test_what_comes_before_a_fault_of_the_source_is_added(library, texts):
    def source():
        yield from named(texts[:2])
        raise FormatError("third", "text", "nothing")

    with pytest.raises(FormatError, match="third"):
        library.add_many(source())
    assert [facts.name for facts in library.documents()] == ["story-0", "story-1"]


def test_a_document_is_on_the_disk_when_it_is_reported(library, folder, texts):
    def look(outcome):
        with Store.open(folder, read_only=True) as store:
            assert outcome.name in store

    library.add_many(named(texts), batch=2, progress=look)


def test_one_group_is_one_change(library, texts):
    library.add_many(named(texts[:8]), batch=4)
    before = library.store.stats().changes
    library.add_many([(name + "x", text) for name, text in named(texts[:8])], batch=4)
    assert library.store.stats().changes == before + 2


def test_long_documents_make_small_groups(library, texts, monkeypatch):
    monkeypatch.setattr(drafts, "CHARACTERS", 10)
    before = library.store.stats().changes
    library.add_many(named(texts[:3]))
    assert library.store.stats().changes == before + 3


def test_a_name_that_comes_twice_is_added_once(library, texts):
    twice = [("emma", texts[0]), ("emma", texts[0])]
    assert changes(library.add_many(twice)) == ["added", "unchanged"]


def test_the_later_of_two_texts_of_a_name_replaces_the_earlier_if_it_may(library, texts):
    two = [("emma", texts[0]), ("emma", texts[1])]
    with pytest.raises(OptionError, match="another text"):
        library.add_many(two)
    assert changes(library.add_many(two, replace=True)) == ["unchanged", "replaced"]


def test_another_process_may_have_added_the_same_meanwhile(library, folder, reader, texts, monkeypatch):
    reads = reader.read_many

    def read_and_be_overtaken(texts, **options):
        monkeypatch.undo()
        with Library(folder, reader) as other:
            other.add("emma", texts[0])
        return reads(texts, **options)

    monkeypatch.setattr(reader, "read_many", read_and_be_overtaken)
    assert library.add("emma", texts[0]).change == "unchanged"


def test_a_damaged_document_is_mended_by_adding_it_again(library, folder, reader, texts, assert_same):
    library.add("emma", texts[0])
    library.close()
    with lmdb.open(str(folder)) as environment, environment.begin(write=True) as transaction:
        value = bytearray(transaction.get(b"memma"))
        value[-1] ^= 1
        transaction.put(b"memma", bytes(value))
    with Library(folder, reader) as again:
        with pytest.raises(FormatError, match="a wrong checksum"):
            again.ask("emma", "Who left?")
        again.add("emma", texts[0])
        assert_same(again.show("emma").memory, reader.read(texts[0]))
        assert list(again.store.check()) == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("emma", "", "text of 'emma': expected text, got nothing"),
        ("emma", " \n", "text of 'emma': expected text, got blanks only"),
        ("", "Ann left.", "name: expected at least one character"),
        ("emma", "half \ud800", "text: expected text, got half of a surrogate pair"),
        ("half \ud800", "Ann left.", "half of a surrogate pair"),
        ("emma", b"bytes", "text of 'emma': expected a string, got bytes"),
        (7, "Ann left.", "name: expected a string, got int"),
    ],
    ids=["empty", "blank", "no name", "half a character", "half a character in the name", "bytes", "number"],
)
def test_what_is_no_document_is_refused_in_a_line(library, name, text, line):
    with pytest.raises(Exception, match=line) as fault:
        library.add(name, text)
    assert "\n" not in str(fault.value)
    assert len(library) == 0


@pytest.mark.parametrize("name", ["x" * 10_000, "a/b/../c", "two\nlines", "ends ", "Ω"])
def test_any_name_will_do(library, texts, name):
    library.add(name, texts[0])
    assert [facts.name for facts in library.documents()] == [name]
    assert library.ask(name, "Who left?")
    library.append(name, texts[1])
    library.remove(name)
    assert name not in library


def test_a_memory_that_the_numbers_cannot_hold_is_refused_by_name(folder, reader, texts, monkeypatch):
    from attar.memory import Memory

    huge = reader.read(texts[0])
    huge = Memory.of("named", huge.numbers * 1e9, tokens=1, reader=huge.reader, names=huge.names)
    monkeypatch.setattr(reader, "read_many", lambda texts, **options: [reader.read(texts[0]), huge])
    with Library(folder, reader) as library, pytest.raises(OptionError, match=r"'story-1'.*float32 or int8"):
        library.add_many(named(texts[:2]))
    with Store.open(folder) as store:
        assert [facts.name for facts in store.documents()] == ["story-0"]


def test_a_batch_is_at_least_one(library, texts):
    with pytest.raises(OptionError, match="batch"):
        library.add_many(named(texts), batch=0)
