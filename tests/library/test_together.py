"""Documents read together share one table of names, and merge whatever their mechanism."""

import pytest

from attar.errors import OptionError
from attar.library import Library


@pytest.fixture
def gated(folder, make_reader):
    with Library(folder, make_reader("gated"), dtype="float32") as library:
        yield library


def pair(texts):
    return [("one", texts[0]), ("two", texts[1])]


def test_vectors_by_name_merge_by_name(library, reader, texts, assert_same):
    library.add_many(pair(texts))
    outcome = library.merge("both", ["one", "two"], title="Both")
    whole = reader.read(texts[0]) + reader.read(texts[1])
    assert_same(library.show("both").memory, whole)
    assert outcome[:3] == ("both", "merged", whole.tokens)
    assert library.show("both").entry.title == "Both"


def test_a_merged_document_answers_with_the_names_of_all(library, texts):
    library.add_many(pair(texts))
    library.merge("both", ["one", "two"])
    found = {answer.text for answer in library.ask("both", "Who left?", top=None)}
    for name in ("one", "two"):
        assert {answer.text for answer in library.ask(name, "Who left?", top=None)} <= found


def test_merging_needs_no_reader(library, folder, texts):
    library.add_many(pair(texts))
    with Library(folder, "no such reader") as other:
        other.merge("both", ["one", "two"])


def test_ids_of_two_tables_do_not_merge_and_the_line_says_how_they_would(gated, texts):
    gated.add_many(pair(texts))
    with pytest.raises(OptionError, match=r"'one' and 'two'.*attar add STORE FILE… --together --replace"):
        gated.merge("both", ["one", "two"])
    assert "both" not in gated


def test_documents_read_together_merge(gated, texts, assert_same):
    gated.add_many(pair(texts), together=True)
    gated.merge("both", ["one", "two"])
    one, two = gated.reader.read_many(texts[:2], shared_names=True)
    assert_same(gated.show("both").memory, one + two)


def test_documents_that_were_read_apart_can_be_read_together_later(gated, texts):
    gated.add_many(pair(texts))
    assert {outcome.change for outcome in gated.add_many(pair(texts), together=True)} == {"replaced"}
    gated.merge("both", ["one", "two"])


def test_together_again_changes_nothing(gated, texts):
    gated.add_many(pair(texts), together=True)
    assert {outcome.change for outcome in gated.add_many(pair(texts), together=True)} == {"unchanged"}


def test_together_is_all_or_nothing(gated, texts):
    gated.add("two", "Another text.")
    with pytest.raises(OptionError, match=r"'two'.*another text"):
        gated.add_many(pair(texts), together=True)
    assert "one" not in gated


def test_together_takes_one_text_a_name(gated, texts):
    with pytest.raises(OptionError, match=r"'one'.*got two"):
        gated.add_many([("one", texts[0]), ("one", texts[1])], together=True)


def test_a_known_name_is_merged_into_only_if_it_may_be_replaced(library, texts):
    library.add_many(pair(texts))
    with pytest.raises(OptionError, match=r"'one'.*--replace"):
        library.merge("one", ["one", "two"])
    library.merge("one", ["one", "two"], replace=True)
    assert library.show("one").entry.tokens > library.show("two").entry.tokens


@pytest.mark.parametrize("parts", [[], ["one"], ["one", "one"]], ids=["none", "one", "one twice"])
def test_merging_takes_two_documents_that_differ(library, texts, parts):
    library.add("one", texts[0])
    with pytest.raises(OptionError, match="merge: expected"):
        library.merge("both", parts)
