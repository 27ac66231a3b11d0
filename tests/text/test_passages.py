"""Passages: whole paragraphs around a sentence where they fit, a part of a long one, never more than is allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.text.passages import passage_around, passages_around

SHORT = "A heading\n\nAnn came to Bath. Bob left.\n\nThe end came soon."


def around(text, sentence, longest):
    start = text.index(sentence)
    begin, stop = passage_around(text, start, start + len(sentence), longest)
    return text[begin:stop]


def test_a_short_text_is_one_passage():
    assert around(f"\n{SHORT}\n", "Bob left.", 200) == SHORT


def test_paragraphs_that_do_not_fit_are_left_out_whole():
    assert around(SHORT, "Bob left.", 35) == "Ann came to Bath. Bob left."


def test_a_long_paragraph_is_cut_between_sentences():
    text = "One is first. Two comes next. Three is here. Four follows it. Five is last."
    assert around(text, "Three is here.", 50) == "Two comes next. Three is here. Four follows it."


def test_lines_without_full_stops_are_cut_between_lines():
    text = "\n".join(f"Item {number}: {number} pounds" for number in range(20))
    assert around(text, "Item 9: 9 pounds", 60).splitlines() == [
        "Item 8: 8 pounds",
        "Item 9: 9 pounds",
        "Item 10: 10 pounds",
    ]


@pytest.mark.parametrize("longest", [0, 5])
def test_a_sentence_that_is_longer_than_allowed_is_whole_and_alone(longest):
    assert around(SHORT, "Ann came to Bath.", longest) == "Ann came to Bath."


@given(st.text(" .\nab", max_size=80), st.integers(0, 80), st.integers(0, 80), st.integers(0, 60))
def test_a_passage_holds_its_sentence_and_no_more_than_is_allowed(text, one, other, longest):
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    begin, stop = passage_around(text, start, end, longest)
    assert 0 <= begin <= start
    assert end <= stop <= len(text)
    assert stop - begin <= max(longest, end - start)


def test_sentences_of_one_paragraph_have_one_passage():
    assert passages_around(SHORT, [(11, 28), (29, 38)]) == [(0, len(SHORT))]
