"""All places that answer a question, grouped by answer, and questions that want yes or no; the reader that ships."""

import pytest

from attar.errors import FormatError, OptionError
from attar.library.asking import grouped
from attar.library.library import Library
from attar.results import Answer

from .conftest import library_of

LETTERS = {
    "march": "The meeting in March was held by Priya Raman. Coffee was served in the hall.",
    "april": "The meeting in April was held by Tom Okafor. Rain fell all day.",
    "may": "The meeting in May was held by Priya Raman. The hall was painted blue.",
    "tea": "Tea is made from the leaves of a plant. It was first drunk in China.",
    "rules": "Dogs are not allowed in the hall. The key hangs at the door.",
}
QUESTION = "Who held the meeting?"


library = library_of(LETTERS)


def by_answer(groups):
    return {group.text: sorted(place.document for place in group.places) for group in groups}


@pytest.mark.slow
def test_places_are_grouped_by_answer_and_counted(library):
    groups = library.list_answers(QUESTION)
    assert by_answer(groups) == {"Priya Raman": ["march", "may"], "Tom Okafor": ["april"]}
    assert {group.text: group.count for group in groups} == {"Priya Raman": 2, "Tom Okafor": 1}
    for place in (place for group in groups for place in group.places):
        assert LETTERS[place.document][place.start : place.end] == place.text
        assert place.quote in LETTERS[place.document]
        assert 0 < place.probability <= 1


@pytest.mark.slow
def test_a_place_in_which_several_phrases_lie_is_listed_once(tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library:
        library.add_many([("well", "The well is 30 m deep.\n"), ("ferry", "The ferry costs 12 euros.")])
        (group,) = library.list_answers("The well is 30 m deep.")
    assert (group.count, [place.document for place in group.places]) == (1, ["well"])


@pytest.mark.slow
def test_nothing_is_listed_where_the_answer_is_not_in_the_library(library):
    question = "What is the capital of Norway?"
    assert library.ask_all(question)[0].absent
    assert library.list_answers(question) == []


@pytest.mark.slow
@pytest.mark.parametrize(("question", "top", "kind"), [("?", None, FormatError), (QUESTION, 0, OptionError)])
def test_mistakes_are_one_line(library, question, top, kind):
    with pytest.raises(kind):
        library.list_answers(question, top=top)


@pytest.mark.slow
@pytest.mark.parametrize("ask", ["ask", "ask_all"])
@pytest.mark.parametrize("preface", ["", "Hi, "])
def test_a_question_for_yes_or_no_gets_the_sentence_that_decides(library, ask, preface):
    question = f"{preface}Are dogs allowed in the hall?"
    answers = library.ask("rules", question) if ask == "ask" else library.ask_all(question)
    best = next(answer for answer in answers if not answer.absent)
    assert (best.text, best.kind) == ("Dogs are not allowed in the hall.", "sentence")
    assert LETTERS["rules"][best.start : best.end] == best.text == best.quote
    texts = [answer.text for answer in answers if answer.document in (None, "rules")]
    assert len(texts) == len(set(texts))  # each sentence once


def test_answers_differ_by_more_than_case_articles_and_punctuation():
    said = [
        Answer(text, 0.2, "name") for text in ("The Old Inn", "old inn.", "an old inn", "Old Mill", "the")
    ]
    assert [(group.text, group.count) for group in grouped(said, {})] == [
        ("The Old Inn", 3),
        ("Old Mill", 1),
        ("the", 1),
    ]
