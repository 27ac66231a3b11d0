"""Questions in other languages are told from English ones, however those are typed."""

import json
from pathlib import Path

import pytest

from attar.text.kinds import is_english

ROOT = Path(__file__).resolve().parents[2]


def read_questions() -> dict[str, list[str]]:
    """The questions of `languages.txt`, by language."""
    questions: dict[str, list[str]] = {}
    for line in (ROOT / "tests/text/languages.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            asked = questions.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            asked.append(line)
    return questions


OTHER_LANGUAGES = read_questions()
ENGLISH = OTHER_LANGUAGES.pop("English")


def test_most_questions_in_other_languages_are_found():
    asked = [question for questions in OTHER_LANGUAGES.values() for question in questions]
    assert len(asked) >= 60
    missed = [question for question in asked if is_english(question)]
    assert len(missed) <= 0.1 * len(asked), missed


@pytest.mark.parametrize("question", ["", *ENGLISH])
def test_english_questions_are_english_however_they_are_typed(question):
    assert is_english(question)


def test_every_everyday_question_is_english():
    everyday = json.loads((ROOT / "benchmarks/questions/everyday.json").read_text(encoding="utf-8"))
    asked = [
        question["question"]
        for document in everyday["data"]
        for paragraph in document["paragraphs"]
        for question in paragraph["qas"]
    ]
    assert len(asked) >= 80
    assert [question for question in asked if not is_english(question)] == []
