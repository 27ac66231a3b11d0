"""Signatures follow their documents: added, changed, merged and removed, by this process and others."""

import msgspec
import numpy as np
import pytest

from attar.errors import OptionError
from attar.library.library import Library
from attar.search.signatures import SignatureRecord, Signer
from attar.store.parquet import export_store, import_store
from attar.store.store import Store
from attar.store.transactions import STATISTICS_KEY

from .conftest import damage

TEXTS = {
    "emma": "Ann Lee lived at Hartfield with her father. Bob owned the abbey of Bath.",
    "rome": "Rome has a river. The Tiber moves through town, 80 miles of it.",
    "tea": "Zebra tea gives joy. Quizzical kings of Xian drank it first.",
}
NEW = "Coffee came from a fjord in Ethiopia."


@pytest.fixture
def library(folder, reader):
    with Library(folder, reader) as library:
        library.add_many(TEXTS.items())
        yield library


def found(library, query):
    return [hit.document for hit in library.search(query)]


def record(library, name):
    with library.store.snapshot() as now:
        data = now.signature(now.entry(name))
    return None if data is None else SignatureRecord.from_bytes(data)


def without_signature(library, *names):
    """Write documents again as a copy of the store would that has no signatures."""
    with library.store.transaction() as changes:
        for name in names:
            entry = changes.entry(name)
            whole = changes.record(entry)
            changes.put(
                type(whole)(entry, whole.memory_data, whole.text_data, None),
                reader=library.reader.fingerprint,
                replacing=entry,
            )


@pytest.fixture
def unread(monkeypatch):
    """Fails where a text is read only for its signature."""

    def fail(signer, text):
        raise AssertionError("the signature is there")

    monkeypatch.setattr(Signer, "sums", fail)


@pytest.mark.usefixtures("unread")
class TestSignaturesStay:
    def test_in_an_export_that_is_imported(self, library, reader, tmp_path):
        export_store(library.store, tmp_path / "export.parquet")
        with Store.open(tmp_path / "restored") as store:
            assert import_store(store, tmp_path / "export.parquet") == len(TEXTS)
            assert list(store.check()) == []
        with Library(tmp_path / "restored", reader, read_only=True) as restored:
            assert restored.search("tea") == library.search("tea")

    def test_when_a_library_moves_to_another_reader(self, library, make_reader, tmp_path):
        other = make_reader(7)
        library.reread(other)
        assert list(library.store.check()) == []
        with Library(tmp_path / "afresh", other) as afresh:
            afresh.add_many(TEXTS.items())
            assert library.search("tea") == afresh.search("tea")
            for name in TEXTS:
                assert record(library, name) == record(afresh, name)


def test_signatures_of_an_export_with_other_statistics_are_made_again(library, reader, tmp_path):
    export_store(library.store, tmp_path / "export.parquet")
    with Library(tmp_path / "second", reader) as second:
        second.add("mine", NEW)
        second.refit()
        import_store(second.store, tmp_path / "export.parquet")
        assert record(second, "tea") is None
        assert set(found(second, "tea")) == {*TEXTS, "mine"}
        assert record(second, "tea") is not None


def test_removed_and_replaced_documents_are_never_found(library):
    assert set(found(library, TEXTS["rome"])) == TEXTS.keys()
    library.add("tea", NEW, replace=True)
    library.remove("rome")
    hits = {hit.document: hit for hit in library.search(TEXTS["rome"])}
    assert hits.keys() == {"emma", "tea"}
    assert [sentence.text for sentence in hits["tea"].sentences] == [NEW]


def test_what_another_process_writes_is_found(library, folder, reader):
    assert found(library, "tea")
    with Library(folder, reader) as other:
        other.add("new", NEW)
        other.remove("rome")
    names = found(library, NEW)
    assert (names[0], "rome" in names) == ("new", False)


def test_one_question_sees_one_state_of_the_library(library):
    """A refit meanwhile gives the library other statistics, and what is removed stays in the answers."""
    with library.opened() as shard:
        (before,) = shard.corpora(["tea"])
        library.refit()
        library.remove("tea")
        (after,) = shard.corpora(["tea"])
        assert (after.statistics, after.corpus.documents) == (before.statistics, 3)
        assert shard.sentences("tea", ["tea", "nobody"], False).keys() == {"tea"}
    assert "tea" not in found(library, "tea")


def test_an_appended_document_has_the_signature_of_the_whole(library, folder, reader):
    library.append("tea", "Black tea is oxidised. Assam lies in India.")
    library.append("tea", "Milk is added in England.")
    with Library(folder.with_name("other"), reader) as other:
        other.add("tea", library.show("tea").text)
        expected, got = record(other, "tea"), record(library, "tea")
    assert got.tokens == expected.tokens
    np.testing.assert_array_equal(got.word_counts[0], expected.word_counts[0])
    bits = [np.unpackbits(np.frombuffer(each.signature, np.uint8)) for each in (got, expected)]
    assert (bits[0] == bits[1]).mean() > 0.99


def test_missing_signatures_are_made_from_texts_and_kept(library):
    expected = record(library, "tea")
    without_signature(library, *TEXTS)
    assert found(library, TEXTS["tea"])[0] == "tea"
    assert record(library, "tea").signature == expected.signature


def test_documents_without_text_and_signature_are_left_out(folder, reader):
    with Library(folder, reader, keep_text=False) as library:
        library.add_many(TEXTS.items())
        without_signature(library, "tea")
        for _ in range(2):
            assert set(found(library, TEXTS["tea"])) == TEXTS.keys() - {"tea"}
            assert library.left_out == ["tea"]


@pytest.mark.parametrize("data", [b"garbage", None], ids=["checksum", "content"])
def test_damaged_statistics_are_one_line_and_fitted_again(library, folder, reader, data):
    if data is None:
        with library.store.transaction() as changes:
            changes.put_statistics(b"no statistics")
    library.close()
    if data is not None:
        damage(folder, STATISTICS_KEY)
    with Library(folder, reader) as opened:
        with pytest.raises(OptionError, match=r"statistics for search are damaged; .*attar store refit"):
            opened.search("tea")
        opened.refit()
        assert found(opened, TEXTS["tea"])[0] == "tea"


def test_a_reader_without_statistics_asks_for_a_refit(folder, reader, tiny_reader_folder, tmp_path):
    bare = tmp_path / "bare"
    reader.save(bare)
    with Library(folder, bare) as library:
        library.add_many(TEXTS.items())
        with pytest.raises(OptionError, match=r"no statistics for search; .*attar store refit"):
            library.search("tea")
        library.refit()
        assert found(library, TEXTS["tea"])[0] == "tea"


@pytest.mark.parametrize("forged", [["tea"], [*TEXTS]], ids=["one", "all"])
def test_signatures_with_pieces_that_no_reader_has_are_left_out(library, folder, reader, forged):
    with library.store.transaction() as changes:
        for name in forged:
            entry = changes.entry(name)
            kept = SignatureRecord.from_bytes(changes.signature(entry))
            parts = {"pieces": b"\xff\xff", "counts": b"\1", "triangle": b""}
            changes.put_signature(entry, msgspec.structs.replace(kept, **parts).to_bytes())
    with Library(folder, reader, read_only=True) as other:
        other.defer_signatures()
        assert set(found(other, "tea")) == {*TEXTS} - {*forged}
