"""Size and type of signatures: options of a library, which its store keeps with the statistics."""

import pytest

from attar.errors import OptionError
from attar.library.drafts import Draft, encode_texts
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.results import Refit
from attar.search.records import SignatureRecord
from attar.search.signatures import SignatureOptions
from attar.search.statistics import Statistics

pytestmark = pytest.mark.slow

TEXTS = {
    "emma": "Emma Woodhouse lived at Hartfield with her father. Mr. Knightley owned Donwell Abbey.",
    "rome": "Rome is the capital of Italy. The Tiber flows through the city.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
}
OPTIONS = [SignatureOptions(64), SignatureOptions(128, "int8"), SignatureOptions(32, "float16")]


@pytest.fixture(scope="module")
def shipped():
    return Reader.load()


@pytest.fixture
def library(tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library:
        library.add_many(TEXTS.items())
        yield library


def found(library, query):
    return [hit.document for hit in library.search(query)]


def record(library, name):
    return SignatureRecord.from_bytes(library.store.get(name).signature)


@pytest.mark.parametrize("many", [1, 4_096], ids=["many documents", "few documents"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: f"{each.size}, {each.dtype}")
def test_a_library_has_the_options_that_it_was_made_with(tmp_path, shipped, monkeypatch, options, many):
    monkeypatch.setattr("attar.search.scan._MANY", many)
    for place in ("attar.search.scan", "attar.library.rounds"):
        monkeypatch.setattr(f"{place}.CANDIDATES", 2)
    with Library(tmp_path / "library", shipped, signatures=options) as library:
        library.add("tea", TEXTS["tea"])
    with Library(tmp_path / "library", shipped) as other:
        other.add_many(TEXTS.items())
        for name in TEXTS:
            kept = record(other, name)
            assert (kept.size, kept.dtype) == (options.size, options.dtype)
            assert len(kept.signature) == options.bytes
        assert found(other, "leaves of Camellia sinensis")[0] == "tea"
        assert found(other, "river of the Italian capital")[0] == "rome"
        questions = ["Where was tea first drunk?", "Who owned Donwell Abbey?"]
        assert [each[0].document for each in other.ask_all_many(questions)] == ["tea", "emma"]
        other.refit()
        assert record(other, "tea").size == options.size


def test_a_library_with_other_options_is_refused_until_it_is_refitted(library, shipped):
    with Library(library.store.path, shipped, signatures=SignatureOptions(64)) as other:
        with pytest.raises(OptionError, match=r"size 128, 1-bit, as the library has.*attar store refit"):
            other.search("tea")
        with pytest.raises(OptionError, match="as the library has"):
            other.add("new", "Coffee came from Ethiopia.")
        assert other.refit() == Refit(len(TEXTS))
        assert record(other, "tea").size == 64
        assert found(other, "leaves of Camellia sinensis")[0] == "tea"
    assert found(library, "leaves of Camellia sinensis")[0] == "tea"
    library.refit(dtype="int8")
    assert (record(library, "tea").size, record(library, "tea").dtype) == (64, "int8")


def test_a_library_without_options_keeps_the_bytes_of_statistics_alone(library):
    library.refit(size=64)
    library.refit(size=128)
    with library.store.snapshot() as now:
        assert Statistics.from_bytes(now.signatures.statistics).documents == len(TEXTS)


@pytest.mark.parametrize("options", [{"size": 129}, {"size": 0}, {"dtype": "float64"}])
def test_refit_refuses_options_that_no_signature_has_before_it_reads(library, options):
    tasks = []
    with pytest.raises(OptionError, match=next(iter(options))):
        library.refit(**options, progress=lambda task, *_: tasks.append(task))
    assert tasks == []


def test_a_new_library_refuses_more_rows_than_the_learned_map_has(tmp_path, shipped):
    options = SignatureOptions(129)
    with Library(tmp_path / "new", shipped, signatures=options) as library:
        with pytest.raises(
            OptionError, match="size: expected 1 to 128, the size of the points of the reader's"
        ):
            library.add("tea", TEXTS["tea"])
        assert len(library) == 0


def test_sums_of_other_options_are_not_used(library, shipped):
    library.refit(size=64)
    draft = Draft.of("new", "Coffee came from Ethiopia.")
    (encoded,) = encode_texts(shipped, library.projection, [draft.text])
    library.refit(size=32)
    library.add_many([draft._replace(encoded=encoded)])
    assert record(library, "new").size == 32
