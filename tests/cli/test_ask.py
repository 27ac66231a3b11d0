"""`attar ask`: answers with probabilities, and its mistakes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from attar.cli.ask import only_document
from attar.cli.output import Quotes
from attar.library.library import Library
from attar.results import Answer


def test_ask_prints_phrases_probabilities_and_sentences(filled):
    code, lines, _ = filled("ask", "S", "story0", "Who left?", "--top", "3")
    assert code == 0
    assert len(lines) == 3
    assert all(re.match(r"\S.* {2,}(likely|possible|unsure) \d+%", line) for line in lines)


def test_several_questions_and_a_file_of_them(filled):
    Path("questions").write_text("Who came?\n\n___ left .\n")
    _, (line,), _ = filled("ask", "S", "story0", "Who left?", "--questions", "questions", "--json")
    result = json.loads(line)
    assert [each["question"] for each in result["questions"]] == ["Who left?", "Who came?", "___ left ."]
    assert {"text", "probability", "kind"} <= set(result["questions"][0]["answers"][0])
    assert "___ left ." in filled("ask", "S", "story0", "--questions", "questions")[1]


def test_questions_come_down_a_pipe_one_per_line(filled):
    code, lines, _ = filled("ask", "S", "story0", "--top", "1", stdin=b"Who left?\n\n___ came .\n")
    assert code == 0
    assert [lines[0], lines[3]] == ["Who left?", "___ came ."]


def test_a_bad_line_is_named_and_the_others_are_answered(filled):
    Path("questions").write_text("Who came?\n\n?\n...\nWho left?\n")
    code, lines, errors = filled("ask", "S", "story0", "--questions", "questions", "--top", "1")
    assert code == 2
    assert [lines[0], lines[3]] == ["Who came?", "Who left?"]
    assert [error.partition(": question:")[0] for error in errors] == [
        "attar: questions, line 3",
        "attar: questions, line 4",
    ]
    code, (line,), _ = filled("ask", "S", "story0", "--questions", "questions", "--json")
    assert code == 2
    assert ["error" in row for row in json.loads(line)["questions"]] == [False, True, True, False]
    code, (line,), errors = filled("ask", "S", "story0", "--questions", "questions", "--all", "--json")
    assert (code, len(errors)) == (2, 2)
    assert ["groups" in row for row in json.loads(line)["questions"]] == [True, False, False, True]


def test_the_only_document_needs_no_name(place, attar):
    attar("add", "S", "stories/story0.txt")
    named = attar("ask", "S", "story0", "Who left?")
    assert attar("ask", "S", "Who left?") == named
    assert attar("ask", "S", stdin=b"Who left?\n") == named
    assert attar("ask", "S", "they left ___ .")[0] == 0


def test_a_library_that_loses_its_only_document_meanwhile_is_asked_as_one_of_many():
    class Emptied:
        def __len__(self):
            return 1

        def documents(self, **limits):
            return iter(())

    assert only_document(Emptied()) is None


def test_questions_besides_an_invalid_one_are_answered_once_and_together(filled, monkeypatch):
    asked, ask_many = [], Library.ask_many

    def counted(library, document, questions, **options):
        asked.append(questions)
        return ask_many(library, document, questions, **options)

    monkeypatch.setattr(Library, "ask_many", counted)
    code, _, (error,) = filled("ask", "S", "story0", stdin=b"Who came?\n?\nWho left?\n")
    assert (code, asked) == (2, [["Who came?", "Who left?"]])
    assert error.startswith("attar: stdin, line 2: question")
    code, lines, errors = filled("ask", "S", "story0", stdin=b"?\n...\n")
    assert (code, lines, len(errors)) == (2, [], 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "S", "story9", "Who left?"),
        ("ask", "S", "story0", "Who left?", "--reader", "stories"),
        ("ask", "S", "story0", "Who left?"),
        ("list", "S"),
        ("show", "S", "story1"),
        ("remove", "S", "story"),
    ],
    ids=" ".join,
)
def test_what_needs_no_model_loads_none(filled, arguments):
    """Among them a question to a library whose reader is nowhere: the fourth from the end."""
    code = f"""
import sys
sys.argv = ["attar", *{arguments!r}]
from attar.cli.main import main
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert "AssertionError" not in ran.stderr
    assert ran.returncode == (0 if arguments[:2] == ("list", "S") or arguments[-1] == "story1" else 2)


TEXT = """Ann lives in Dover with her sister.

Ann met Bob, and Bob wrote to
Bob's aunt in Bath."""


class Terminal:
    """An output that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def quoted(tmp_path, tiny_reader):
    """A library whose text is quoted from, and an answer: the second Bob."""
    with Library(tmp_path / "library", tiny_reader) as library:
        library.add("letters", TEXT)
        start = TEXT.index("Bob wrote")
        quote = TEXT.partition("\n\n")[2]
        yield library, Answer("Bob", 0.97, "name", quote, start, start + 3)


def test_an_answer_shows_its_line_and_its_sentence(quoted):
    library, answer = quoted
    line = Quotes(library, "letters").answers([answer])
    assert line == "Bob  likely 97%  line 3  Ann met Bob, and Bob wrote to Bob's aunt in Bath."


def test_on_a_terminal_the_phrase_is_marked_where_it_stands(quoted, monkeypatch):
    library, answer = quoted
    monkeypatch.setattr("sys.stdout", Terminal())
    line = Quotes(library, "letters").answers([answer])
    assert line.endswith("  Ann met Bob, and \x1b[1;4mBob\x1b[0m wrote to Bob's aunt in Bath.")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in Quotes(library, "letters").answers([answer])


def test_an_answer_from_another_document_names_it_and_one_that_is_absent_says_so(quoted):
    library, answer = quoted
    found = msgspec.structs.replace(answer, document="letters")
    lines = Quotes(library, None).answers([found, Answer("", 0.2, "none")]).splitlines()
    assert lines[0].startswith("Bob ")
    assert "  letters, line 3  " in lines[0]
    assert lines[1].split("  ")[0] == "not in this library"
    on_page = msgspec.structs.replace(answer, place="page 3")
    assert "  page 3  " in Quotes(library, "letters").answers([on_page])


def test_none_does_not_stand_below_an_answer_that_is_less_likely(quoted):
    library, answer = quoted
    quotes, none = Quotes(library, "letters"), Answer("", 0.04, "none")
    unsure = msgspec.structs.replace(answer, probability=0.03)
    (line,) = quotes.answers([unsure, none]).splitlines()
    assert line.startswith("Bob  unsure 3%  line 3")
    assert [line[:16] for line in quotes.answers([answer, none]).splitlines()][1] == "not in this text"
    assert quotes.answers([none, unsure]).startswith("not in this text  unsure 4%")


def test_below_an_answer_what_would_be_0_percent_is_left_out(quoted):
    library, answer = quoted
    quotes, none = Quotes(library, "letters"), Answer("", 0.004, "none")
    unlikely = msgspec.structs.replace(answer, probability=0.004)
    assert len(quotes.answers([answer, none, unlikely]).splitlines()) == 1
    refused = [msgspec.structs.replace(none, probability=0.99), unlikely]
    assert len(quotes.answers(refused).splitlines()) == 2
