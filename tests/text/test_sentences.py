"""Text becomes sentences of words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.text.sentences import iterate_sentences


def sentences(text: str) -> list[list[str]]:
    return list(iterate_sentences(text))


def words(text: str) -> list[str]:
    return [word for sentence in sentences(text) for word in sentence]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Darcy's horse", ["Darcy", "'s", "horse"]),
        ("you'll don't", ["you", "'ll", "don't"]),
        ("O'Brien met d'Artagnan", ["O'Brien", "met", "d'Artagnan"]),
        ("Jean-Luc is light-hearted", ["Jean-Luc", "is", "light", "-", "hearted"]),
        ("St. Petersburg", ["St.", "Petersburg"]),
        ("$1,000.50 at 10:30", ["$", "1,000.50", "at", "10:30"]),
        ("seal--the end...", ["seal", "--", "the", "end", "..."]),
        ("“Why—‘so’?”", ['"', "Why", "--", "'", "so", "'", "?", '"']),
        ("the _bizarre_ one", ["the", "bizarre", "one"]),
        ("cafe\u0301", ["café"]),
        ("@entity12 met a@ann.", ["@", "entity12", "met", "a", "@", "ann", "."]),
        ("a\x00b \x07 \u200b c", ["a", "b", "c"]),
        ("half \ud800 pair", ["half", "\ufffd", "pair"]),
        ("日本語 текст", ["日本語", "текст"]),
        ("", []),
        (" \n\n ", []),
    ],
    ids=repr,
)
def test_text_is_cut_into_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("He left. She stayed.", 2),
        ('"Why?" said he. "No." She left.', 3),
        ('"Why?" He left.', 2),
        ("Mr. Darcy met Dr. Who.", 1),
        ("J. K. Rowling wrote it.", 1),
        ("The U.S. Senate met.", 1),
        ("He moved to the U.S. The film failed.", 2),
        ("It reached No. 5 in May. No. It did not.", 3),
        ("CHAPTER I\n\nIt was late", 2),
        ("a line\nbroken by the page", 1),
    ],
)
def test_text_is_cut_into_sentences(text: str, count: int) -> None:
    assert len(sentences(text)) == count


pieces = st.lists(
    st.sampled_from(
        ["He", "left", "Mr.", "U.S.", "J.", "No.", "5", "--", '"', "end.", 'why?"', "Ann's", "The"]
    ),
    max_size=12,
).map(" ".join)
texts = st.one_of(pieces, st.text(max_size=40))


@given(texts, texts)
def test_a_blank_line_always_ends_a_sentence(a: str, b: str) -> None:
    assert sentences(a + "\n\n" + b) == sentences(a) + sentences(b)


@given(st.text())
def test_words_of_any_text_have_no_spaces_and_can_be_encoded(text: str) -> None:
    for word in words(text):
        assert word
        assert word.split() == [word]
        assert word.encode()
