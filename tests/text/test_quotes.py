"""A quote is found whatever its case, punctuation and quotation marks; changed words are shown."""

import pytest

from attar.text.quotes import find_quote, words_of

TEXT = "Ann wrote: “The rent is 1,610 pounds — a month, it’s due on Monday.” Bob agreed. Bob agreed!"


def found(quote, text=TEXT):
    return [
        (text[match.start : match.end], [(pair.quote, pair.text) for pair in match.differences])
        for match in find_quote(words_of(quote), quote, text)
    ]


@pytest.mark.parametrize(
    "quote",
    [
        "The rent is 1,610 pounds — a month",
        "the RENT is 1610 pounds, a month.",
        '"The  rent\\nis 1\u2019610 pounds a month"'.replace("\\n", "\n"),
    ],
)
def test_case_punctuation_spaces_and_separators_do_not_count(quote):
    assert found(quote) == [("The rent is 1,610 pounds — a month", [])]


def test_all_places_are_found():
    assert found("bob agreed") == [("Bob agreed", []), ("Bob agreed", [])]


@pytest.mark.parametrize(
    ("quote", "difference"),
    [
        ("The rent is 1,510 pounds a month", ("1,510", "1,610")),
        ("The rent is about 1610 pounds a month", ("about", "")),
        ("The rent is 1610 a month", ("", "pounds")),
        ("its not due on Monday", ("not", "")),
    ],
)
def test_changed_words_are_named(quote, difference):
    ((_, differences),) = found(quote)
    assert differences == [difference]


def test_too_many_changes_are_no_match():
    assert found("The wage is 1610 dollars a day") == []
    assert found("Bob left") == []


def test_a_part_of_a_word_is_no_match():
    assert found("ob agree") == []


def test_a_long_text_of_one_word_is_compared_in_few_windows(monkeypatch):
    from attar.text import quotes

    aligned = []
    monkeypatch.setattr(quotes, "_aligned", lambda *given: aligned.append(given))
    quote = "the " * 99 + "end"
    assert find_quote(words_of(quote), quote, "the " * 20_000) == []
    assert len(aligned) <= 8
