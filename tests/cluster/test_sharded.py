"""A library in shards gives the answers of one store, bit for bit, and names what is missing."""

import random
import shutil

import pytest

from attar import wire
from attar.cluster.shard import LocalShard
from attar.cluster.sharded import ShardedLibrary
from attar.cluster.shards import shard_of, shard_paths, split
from attar.errors import NameTakenError, UnavailableError, UnknownDocumentError
from attar.library.drafts import Draft
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.search import scan
from attar.server.backend import AskJob

pytestmark = pytest.mark.slow

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


def sentence(numbers: random.Random) -> str:
    words = (numbers.choice(each) for each in (PEOPLE, ACTS, THINGS, PLACES))
    return "{} {} {} at {} in {}.".format(*words, numbers.randint(1700, 1999))


def texts_of(seed: int, count: int) -> dict[str, str]:
    """Short texts of few words, so that scores are close; some twice, so that they are equal."""
    numbers = random.Random(seed)
    texts = [" ".join(sentence(numbers) for _ in range(numbers.randint(1, 4))) for _ in range(count)]
    return {f"doc {at:02}": numbers.choice(texts) for at in range(count)}


@pytest.fixture(scope="module")
def shipped():
    return Reader.load()


@pytest.fixture(scope="module")
def stores(tmp_path_factory, shipped):
    """A library and the same in three shards, to be copied."""
    folder = tmp_path_factory.mktemp("stores")
    with Library(folder / "whole", shipped) as library:
        library.add_many(texts_of(3, 25).items())
    split(folder / "whole", folder / "shards", 3)
    return folder


@pytest.fixture
def whole(stores, tmp_path, shipped):
    shutil.copytree(stores / "whole", tmp_path / "whole")
    with Library(tmp_path / "whole", shipped) as library:
        yield library


@pytest.fixture
def sharded(stores, tmp_path, shipped):
    shutil.copytree(stores / "shards", tmp_path / "shards")
    paths = shard_paths(tmp_path / "shards")
    with ShardedLibrary([LocalShard(Library(path, shipped)) for path in paths]) as library:
        yield library


def opened(whole: Library, count: int) -> ShardedLibrary:
    """The same documents in shards, read with the same reader."""
    folder = whole.store.path.parent / f"shards-{count}"
    split(whole.store.path, folder, count)
    return ShardedLibrary([LocalShard(Library(path, whole.reader)) for path in shard_paths(folder)])


@pytest.mark.parametrize(("seed", "count"), [(0, 1), (1, 7), (5, 40)])
def test_answers_and_hits_are_those_of_one_store_bit_for_bit(tmp_path, shipped, seed, count):
    with Library(tmp_path / "whole", shipped) as whole:
        whole.add_many(texts_of(seed, count).items())
        expected = [whole.ask_all(each, top=None) for each in QUESTIONS]
        hits = [whole.search(each, top=25) for each in QUESTIONS]
        for shards in (2, 3, 5):
            with opened(whole, shards) as library:
                assert library.ask_all(QUESTIONS, None) == (expected, [])
                assert [library.search(each, 25) for each in QUESTIONS] == [(each, []) for each in hits]


def test_so_are_those_of_many_documents_whose_scan_rounds(whole, monkeypatch):
    monkeypatch.setattr(scan, "_MANY", 20)
    monkeypatch.setattr(scan, "CANDIDATES", 5)
    monkeypatch.setattr("attar.library.rounds.CANDIDATES", 5)
    assert scan.is_rounded(25)
    with opened(whole, 4) as library:
        for question in QUESTIONS:
            assert library.ask_all([question], None).value == [whole.ask_all(question, top=None)]
            assert library.search(question, 25).value == whole.search(question, top=25)


def test_documents_that_were_added_removed_and_replaced_later_count_alike(whole, sharded):
    for library in (whole, sharded):
        library.add("new", "Jo March hid silver coins at Cairo in 1850.")
        library.add("doc 03", "Tom Gray lost the piano at Rome in 1700.", replace=True)
        library.append("doc 05", "Rosa Diaz sold the piano at Lisbon in 1911.")
    whole.remove("doc 01", "doc 02")
    sharded.remove(["doc 01", "doc 02"])
    for question in QUESTIONS:
        assert sharded.ask_all([question], 9).value == [whole.ask_all(question, top=9)]
        assert sharded.search(question, 9).value == whole.search(question, top=9)


def test_an_empty_library_in_shards_has_no_answer(tmp_path, shipped):
    with Library(tmp_path / "whole", shipped) as whole, opened(whole, 2) as library:
        assert [answer.absent for answer in library.ask_all(["Who?"], 5).value[0]] == [True]
        assert library.search("Who?") == ([], [])


def test_questions_to_named_documents_are_answered_by_their_shards_in_order(whole, sharded):
    names = [f"doc {at:02}" for at in (4, 17, 4, 0, 9)]
    assert len({shard_of(name, 3) for name in names}) > 1
    asked = [QUESTIONS[at] for at in range(5)]
    (result,) = sharded.answer([AskJob(names, asked, 3)])
    expected = whole.ask_many(names, asked, top=3)
    # Questions that are encoded in one batch differ in the last digits from those that are not.
    assert [[answer.text for answer in each] for each in result.answers] == [
        [answer.text for answer in each] for each in expected
    ]


def test_an_unknown_document_fails_its_own_request_and_is_suggested_from_all_shards(sharded):
    asked = [AskJob(["doc 01"], ["Who?"], 1), AskJob(["doc 02", "doc 1"], ["Who?"] * 2, 1)]
    good, bad = sharded.answer(asked)
    assert good.answers
    assert isinstance(bad, UnknownDocumentError)
    assert len(sharded.similar("doc 1")) == 3
    assert sharded.similar("doc 01") is None
    with pytest.raises(UnknownDocumentError, match="did you mean"):
        sharded.show("doc 1")


def test_documents_are_listed_in_the_order_of_one_store(whole, sharded):
    assert list(sharded.documents()) == list(whole.documents())
    assert len(sharded) == len(whole)
    (found, total), missing = sharded.page("doc 07", 4)
    assert [each.name for each in found] == ["doc 08", "doc 09", "doc 10", "doc 11"]
    assert (total, missing) == (25, [])


def test_totals_are_sums(whole, sharded):
    assert (sharded.stats().documents, sharded.stats().tokens) == (25, whole.store.stats().tokens)


def test_documents_are_written_to_the_shard_of_their_name(sharded):
    drafts = [Draft.of(name, f"Ann met {name}.") for name in ("a", "b", "c", "d")]
    assert [change.name for change in sharded.add_many(drafts)] == ["a", "b", "c", "d"]
    for draft in drafts:
        for number, shard in enumerate(sharded.shards):
            assert (draft.name in shard.backend.library) == (number == shard_of(draft.name, 3))


def test_documents_before_a_refused_one_are_added(sharded):
    drafts = [Draft.of(name, "Ann met Bob.") for name in ("a", "doc 01", "z")]
    with pytest.raises(NameTakenError, match="doc 01"):
        sharded.add_many(drafts)
    assert sharded.show("a").text == "Ann met Bob."
    with pytest.raises(UnknownDocumentError):
        sharded.show("z")


def test_documents_of_several_shards_are_merged_as_in_one_store(whole, sharded):
    names = ["doc 00", "doc 04", "doc 07", "doc 11"]
    assert len({shard_of(name, 3) for name in names}) > 1
    expected = whole.merge("joined", names, title="All")
    assert sharded.merge(wire.Merge("joined", names, "All"), "key") == expected
    assert sharded.show("joined").text == whole.show("joined").text
    assert sharded.ask("joined", "Who sold salt?") == whole.ask("joined", "Who sold salt?")
    assert sharded.search("joined").value == whole.search("joined")
    # Repeated with its key, nothing changes; the sources stay.
    assert sharded.merge(wire.Merge("joined", names, "All"), "key") == expected
    with pytest.raises(NameTakenError):
        sharded.merge(wire.Merge("joined", names[:2]))
    with pytest.raises(UnknownDocumentError, match="nobody"):
        sharded.merge(wire.Merge("other", [*names, "nobody"]))


def test_removing_is_all_or_nothing(sharded):
    names = ["doc 00", "doc 04", "doc 07", "doc 11"]
    with pytest.raises(UnknownDocumentError, match="nobody"):
        sharded.remove([*names, "nobody"])
    assert len(sharded) == 25
    sharded.remove(names)
    assert len(sharded) == 21


class Down:
    """A shard that is not running, or stops after some calls."""

    def __init__(self, shard, calls=0):
        self.shard, self.calls = shard, calls

    def submit(self, method, *arguments):
        self.calls -= 1
        if self.calls < 0:
            raise UnavailableError.expected("shard 1", "a running one", "none")
        return self.shard.submit(method, *arguments)

    def close(self):
        self.shard.close()


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4, 5])
def test_without_a_shard_the_others_answer_and_say_what_is_missing(whole, sharded, calls):
    gone = [name for name in texts_of(3, 25) if shard_of(name, 3) == 1]
    whole.remove(*gone)
    sharded.shards[1] = Down(sharded.shards[1], calls)
    assert sharded.ask_all(QUESTIONS, 5) == ([whole.ask_all(each) for each in QUESTIONS], ["shard 1"])
    assert sharded.search("salt") == (whole.search("salt"), ["shard 1"])
    (found, total), missing = sharded.page(None, 100)
    assert [each.name for each in found] == [each.name for each in whole.documents()]
    assert (total, missing) == (25 - len(gone), ["shard 1"])


def test_without_its_shard_a_document_is_unavailable_and_nothing_is_removed(sharded):
    sharded.shards[1] = Down(sharded.shards[1])
    names = [next(f"doc {at:02}" for at in range(25) if shard_of(f"doc {at:02}", 3) == own) for own in (0, 1)]
    asked = [AskJob([name], ["Who?"], 1) for name in names]
    good, bad = sharded.answer(asked)
    assert good.answers
    assert isinstance(bad, UnavailableError)
    for change in (
        lambda: sharded.remove(names),
        lambda: sharded.show(names[1]),
        lambda: sharded.append(names[1], "Ann left."),
        lambda: sharded.merge(wire.Merge("new", names)),
    ):
        with pytest.raises(UnavailableError):
            change()
    assert sharded.show(names[0]).name == names[0]


def test_without_any_shard_nothing_is_answered(sharded):
    sharded.shards = [Down(shard) for shard in sharded.shards]
    for ask in (lambda: sharded.ask_all(["Who?"], 1), lambda: sharded.search("x"), sharded.stats):
        with pytest.raises(UnavailableError):
            ask()


def test_shards_with_other_statistics_are_refused(whole, sharded):
    sharded.shards[2].backend.library.refit()
    with pytest.raises(
        ValueError, match="expected the same statistics for search in all, got different ones"
    ):
        sharded.search("salt")
