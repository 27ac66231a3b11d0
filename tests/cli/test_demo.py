"""`attar demo`: a library at work with the default reader, and a table of costs."""

import pytest

from attar.cli.demo import (
    ADDED,
    QUESTIONS,
    QUESTIONS_AFTER,
    QUESTIONS_TO_BOTH,
    TEXTS,
    measure_question,
    run_demo,
    show_cost,
)
from attar.library.library import Library
from attar.paper.timing import QUICK

pytestmark = pytest.mark.slow


def test_softmax_and_a_memory_are_measured_and_the_memory_is_right():
    (tokens, *_, hidden_bytes, memory_bytes, error), softmax, memory = measure_question(50, QUICK)
    assert (tokens, hidden_bytes, memory_bytes) == ("50", "20 kB", "40 kB")
    assert float(error) < 1e-5
    assert softmax > 0 < memory


def test_a_row_for_every_length(capsys):
    show_cost((10, 2_000), QUICK)
    shown = capsys.readouterr().out
    assert "| 10 " in shown
    assert "| 2,000 " in shown


def test_documents_are_added_asked_merged_and_removed(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [".venv/bin/attar", "demo"])
    monkeypatch.setenv("PATH", "")  # as after `make demo`: the shell does not know the command
    run_demo((10,), QUICK)
    shown = capsys.readouterr().out
    for name in TEXTS:
        assert f"| {name} " in shown
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
