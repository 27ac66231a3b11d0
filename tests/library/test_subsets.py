"""Documents carry tags, metadata, folders and dates; questions, searches and lists take some of them."""

from datetime import date

import pytest

from attar.documents.extracted import SourceDocument
from attar.errors import DtypeError, OptionError, UnknownDocumentError
from attar.library.drafts import Draft
from attar.library.library import Library
from attar.results import Subset


def draft(name, text, source="", day=""):
    return Draft.of_source(SourceDocument(text, date=day, name=name), source)


@pytest.fixture
def library(folder, reader):
    with Library(folder, reader) as library:
        library.add("tea", "Zebra tea gives joy.", tags=["drink", "hot"], metadata={"by": "Ann"})
        library.add_many(
            [
                draft("old/rent", "Bob pays the rent.", "/home/Ann/letters/2019/rent.txt", "2019-05-03"),
                draft("rome", "Rome has a river.", "/home/Ann/notes/rome.txt"),
            ]
        )
        yield library


@pytest.mark.parametrize(
    ("within", "names"),
    [
        (Subset(), ["old/rent", "rome", "tea"]),
        (Subset(names=("tea", "rome")), ["rome", "tea"]),
        (Subset(tags=("hot", "drink")), ["tea"]),
        (Subset(tags=("hot", "cold")), []),
        (Subset(folder="letters"), ["old/rent"]),
        (Subset(folder="ann/letters/"), ["old/rent"]),
        (Subset(folder="/home/Ann"), ["old/rent", "rome"]),
        (Subset(folder="/Ann"), []),
        (Subset(folder="old"), ["old/rent"]),
        (Subset(folder="rent"), []),
        (Subset(since=date(2020, 1, 1)), ["rome", "tea"]),
        (Subset(since=date(2019, 5, 3), folder="letters"), ["old/rent"]),
    ],
)
def test_lists_have_the_documents_that_fit_all_that_is_given(library, within, names):
    assert [document.name for document in library.documents(within=within)] == names


def test_questions_and_searches_of_a_subset_know_no_other_document(library):
    within = Subset(folder="notes")
    assert {answer.document for answer in library.ask_all("What gives joy?", within=within)} <= {"rome", None}
    assert [hit.document for hit in library.search("zebra tea", within=within)] == ["rome"]
    assert len(library.search("zebra tea", within=Subset())) == 3


def test_tags_and_metadata_stay_until_others_are_given(library):
    library.add("tea", "Another text.", replace=True)
    library.append("tea", "And more.")
    shown = library.show("tea")
    assert (shown.tags, shown.metadata) == (("drink", "hot"), {"by": "Ann"})
    assert library.add("tea", shown.text, tags=["cold"], metadata={}).change == "replaced"
    shown = library.show("tea")
    assert (shown.tags, shown.metadata) == (("cold",), {})


def test_tags_are_changed_without_reading_again(library, monkeypatch):
    before = library.show("tea")
    monkeypatch.setattr(type(library.reader), "read_many", None)
    library.tag("tea", "rome", "tea", add=["seen", "hot"], remove=["drink", "never"])
    assert library.show("rome").tags == ("seen", "hot")
    after = library.show("tea")
    assert after.tags == ("hot", "seen")
    assert (after.changed, after.text, after.metadata) == (before.changed, before.text, before.metadata)
    assert [hit.document for hit in library.search("zebra tea", within=Subset(tags=("hot",)))] == [
        "tea",
        "rome",
    ]
    assert len(library) == 3


def test_a_known_text_is_not_read_again_for_its_labels(library, monkeypatch):
    before = library.show("rome")
    monkeypatch.setattr(type(library.reader), "read_many", None)
    change = library.add("rome", before.text, title="Rome", tags=["city"], metadata={"by": "Bob"})
    assert change.change == "replaced"
    shown = library.show("rome")
    assert (shown.title, shown.tags, shown.metadata) == ("Rome", ("city",), {"by": "Bob"})
    assert (shown.changed, shown.text, shown.source) == (before.changed, before.text, before.source)
    assert library.add("rome", before.text, tags=["city"]).change == "unchanged"


def test_a_file_that_is_added_again_tags_its_document_that_was_appended_to(library):
    file = draft("rome", "Rome has a river.", "/home/Ann/notes/rome.txt")
    library.append("rome", "And hills.")
    before = library.show("rome")
    assert [change.change for change in library.add_many([file.tagged(["city"])])] == ["replaced"]
    after = library.show("rome")
    assert (after.tags, after.text, after.changed) == (("city",), before.text, before.changed)
    assert [change.change for change in library.add_many([file])] == ["unchanged"]


def test_labels_are_given_to_what_another_process_writes_meanwhile(library, folder, reader, monkeypatch):
    """What it appends stays; what it tags is tagged again."""
    file = draft("rome", "Rome has a river.", "/home/Ann/notes/rome.txt").tagged(["city"])
    begin = library.store.transaction

    def be_overtaken():
        monkeypatch.undo()
        with Library(folder, reader) as other:
            other.append("rome", "And hills.")
            other.tag("rome", add=["old"])
        return begin()

    monkeypatch.setattr(library.store, "transaction", be_overtaken)
    library.add_many([file])
    shown = library.show("rome")
    assert (shown.tags, shown.text.split()[-1]) == (("city",), "hills.")


def test_all_documents_are_tagged_or_none(library):
    with pytest.raises(UnknownDocumentError):
        library.tag("tea", "nobody", add=["lost"])
    with pytest.raises(OptionError, match="tags: expected at most 64, got 66"):
        library.tag("rome", "tea", add=[str(number) for number in range(64)])
    assert (library.show("tea").tags, library.show("rome").tags) == (("drink", "hot"), ())


def test_a_merged_document_has_the_tags_of_all(library):
    library.add("rome", "Rome has a river.", tags=["city", "hot"])
    library.merge("both", ["rome", "tea"])
    assert library.show("both").tags == ("city", "hot", "drink")


@pytest.mark.parametrize(
    ("labels", "error", "line"),
    [
        ({"tags": ["a" * 10_000]}, OptionError, "tag: expected 1 to 100 characters, got 10,000"),
        ({"tags": [""]}, OptionError, "tag: expected 1 to 100"),
        ({"tags": ["a"] * 65}, OptionError, "tags: expected at most 64, got 65"),
        ({"tags": "paid"}, DtypeError, "tags: expected a list of strings, got str"),
        ({"metadata": {"a": 1}}, DtypeError, "value in metadata: expected a string, got int"),
        ({"metadata": {"a": "b" * 1_001}}, OptionError, "value in metadata: expected 0 to 1,000"),
    ],
)
def test_labels_that_cannot_be_kept_are_refused(library, labels, error, line):
    with pytest.raises(error, match=line):
        library.add("new", "Ann left.", **labels)
    assert "new" not in library
