"""A library in shards gives the answers of one store, bit for bit, and names what is missing."""

import random
import shutil

import pytest

from attar.cluster.sharded import LocalShard, ShardedLibrary, ShardLostError
from attar.cluster.shards import refit_shards, shard_of, shard_paths, split
from attar.errors import NameTakenError, OptionError, UnavailableError, UnknownDocumentError
from attar.library.drafts import Draft
from attar.library.library import Library
from attar.library.served import collect_missing
from attar.results import Refit
from attar.search import ranking

PEOPLE = ["Emma Woodhouse", "Mr. Knightley", "Ann Lee", "Jo March", "Tom Gray", "Ada Byron", "Rosa Diaz"]
PLACES = ["Hartfield", "Salzburg", "Rome", "Lisbon", "Cairo", "the old mill", "Donwell Abbey"]
THINGS = ["salt", "tea", "a letter", "three horses", "the piano", "silver coins", "a map of 1802"]
ACTS = ["sold", "found", "lost", "bought", "described", "hid"]
QUESTIONS = [
    "Who sold the piano?",
    "Where did Ada Byron find tea?",
    "map of 1802",
    "salt",
    "the of and",
    "zzzz",
]
DOCUMENTS = 25


def sentence(numbers: random.Random) -> str:
    words = (numbers.choice(each) for each in (PEOPLE, ACTS, THINGS, PLACES))
    return "{} {} {} at {} in {}.".format(*words, numbers.randint(1700, 1999))


def texts_of(seed: int, count: int) -> dict[str, str]:
    """Short texts of few words, so that scores are close; some twice, so that they are equal."""
    numbers = random.Random(seed)
    texts = [" ".join(sentence(numbers) for _ in range(numbers.randint(1, 4))) for _ in range(count)]
    return {f"doc {at:02}": numbers.choice(texts) for at in range(count)}


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_reader):
    """A library and the same in three shards, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Library(folder / "whole", tiny_reader) as library:
        library.add_many(texts_of(3, DOCUMENTS).items())
    split(folder / "whole", folder / "shards", 3)
    return folder


@pytest.fixture
def whole(made, tmp_path, tiny_reader):
    shutil.copytree(made / "whole", tmp_path / "whole")
    with Library(tmp_path / "whole", tiny_reader) as library:
        yield library


@pytest.fixture
def sharded(made, tmp_path, tiny_reader):
    shutil.copytree(made / "shards", tmp_path / "shards")
    with opened(tmp_path / "shards", tiny_reader, at_once=True) as library:
        yield library


def opened(folder, reader, *, at_once=False):
    return ShardedLibrary(
        [LocalShard(Library(path, reader)) for path in shard_paths(folder)], at_once=at_once
    )


def in_shards(whole: Library, count: int) -> ShardedLibrary:
    """The same documents in shards, read with the same reader."""
    folder = whole.store.path.parent / f"shards-{count}"
    split(whole.store.path, folder, count)
    return opened(folder, whole.reader)


def assert_same_answers(whole, library):
    expected = [whole.ask_all(question, top=None) for question in QUESTIONS]
    assert library.ask_all_many(QUESTIONS, top=None) == expected
    for question in QUESTIONS:
        assert library.search(question, top=25) == whole.search(question, top=25)


@pytest.mark.parametrize(("seed", "count"), [(0, 0), (0, 1), (1, 7), (5, 40)])
@pytest.mark.parametrize("shards", [2, 5])
def test_answers_and_hits_are_those_of_one_store_bit_for_bit(tmp_path, tiny_reader, seed, count, shards):
    with Library(tmp_path / "whole", tiny_reader) as whole:
        whole.add_many(texts_of(seed, count).items())
        with in_shards(whole, shards) as library:
            assert_same_answers(whole, library)


def test_so_are_those_of_many_documents_whose_scan_rounds(whole, monkeypatch):
    monkeypatch.setattr(ranking, "_MANY", 20)
    monkeypatch.setattr(ranking, "CANDIDATES", 5)
    assert ranking.is_rounded(DOCUMENTS)
    with in_shards(whole, 4) as library:
        assert_same_answers(whole, library)


def test_documents_that_were_added_removed_and_replaced_later_count_alike(whole, sharded):
    for library in (whole, sharded):
        library.add_many([("new", "Jo March hid silver coins at Cairo in 1850.")])
        library.add_many([("doc 03", "Tom Gray lost the piano at Rome in 1700.")], replace=True)
        library.append("doc 05", "Rosa Diaz sold the piano at Lisbon in 1911.")
        library.remove("doc 01", "doc 02")
    assert_same_answers(whole, sharded)


def test_questions_to_named_documents_are_answered_by_their_shards_in_order(whole, sharded):
    names = [f"doc {at:02}" for at in (4, 17, 4, 0, 9)]
    assert len({shard_of(name, 3) for name in names}) > 1
    asked = QUESTIONS[:5]
    # Questions that are encoded in one batch differ in the last digits from those that are not.
    texts, expected = (
        [[answer.text for answer in result.answers] for result in library.ask_each(names, asked, top=3)]
        for library in (sharded, whole)
    )
    assert texts == expected


def test_an_unknown_document_fails_its_own_question_and_is_suggested_from_all_shards(sharded):
    good, bad = sharded.ask_each(["doc 01", "doc 1"], ["Who?"] * 2)
    assert good.answers
    assert isinstance(bad, UnknownDocumentError)
    assert len(sharded.similar("doc 1")) == 3
    assert sharded.similar("doc 01") is None
    with pytest.raises(UnknownDocumentError, match="did you mean"):
        sharded.show("doc 1")


def test_documents_are_listed_in_the_order_of_one_store(whole, sharded, monkeypatch):
    assert list(sharded.documents()) == list(whole.documents())
    names = [document.name for document in sharded.documents(after="doc 07", limit=4)]
    assert names == ["doc 08", "doc 09", "doc 10", "doc 11"]
    monkeypatch.setattr("attar.cluster.sharded._PAGE", 2)
    assert list(sharded.documents(limit=5)) == list(whole.documents(limit=5))
    assert list(sharded.documents()) == list(whole.documents())
    assert ("doc 07" in sharded, "doc" in sharded, len(sharded)) == (True, False, DOCUMENTS)
    assert (sharded.stats().documents, sharded.stats().tokens) == (DOCUMENTS, whole.stats().tokens)


def test_documents_are_written_to_the_shard_of_their_name(sharded):
    drafts = [Draft.of(name, f"Ann met {name}.") for name in ("a", "b", "c", "d")]
    assert [change.name for change in sharded.add_many(drafts)] == ["a", "b", "c", "d"]
    for draft in drafts:
        for number, shard in enumerate(sharded.shards):
            assert (draft.name in shard.library) == (number == shard_of(draft.name, 3))
    # Those before a refused one are added.
    with pytest.raises(NameTakenError, match="doc 01"):
        sharded.add_many([(name, "Ann met Bob.") for name in ("y", "doc 01", "z")])
    assert ("y" in sharded, "z" in sharded) == (True, False)


def test_documents_of_several_shards_are_merged_as_in_one_store(whole, sharded):
    names = ["doc 00", "doc 04", "doc 07", "doc 11"]
    assert len({shard_of(name, 3) for name in names}) > 1
    expected = whole.merge("joined", names, title="All")
    # Repeated with its key, nothing changes; the sources stay.
    for _ in range(2):
        assert sharded.merge("joined", names, title="All", key="key") == expected
    assert sharded.show("joined").text == whole.show("joined").text
    assert sharded.ask_each(["joined"], ["Who sold salt?"]) == whole.ask_each(["joined"], ["Who sold salt?"])
    assert_same_answers(whole, sharded)
    with pytest.raises(NameTakenError):
        sharded.merge("joined", names[:2])
    with pytest.raises(UnknownDocumentError, match="nobody"):
        sharded.merge("other", [*names, "nobody"])


def test_removing_and_tagging_are_all_or_nothing(sharded):
    names = ["doc 00", "doc 04", "doc 07", "doc 11"]
    with pytest.raises(UnknownDocumentError, match="nobody"):
        sharded.remove(*names, "nobody")
    with pytest.raises(UnknownDocumentError, match="nobody"):
        sharded.tag(*names, "nobody", add=["lost"])
    sharded.tag(*names, add=["seen"])
    assert [sharded.show(name).tags for name in names] == [("seen",)] * 4
    assert len(sharded) == DOCUMENTS
    sharded.remove(*names)
    assert len(sharded) == DOCUMENTS - 4


class Lost:
    """A shard that is not running, or stops after some calls."""

    def __init__(self, shard, calls=0):
        self.shard, self.calls = shard, calls

    def call(self, work, kind):
        self.calls -= 1
        if self.calls < 0:
            raise ShardLostError
        return self.shard.call(work, kind)

    def close(self):
        self.shard.close()


@pytest.mark.parametrize("calls", range(5))
def test_without_a_shard_the_others_answer_and_say_what_is_missing(whole, sharded, calls):
    gone = [name for name in texts_of(3, DOCUMENTS) if shard_of(name, 3) == 1]
    whole.remove(*gone)
    sharded.shards[1] = Lost(sharded.shards[1], calls)
    for asked, expected in (
        (lambda: sharded.ask_all_many(QUESTIONS), [whole.ask_all(question) for question in QUESTIONS]),
        (lambda: sharded.search("salt"), whole.search("salt")),
        (lambda: list(sharded.documents()), list(whole.documents())),
        (lambda: len(sharded), DOCUMENTS - len(gone)),
    ):
        with collect_missing() as missing:
            assert asked() == expected
        assert missing == ["shard 1"]


def test_a_caller_who_does_not_collect_what_is_missing_gets_an_error(sharded):
    sharded.shards[1] = Lost(sharded.shards[1])
    for ask in (lambda: sharded.ask_all_many(["Who?"]), lambda: sharded.search("x"), lambda: len(sharded)):
        with pytest.raises(UnavailableError, match="shard 1 of the library cannot be asked now"):
            ask()
    # Operators see what is running.
    assert sharded.stats().documents < DOCUMENTS
    sharded.check_disk()


def test_without_its_shard_a_document_is_unavailable_and_nothing_is_removed(sharded):
    sharded.shards[1] = Lost(sharded.shards[1])
    names = [next(f"doc {at:02}" for at in range(25) if shard_of(f"doc {at:02}", 3) == own) for own in (0, 1)]
    good, bad = sharded.ask_each(names, ["Who?"] * 2, top=1)
    assert good.answers
    assert isinstance(bad, UnavailableError)
    for change in (
        lambda: sharded.remove(*names),
        lambda: sharded.tag(*names, add=["seen"]),
        lambda: sharded.show(names[1]),
        lambda: sharded.append(names[1], "Ann left."),
        lambda: sharded.merge("new", names),
    ):
        with pytest.raises(UnavailableError, match="shard 1 of the library is not running"):
            change()
    assert sharded.show(names[0]).name == names[0]


def test_shards_with_other_statistics_are_refused_until_they_are_fitted_together(
    sharded, tmp_path, tiny_reader_folder
):
    sharded.shards[2].library.refit()
    with pytest.raises(OptionError, match="the shards of the library have different statistics for search"):
        sharded.search("salt")
    assert refit_shards(tmp_path / "shards", tiny_reader_folder) == Refit(DOCUMENTS)
    assert sharded.search("salt")
    with sharded.shards[0].library.opened() as shard:
        assert shard._index.signer.statistics.documents == DOCUMENTS
