"""Text is read into ids as fast as it can be, and just as it would be sentence by sentence."""

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from attar.errors import AttarError, OptionError
from attar.text import coding, reading
from attar.text.entities import CapitalFinder, NameFinder, mark
from attar.text.names import NameTable
from attar.text.questions import read_question
from attar.text.reading import ReadText, TextReader
from attar.text.tokens import LONGEST, ends_sentence, iterate_sentences
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
    """A finder of names that looks at no capitals, as one from elsewhere might not."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        return [(at, min(at + 2, len(sentence))) for at in range(0, len(sentence), 3 + len(known) % 2)]


class LastWordToo(CapitalFinder):
    """A capital finder with a rule of its own."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        found = super().find(sentence, known)
        last = len(sentence) - 1
        return found if found and found[-1][1] > last else [*found, (last, last + 1)]


def read_slowly(
    text: str, table: NameTable, finder: NameFinder, vocabulary: Vocabulary
) -> tuple[list[int], list[bool], list[int]]:
    """The referee: one sentence after the other, word by word."""
    ids: list[int] = []
    ends: list[bool] = []
    names: list[int] = []
    for sentence in iterate_sentences(text):
        (marked,) = mark([sentence], table, finder)
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
def test_any_text_is_read_as_sentence_by_sentence(text: str) -> None:
    assume("@entity" not in text)
    quick, slow = NameTable(limit=6), NameTable(limit=6)
    read = READER.read(text, quick)
    assert as_lists(read) == read_slowly(text, slow, CapitalFinder(VOCABULARY), VOCABULARY)
    assert quick == slow


def test_stories_are_read_as_sentence_by_sentence() -> None:
    vocabulary = Vocabulary.build(story.text for story in STORIES)
    reader, finder = TextReader(vocabulary), CapitalFinder(vocabulary)
    for story in STORIES:
        quick, slow = NameTable(), NameTable()
        assert as_lists(reader.read(story.text, quick)) == read_slowly(story.text, slow, finder, vocabulary)
        assert quick == slow


@pytest.mark.parametrize("finder", [EveryThirdWord(), LastWordToo(VOCABULARY)])
def test_any_finder_is_asked_sentence_by_sentence(finder: NameFinder) -> None:
    text = STORIES[0].text
    quick, slow = NameTable(limit=9), NameTable(limit=9)
    read = TextReader(VOCABULARY, finder).read(text, quick)
    assert as_lists(read) == read_slowly(text, slow, finder, VOCABULARY)
    assert quick == slow


@given(texts, st.sampled_from(["\n\n", " ", "\n"]), texts)
def test_reading_on_equals_reading_at_once(a: str, gap: str, b: str) -> None:
    assume(ends_sentence(a + gap, b))
    whole, parts = NameTable(), NameTable()
    at_once = as_lists(READER.read(a + gap + b, whole))
    assert join([READER.read(a + gap, parts), READER.read(b, parts)]) == at_once
    assert parts == whole


@given(texts, st.integers(1, 30))
def test_pieces_are_cut_at_sentences_ends_and_make_up_the_whole(text: str, tokens: int) -> None:
    whole, parts = NameTable(), NameTable()
    pieces = list(READER.iterate(text, parts, tokens))
    assert join(pieces) == as_lists(READER.read(text, whole))
    assert parts == whole
    assert all(piece.sentence_ends[-1] for piece in pieces)


def test_a_piece_is_the_shortest_that_reaches_the_wanted_length() -> None:
    text = "It walked. " * 10
    lengths = [len(piece) for piece in READER.iterate(text, NameTable(), 4)]
    assert lengths == [6, 6, 6, 6, 6]


def test_the_table_knows_no_more_than_the_pieces_that_were_read() -> None:
    table = NameTable()
    pieces = READER.iterate("Then Ann walked. Then Emma walked.", table, 1)
    next(pieces)
    assert table.names == ["Ann"]


def test_a_piece_has_one_token_at_least() -> None:
    with pytest.raises(OptionError, match="tokens: expected a whole number from 1 up, got 0"):
        next(READER.iterate("Ann", NameTable(), 0))


@given(texts, st.integers(1, 20), st.integers(1, 9))
def test_blocks_of_any_size_give_the_same(text: str, block: int, tokens: int) -> None:
    expected = as_lists(READER.read(text, NameTable()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coding, "BLOCK", block)
        assert as_lists(READER.read(text, NameTable())) == expected
        assert join(list(READER.iterate(text, NameTable(), tokens))) == expected


@given(st.lists(spaced, max_size=5))
def test_a_full_book_is_replaced_without_a_trace(parts: list[str]) -> None:
    text = " ".join(parts)
    expected = as_lists(READER.read(text, NameTable()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coding, "BLOCK", 30)
        patch.setattr(reading, "_FULL_BOOK", 20)
        reader = TextReader(VOCABULARY)
        assert as_lists(reader.read(text, NameTable())) == expected
        assert join(list(reader.iterate(text, NameTable(), 25))) == expected


@pytest.mark.parametrize("count", [LONGEST - 1, LONGEST, LONGEST + 1, 3 * LONGEST, 1000])
def test_a_text_without_ends_is_cut_into_bounded_sentences(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coding, "BLOCK", 700)
    read = READER.read("house " * count, NameTable())
    stops = (read.sentence_ends.nonzero()[0] + 1).tolist()
    assert stops == list(accumulate(map(len, iterate_sentences("house " * count))))


def test_a_names_last_word_hands_its_sentence_end_on() -> None:
    read = READER.read("it met Ann Lee\n\nAnn", NameTable())
    assert read.names.tolist() == [-1, -1, 0, 0]
    assert read.sentence_ends.tolist() == [False, False, True, True]


@pytest.mark.parametrize("word", ["@entity0", "@entity3", "@placeholder"])
def test_a_mark_that_is_typed_names_nobody_and_blanks_nothing(word: str) -> None:
    read = READER.read(f"it met {word} .", NameTable())
    assert (read.names == -1).all()
    assert set(read.ids[2:-1].tolist()) == {VOCABULARY.unknown}


def test_names_beyond_the_vocabularys_are_unknown_words_and_keep_their_number() -> None:
    read = READER.read("it met Abo, Cado, Efo, Gho, Ijo.", NameTable())
    assert read.names[read.names >= 0].tolist() == [0, 1, 2, 3, 4]
    assert read.ids[read.names >= 0].tolist() == [3, 4, 5, 6, VOCABULARY.unknown]


def test_many_chunks_are_all_found_again() -> None:
    text = " ".join(f"w{n * n}x" for n in range(20_000))
    reader = TextReader(Vocabulary(tuple(f"w{n * n}x" for n in range(20_000)), entities=0))
    first = reader.read(text, NameTable())
    assert (reader.read(text, NameTable()).ids == first.ids).all()
    assert first.ids.tolist() == list(range(3, 20_003))


def test_nothing_gives_nothing() -> None:
    for text in ("", " \n\n ", "\x07"):
        assert as_lists(READER.read(text, NameTable())) == ([], [], [])
        assert list(READER.iterate(text, NameTable(), 5)) == []


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
            READER.question(text, table)
        return
    ids, blank = READER.question(text, table)
    assert ids.dtype == np.int32
    assert ids.tolist() == VOCABULARY.encode(tokens)
    assert tokens[blank] == "@placeholder"
