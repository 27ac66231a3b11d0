"""Passages: whole paragraphs around a sentence where they fit, a part of a long one, never more than is allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.text.sentences import passage_around, passages_around

SHORT = "A heading\n\nAnn came to Bath. Bob left.\n\nThe end came soon."


def around(text, sentence, longest):
    start = text.index(sentence)
    begin, stop = passage_around(text, start, start + len(sentence), longest)
    return text[begin:stop]


ITEMS = [f"Item {number}: {number} pounds" for number in range(20)]
NUMBERED = "One is first. Two comes next. Three is here. Four follows it. Five is last."


@pytest.mark.parametrize(
    ("text", "sentence", "longest", "expected"),
    [
        (f"\n{SHORT}\n", "Bob left.", 200, SHORT),
        (SHORT, "Bob left.", 35, "Ann came to Bath. Bob left."),
        (NUMBERED, "Three is here.", 50, "Two comes next. Three is here. Four follows it."),
        ("\n".join(ITEMS), ITEMS[9], 60, "\n".join(ITEMS[8:11])),
        (SHORT, "Ann came to Bath.", 5, "Ann came to Bath."),
        (SHORT, "Ann came to Bath.", 0, "Ann came to Bath."),
    ],
    ids=["short text", "whole paragraphs", "between sentences", "between lines", "long sentence", "no room"],
)
def test_a_passage_is_as_many_whole_parts_as_fit(text, sentence, longest, expected):
    assert around(text, sentence, longest) == expected


@given(st.text(" .\nab", max_size=80), st.integers(0, 80), st.integers(0, 80), st.integers(0, 60))
def test_a_passage_holds_its_sentence_and_no_more_than_is_allowed(text, one, other, longest):
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    begin, stop = passage_around(text, start, end, longest)
    assert 0 <= begin <= start
    assert end <= stop <= len(text)
    assert stop - begin <= max(longest, end - start)


def test_sentences_of_one_paragraph_have_one_passage():
    assert passages_around(SHORT, [(11, 28), (29, 38)]) == [(0, len(SHORT))]
