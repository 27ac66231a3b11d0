"""The same text several times is one answer with several places."""

import pytest

from attar.library.asking import merged_answers
from attar.library.library import Library
from attar.results import ABSENT, Answer, OtherPlace

LETTER = "Ann Lee lived at Hartfield with her father. Bob owned the abbey of Bath."
QUESTION = "Who owned the abbey?"
OTHERS = {"rome": "Rome has a river.", "tea": "Zebra tea gives joy. Xian drank it first."}


@pytest.fixture
def library(folder, reader):
    with Library(folder, reader) as library:
        library.add_many([("letter", LETTER), *OTHERS.items()])
        yield library


@pytest.mark.parametrize("look", [0, None])
def test_copies_change_no_answer_and_are_listed_as_places(library, look):
    before = library.ask_all(QUESTION, look=look)
    library.add_many([("copy", LETTER), ("another", LETTER)])
    after = library.ask_all(QUESTION, look=look)
    # The ranks of documents depend on how many there are.
    assert [answer.text for answer in after] == [answer.text for answer in before]
    assert [answer.probability for answer in after] == pytest.approx(
        [answer.probability for answer in before], abs=0.05
    )
    of_letter = [answer for answer in after if answer.document in ("letter", "copy", "another")]
    assert of_letter
    for answer in of_letter:
        names = {answer.document, *(place.document for place in answer.also)}
        assert names == {"letter", "copy", "another"}
        assert all((place.start, place.end) == (answer.start, answer.end) for place in answer.also)


def answer(text, probability, document, quote):
    return Answer(text, probability, "name", quote, 3, 6, document)


def test_equal_answers_in_sentences_that_are_alike_are_one_and_no_likelier():
    first = answer("Bath", 0.3, "a", "Bob owned the old abbey of Bath.")
    alike = answer("bath", 0.25, "b", "Bob owned the old abbey of Bath")
    other = answer("Bath", 0.1, "c", "Ann went to Bath.")
    absent = Answer("", 0.4, ABSENT)
    merged = merged_answers([first, absent, alike, other], {"b": ["d"]})
    assert [(found.text, round(found.probability, 2)) for found in merged] == [
        ("Bath", 0.3), ("", 0.4), ("Bath", 0.1),
    ]  # fmt: skip
    assert merged[0].also == (OtherPlace("b", 3, 6), OtherPlace("d", 3, 6))
