"""`attar list`, `show`, `merge` and `remove`, and what all commands on a library share."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attar.library.library import Library
from benchmarks.tiny_reader import save_tiny_reader


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "S", "story0"),
        ("ask", "S", "story0", "--questions", "missing"),
        ("ask", "nowhere", "story0", "Who left?"),
        ("list", "nowhere"),
        ("append", "nowhere", "story0", "stories/story0.txt"),
        ("append", "S", "story0", "stories"),
        ("merge", "S", "both", "story0"),
        ("remove", "S", "story0", "story9"),
        ("show", "S", "story9"),
        ("add", "stories", "stories"),
        ("import", "T", "missing.parquet"),
        ("store", "check", "nowhere"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line_and_code_2(filled, arguments, listed):
    code, lines, errors = filled(*arguments)
    assert (code, lines, len(errors)) == (2, [], 1)
    assert errors[0].startswith("attar: ")
    assert len(listed()) == 3


def test_tags_are_added_and_taken_away(filled):
    assert filled("tag", "S", "story0", "sub/story2", "--add", "read", "--add", "old")[1] == [
        "story0: read, old",
        "sub/story2: read, old",
    ]
    assert filled("tag", "S", "story0", "--remove", "old", "--remove", "read")[1] == ["story0: no tags"]
    assert filled("tag", "S", "story0") == (2, [], ["attar: no tag; give --add TAG or --remove TAG"])
    assert filled("list", "S", "--tag", "old")[1][1:][0].endswith("sub/story2")


def test_remove_removes_several(filled, listed):
    assert filled("remove", "S", "story0", "sub/story2")[1] == ["removed story0", "removed sub/story2"]
    assert listed() == ["story1"]


def test_list_gives_names_tokens_and_bytes(filled):
    _, (line,), _ = filled("list", "S", "--json", "--limit", "2")
    documents = json.loads(line)["documents"]
    assert [document["name"] for document in documents] == ["story0", "story1"]
    assert all(document["tokens"] > 0 and document["bytes"] > 0 for document in documents)
    assert len(filled("list", "S", "--after", "story0")[1]) == 3


def test_documents_are_shown_and_appended_to_by_the_beginning_of_their_names_but_not_removed(filled, listed):
    assert filled("show", "S", "STORY1")[1][0].split() == ["name", "story1"]
    assert (
        json.loads(filled("append", "S", "sub", "stories/story0.txt", "--json")[1][0])["name"] == "sub/story2"
    )
    code, _, (error,) = filled("remove", "S", "sub")
    assert code == 2
    assert error == "attar: there is no document 'sub'; list the documents to see their names"
    assert len(listed()) == 3


def test_the_shell_completes_names_of_documents(filled):
    environment = os.environ | {
        "_ATTAR_COMPLETE": "complete_bash",
        "COMP_WORDS": "attar show S st",
        "COMP_CWORD": "3",
    }
    program = """
import sys
from pathlib import Path
from attar.cli.main import make_app
try:
    make_app()(prog_name="attar")
finally:
    assert "torch" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert ran.stdout.split() == ["story0", "story1"], ran.stderr


def test_reread_moves_a_library_to_another_reader(filled, texts, listed):
    save_tiny_reader(Path("other"), seed=6)
    code, lines, errors = filled("reread", "S", "--reader", "other")
    assert (code, errors) == (0, [])
    assert lines[0].startswith("3 documents have the reader other (")
    assert filled("ask", "S", "story0", "Who left?", "--reader", "other")[0] == 0
    code, _, (error,) = filled("ask", "S", "story0", "Who left?")
    assert code == 2
    assert "was made with the reader" in error
    assert json.loads(filled("reread", "S", "--reader", "other", "--json")[1][0])["read"] == 0
    assert filled("store", "check", "S")[0] == 0


def test_show_prints_what_is_stored(place, attar, texts):
    attar("add", "S", "stories", "--keep-text")
    _, (line,), _ = attar("show", "S", "story0", "--json")
    record = json.loads(line)
    assert (record["name"], record["text"]) == ("story0", texts[0])
    shown = attar("show", "S", "story0")[1]
    assert ["source", str(place / "stories" / "story0.txt")] in [line.split() for line in shown]


def test_control_characters_of_a_document_do_not_reach_the_terminal(place, attar, texts, reader):
    escape = "\x1b]0;owned\x07\x1b[2J\u202e"
    (place / "odd.txt").write_text(f"{texts[0]} {escape}\nEnd.")
    attar("add", "S", "odd.txt", "--keep-text")
    attar("add", "S", "stories/story1.txt", "--name", f"n{escape}")
    with Library("S", reader) as library:
        library.add("titled", texts[2], title=escape)
    for command in (
        ["show", "S", "odd"],
        ["show", "S", "titled"],
        ["show", "S", f"n{escape}"],
        ["list", "S"],
    ):
        code, lines, _ = attar(*command)
        assert code == 0
        assert not set("\n".join(lines)) & set(escape) - set("]0;owned[2J")
    assert any("\\x1b[2J" in line for line in attar("show", "S", "odd")[1])
    code, lines, errors = attar("ask", "S", f"m{escape}", "Who left?", f"Who{escape} left?")
    assert code == 2
    assert "\x1b" not in "".join(lines + errors)
