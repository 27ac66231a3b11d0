"""Bodies pair names with values."""

import pytest

from attar import wire
from attar.errors import OptionError, ShapeError


@pytest.mark.parametrize(
    ("body", "names", "questions"),
    [
        ({"document": "a", "question": "Q"}, ["a"], ["Q"]),
        ({"document": "a", "questions": ["Q", "R"]}, ["a", "a"], ["Q", "R"]),
        ({"documents": ["a", "b"], "question": "Q"}, ["a", "b"], ["Q", "Q"]),
        ({"documents": ["a", "b"], "questions": ["Q", "R"]}, ["a", "b"], ["Q", "R"]),
    ],
)
def test_documents_and_questions_are_paired(body, names, questions):
    ask = wire.Ask(**body)
    assert ask.pairs() == (names, questions)
    assert ask.single == (set(body) == {"document", "question"})


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ({}, OptionError, '"question" or "questions", got neither'),
        ({"document": "a", "documents": ["a"], "question": "Q"}, OptionError, "got both"),
        ({"document": "a"}, OptionError, '"question" or "questions", got neither'),
        ({"documents": [], "question": "Q"}, OptionError, "at least one"),
        ({"document": "a", "questions": []}, OptionError, "at least one"),
        ({"documents": ["a", "b"], "questions": ["Q"] * 3}, ShapeError, "one for each of 2 documents, got 3"),
    ],
)
def test_bodies_without_pairs_are_refused(body, error, message):
    with pytest.raises(error, match=message):
        wire.Ask(**body).pairs()
