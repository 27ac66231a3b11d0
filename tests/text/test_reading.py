"""Text becomes ids: the same as sentences marked and encoded one by one, as a whole and in parts."""

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from attar.errors import AttarError, OptionError
from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder, NameFinder, mark_names, start_of_titles
from attar.text.questions import read_question
from attar.text.reading import ReadText, TextReader
from attar.text.tokens import LONGEST_SENTENCE, ends_sentence, iterate_sentences
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import tell_stories

STORIES = list(tell_stories(seed=3, count=30))
COMMON = "when then the after house said walked grace people running little red new"
VOCABULARY = Vocabulary(
    ("the", "a", "said", "house", ",", ".", "'s", "met", "walked", '"', "it"),
    dict.fromkeys(COMMON.split(), (0, 9)) | dict.fromkeys(["darcy", "london", "ann", "emma"], (9, 0)),
    entities=4,
)
READER = TextReader(VOCABULARY)


class EveryThirdWord:
    """A name finder that ignores capitals."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        return [(at, min(at + 2, len(sentence))) for at in range(0, len(sentence), 3 + len(known) % 2)]


class LastWordToo(CapitalFinder):
    """A capital finder with an additional rule."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        found = super().find(sentence, known)
        last = len(sentence) - 1
        return found if found and found[-1][1] > last else [*found, (last, last + 1)]


def marked_and_encoded(
    text: str, table: NameTable, finder: NameFinder, vocabulary: Vocabulary
) -> tuple[list[int], list[bool], list[int]]:
    """The expected result, from marked tokens instead of positions."""
    ids: list[int] = []
    ends: list[bool] = []
    names: list[int] = []
    for sentence in iterate_sentences(text):
        (marked,) = mark_names([sentence], table, finder)
        for at in reversed([at for at, token in enumerate(marked) if token.startswith("@entity")]):
            del marked[start_of_titles(marked, at) : at]
        ids += vocabulary.encode(token.lower() for token in marked)
        ends += [False] * (len(marked) - 1) + [True]
        names += [int(token[7:]) if token.startswith("@entity") else -1 for token in marked]
    return ids, ends, names


def as_lists(read: ReadText) -> tuple[list[int], list[bool], list[int]]:
    assert (read.ids.dtype, read.sentence_ends.dtype, read.names.dtype) == (np.int32, np.bool_, np.int32)
    return read.ids.tolist(), read.sentence_ends.tolist(), read.names.tolist()


def join(parts: Sequence[ReadText]) -> tuple[list[int], list[bool], list[int]]:
    columns = zip(*map(as_lists, parts), strict=True) if parts else ((), (), ())
    ids, ends, names = (list(chain.from_iterable(column)) for column in columns)
    return ids, ends, names


NASTY = (
    "Ann Emma Darcy Grace The When Mr. King van of University VIII I NASA house said it, it. -- \" ' "
    "of the US House & La UK United Kingdom "
    "U.S. St. J. No. 5 end. why?\" Ann's (the London London! Running Zorro Zorro! Zeroing Lee New York de "
    "National Park walked Jean-Luc a_b internationalisation-of-everything naïve “Ann” … \x00 \x01 \ud800 "
    "@entity0 @entity3's @placeholder @Ann"
)
GAPS = st.sampled_from([" ", " ", " ", "\n", "\n\n", " \n \n ", "\t", "\xa0", "\u2003", "\x85", "\u3000\n"])
spaced = st.lists(st.tuples(st.sampled_from(NASTY.split(" ")), GAPS), max_size=40).map(
    lambda pairs: "".join(piece + gap for piece, gap in pairs)
)
texts = st.one_of(spaced, st.text(max_size=60))


@example("Grace walked. Grace Lee met Ann Lee, Lee and Grace. Lee walked.")
@example("THE HOUSE OF NASA\n\nAnn")
@example("\x00 \x00\x00 a\x00")
@given(texts)
def test_any_text_is_read_as_its_marked_sentences(text: str) -> None:
    assume("@entity" not in text)
    table, expected_table = NameTable(limit=6), NameTable(limit=6)
    read = READER.read(text, table)
    assert as_lists(read) == marked_and_encoded(text, expected_table, CapitalFinder(VOCABULARY), VOCABULARY)
    assert table == expected_table


def test_stories_are_read_as_their_marked_sentences() -> None:
    vocabulary = Vocabulary.build(story.text for story in STORIES)
    reader, finder = TextReader(vocabulary), CapitalFinder(vocabulary)
    for story in STORIES:
        table, expected_table = NameTable(), NameTable()
        assert as_lists(reader.read(story.text, table)) == marked_and_encoded(
            story.text, expected_table, finder, vocabulary
        )
        assert table == expected_table


@pytest.mark.parametrize("finder", [EveryThirdWord(), LastWordToo(VOCABULARY)])
def test_any_finder_can_be_used(finder: NameFinder) -> None:
    text = STORIES[0].text
    table, expected_table = NameTable(limit=9), NameTable(limit=9)
    read = TextReader(VOCABULARY, finder).read(text, table)
    assert as_lists(read) == marked_and_encoded(text, expected_table, finder, VOCABULARY)
    assert table == expected_table


@given(texts, st.sampled_from(["\n\n", " ", "\n"]), texts)
def test_two_texts_read_in_turn_equal_their_join(a: str, gap: str, b: str) -> None:
    assume(ends_sentence(a + gap, b))
    whole, parts = NameTable(), NameTable()
    at_once = as_lists(READER.read(a + gap + b, whole))
    assert join([READER.read(a + gap, parts), READER.read(b, parts)]) == at_once
    assert parts == whole


@given(texts, st.integers(1, 30))
def test_parts_are_cut_at_sentence_ends_and_join_to_the_whole(text: str, tokens: int) -> None:
    whole, parts = NameTable(), NameTable()
    pieces = list(READER.read_in_parts(text, parts, tokens))
    assert join(pieces) == as_lists(READER.read(text, whole))
    assert parts == whole
    assert all(piece.sentence_ends[-1] for piece in pieces)


def test_a_part_is_the_shortest_with_the_wanted_length() -> None:
    text = "It walked. " * 10
    lengths = [len(piece) for piece in READER.read_in_parts(text, NameTable(), 4)]
    assert lengths == [6, 6, 6, 6, 6]


def test_the_table_learns_only_from_the_parts_read_so_far() -> None:
    table = NameTable()
    pieces = READER.read_in_parts("Then Ann walked. Then Emma walked.", table, 1)
    next(pieces)
    assert table.names == ["Ann"]


def test_parts_of_no_tokens_are_refused() -> None:
    with pytest.raises(OptionError, match="tokens: expected a whole number from 1 up, got 0"):
        next(READER.read_in_parts("Ann", NameTable(), 0))


@pytest.mark.parametrize("count", [LONGEST_SENTENCE - 1, LONGEST_SENTENCE, LONGEST_SENTENCE + 1, 1000])
def test_a_text_without_sentence_ends_is_cut_at_the_longest_length(count: int) -> None:
    read = READER.read("house " * count, NameTable())
    stops = (read.sentence_ends.nonzero()[0] + 1).tolist()
    assert stops == list(accumulate(map(len, iterate_sentences("house " * count))))


def test_a_name_at_a_sentence_end_ends_the_sentence() -> None:
    read = READER.read("it met Ann Lee\n\nAnn", NameTable())
    assert read.names.tolist() == [-1, -1, 0, 0]
    assert read.sentence_ends.tolist() == [False, False, True, True]


@pytest.mark.parametrize("word", ["@entity0", "@entity3", "@placeholder"])
def test_a_typed_mark_is_an_unknown_word(word: str) -> None:
    read = READER.read(f"it met {word} .", NameTable())
    assert (read.names == -1).all()
    assert set(read.ids[2:-1].tolist()) == {VOCABULARY.unknown}


def test_names_beyond_the_vocabularys_entities_are_unknown_words_with_a_name_id() -> None:
    read = READER.read("it met Abo, Cado, Efo, Gho, Ijo.", NameTable())
    assert read.names[read.names >= 0].tolist() == [0, 1, 2, 3, 4]
    assert read.ids[read.names >= 0].tolist() == [3, 4, 5, 6, VOCABULARY.unknown]


def test_a_text_without_words_gives_no_tokens() -> None:
    for text in ("", " \n\n ", "\x07"):
        assert as_lists(READER.read(text, NameTable())) == ([], [], [])
        assert list(READER.read_in_parts(text, NameTable(), 5)) == []


asked = st.lists(
    st.sampled_from(
        ["Who", "whose", "___", "@placeholder", "met", "ann", "Ann", "Lee", "Grace", "grace", "?", "a"]
    )
).map(" ".join)


@example("Where is Ann Lee?")
@given(st.one_of(asked, st.text(max_size=30)))
def test_a_question_becomes_the_ids_of_its_tokens(text: str) -> None:
    table = NameTable.of("Ann Lee", "Grace", "Mary Ann Lee")
    try:
        tokens = read_question(text, table, VOCABULARY)
    except AttarError as mistake:
        with pytest.raises(type(mistake)):
            READER.read_question(text, table)
        return
    ids, blank = READER.read_question(text, table)
    assert ids.dtype == np.int32
    assert ids.tolist() == VOCABULARY.encode(tokens)
    assert tokens[blank] == "@placeholder"
