"""`attar demo`: a library at work with the default reader."""

import pytest

from attar.cli.demo import ADDED, QUESTIONS, QUESTIONS_AFTER, QUESTIONS_TO_BOTH, TEXTS, demo
from attar.library.library import Library

pytestmark = pytest.mark.slow


def test_documents_are_added_asked_merged_and_removed(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [".venv/bin/attar", "demo"])
    monkeypatch.setenv("PATH", "")  # as after `make demo`: the shell does not know the command
    demo()
    shown = capsys.readouterr().out
    for row in TEXTS:
        assert f"\n{row}" in shown
    assert "“The treasurer reported a balance of 2,310 pounds.”" in shown
    assert "not in this text" in shown
    assert "Removed letter; left are both, minutes." in shown
    assert " .venv/bin/attar ask library" in shown


def test_every_question_of_the_demo_is_answered_rightly(tmp_path):
    def answers(name: str, questions: dict[str, str]) -> dict[str, str]:
        return {question: library.ask(name, question, top=1)[0].text for question in questions}

    with Library(tmp_path / "papers") as library:
        for name, text in TEXTS.items():
            library.add(name, text)
            assert answers(name, QUESTIONS[name]) == QUESTIONS[name]
        library.append("minutes", ADDED)
        assert answers("minutes", QUESTIONS_AFTER) == QUESTIONS_AFTER
        library.merge("both", list(TEXTS))
        assert answers("both", QUESTIONS_TO_BOTH) == QUESTIONS_TO_BOTH
