"""Stores, readers and cloze sets that version 0.1.0 wrote still open, and give the answers they gave then."""

import json
import shutil
from pathlib import Path

import pytest

from attar.cloze.sets import ClozeSet
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.store.parquet import import_store
from attar.store.store import Store

FILES = Path(__file__).parent / "v0_1_0"
EXPECTED = json.loads((FILES / "expected.json").read_text())
MECHANISMS = sorted(EXPECTED["stores"])


@pytest.fixture
def files(tmp_path):
    """A copy of the files, since opening a store may write to its folder."""
    return Path(shutil.copytree(FILES, tmp_path / "files"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writable"])
def test_a_library_gives_the_answers_it_gave(files, mechanism, read_only):
    reader = Reader.load(files / "readers" / mechanism)
    with Library(files / "stores" / mechanism, reader, read_only=read_only) as library:
        documents = EXPECTED["stores"][mechanism]
        assert {each.name: each.tokens for each in library.documents()} == {
            name: document["tokens"] for name, document in documents.items()
        }
        for name, document in documents.items():
            for question, answers in zip(EXPECTED["questions"], document["answers"], strict=True):
                found = library.ask(name, question, top=3)
                assert [each.text for each in found] == [text for text, _ in answers]
                assert [each.probability for each in found] == pytest.approx(
                    [probability for _, probability in answers], abs=1e-4
                )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_store_is_sound(files, mechanism):
    with Store.open(files / "stores" / mechanism, read_only=True) as store:
        assert list(store.check()) == []


def test_documents_can_be_added_to_a_library(files):
    with Library(files / "stores" / "named", Reader.load(files / "readers" / "named")) as library:
        library.add("new", "Ann Lee wrote to Tom Hill.")
        assert {answer.text for answer in library.ask("new", "Who wrote to Tom Hill?", top=None)} == {
            "Ann Lee",
            "Tom Hill",
        }


def test_exported_documents_can_be_imported(files, tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        import_store(store, files / "named.parquet")
        assert [each.name for each in store.documents()] == sorted(EXPECTED["stores"]["named"])


@pytest.mark.parametrize(
    ("folder", "split", "documents"),
    [
        ("cloze-parquet", "training", 18),
        ("cloze-parquet", "validation", 5),
        ("cloze-parquet", "test", 3),
        ("cloze-cnn", "training", 2),
        ("cloze-cnn", "validation", 2),
        ("cloze-cnn", "test", 2),
    ],
)
def test_cloze_sets_open(files, folder, split, documents):
    assert len(list(ClozeSet(files / folder).documents(split))) == documents
