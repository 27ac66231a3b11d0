"""Documents that are read ahead of the writer are added as others are."""

import pytest

from attar.errors import FormatError, NameTakenError
from attar.library.library import Library
from attar.results import Change
from tests.library.conftest import damage


@pytest.fixture
def ahead(folder, reader, monkeypatch):
    """A library that reads as on a GPU, two documents at a time."""
    monkeypatch.setattr("attar.library.library._BATCH_ON_GPU", 2)
    with Library(folder, reader) as library:
        library.device = "as on a GPU"
        yield library


def test_the_same_is_written(ahead, texts, tmp_path, reader):
    documents = [(f"{at}", text) for at, text in enumerate(texts)]
    changes = ahead.add_many(documents)
    with Library(tmp_path / "plain", reader) as plain:
        assert plain.add_many(documents) == changes
        for name, _ in documents:
            assert plain.memory(name) == ahead.memory(name)
        assert plain.search("Ann")[0].document == ahead.search("Ann")[0].document


def test_what_is_there_is_not_read_again(ahead, texts, monkeypatch):
    ahead.add_many((f"{at}", text) for at, text in enumerate(texts[:3]))
    read = []
    read_many = type(ahead.reader).read_many
    monkeypatch.setattr(
        type(ahead.reader),
        "read_many",
        lambda self, texts, **given: read.extend(texts) or read_many(self, texts, **given),
    )
    changes = ahead.add_many((f"{at}", text) for at, text in enumerate(texts[:5]))
    assert [change.change for change in changes] == ["unchanged"] * 3 + ["added"] * 2
    assert read == texts[3:5]


def test_a_damaged_document_is_repaired(folder, reader, ahead, texts):
    ahead.add_many([("0", texts[0]), ("1", texts[1])])
    ahead.close()
    damage(folder, b"m1")
    with Library(folder, reader) as library:
        library.device = "as on a GPU"
        changes = library.add_many([("0", texts[0]), ("1", texts[1])])
        assert [change.change for change in changes] == ["unchanged", "replaced"]
        assert library.memory("1").phrases


def test_the_documents_before_a_failure_are_added(ahead, texts):
    def failing():
        yield from ((f"{at}", texts[at]) for at in range(3))
        yield "blank", " "

    done: list[Change] = []
    with pytest.raises(FormatError, match="the text of 'blank' is blank"):
        ahead.add_many(failing(), on_change=done.append)
    assert [change.name for change in done] == ["0", "1", "2"]


def test_a_name_that_is_taken_is_refused(ahead, texts):
    ahead.add("a", texts[0])
    refused = []
    ahead.add_many([("a", texts[1]), ("b", texts[2])], on_refused=refused.append)
    assert [type(fault) for fault in refused] == [NameTakenError]
    assert sorted(document.name for document in ahead.documents()) == ["a", "b"]


def test_without_documents_no_reader_is_loaded(folder):
    with Library(folder, device="cuda") as library:
        assert library.add_many([]) == []
