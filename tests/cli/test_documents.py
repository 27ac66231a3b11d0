"""`attar list`, `show`, `merge` and `remove`, and what all commands on a library share."""

import json
import shlex
from pathlib import Path

import pytest

from attar.library.library import Library
from benchmarks.tiny_reader import save_tiny_reader

from .conftest import assert_one_line

# Each mistake, and a part of its line; S is a library, stories a folder of files.
MISTAKES = {
    "ask S story0": "no question; type at least one",
    "ask S story0 --questions missing": "cannot read questions from missing: No such file",
    "ask S ''": "question: expected some words, got nothing",
    "ask S story0 ''": "question: expected some words, got nothing",
    "ask S '…?!?'": "question: expected some words",
    "ask S story7 'Who left?'": "there is no document 'story7'; did you mean",
    "ask S story0 'Who left?' --tag x": "exclude each other",
    "ask S Who bakes the cake?": 'a question of several words needs quotes; type "Who bakes the cake?"',
    "ask S story0 Who washed the van": 'needs quotes; type "Who washed the van"',
    "ask 'Who bakes the cake?'": 'the library comes first: attar ask LIBRARY "Who bakes the cake?"',
    "list S --name nosuch": "there is no document 'nosuch'; list the documents to see their names",
    "list S --name story0 --name story7 --json": "there is no document 'story7'; did you mean",
    "ask nowhere 'Who left?'": "nowhere; add documents first: attar add",
    "search nowhere tea": "there is no library",
    "list nowhere": "there is no library",
    "show S story9": "there is no document 'story9'",
    "append nowhere story0 stories/story0.txt": "there is no library",
    "append S story0 stories": "3 documents cannot have the one name",
    "merge S both story0": "merge",
    "remove S story0 story9": "there is no document 'story9'",
    "remove S sub": "there is no document 'sub'; list the documents to see their names",
    "tag S story0": "no tag; give --add TAG or --remove TAG",
    "add stories stories": "has other files",
    "add stories S": "S is a library, not a document; name the library first",
    "add T -": "a text from stdin needs a name; add --name NAME",
    "add S stories/story0.txt --sync": "--sync is for folders; name a folder",
    # A disk that is not mounted must not empty a library.
    "add S elsewhere --sync": "elsewhere does not exist; check the path",
    "watch T nowhere": "nowhere does not exist",
    f"watch T stories --tag {'t' * 10_000}": "got 10,000",
    "import T missing.parquet": "missing.parquet",
    "shard S --into 2 --out stories": "stories already exists; choose another --out",
    "shard nowhere --into 2 --out two": "there is no library",
    "store check nowhere": "there is no library",
}


@pytest.mark.parametrize("words", MISTAKES, ids=lambda words: words[:40])
def test_a_mistake_is_one_line_and_changes_nothing(filled, words, listed):
    before = sorted(Path().rglob("*"))
    assert_one_line(filled(*shlex.split(words)), MISTAKES[words])
    assert len(listed()) == 3
    assert sorted(Path().rglob("*")) == before


def test_tags_are_added_and_taken_away(filled):
    assert filled("tag", "S", "story0", "sub/story2", "--add", "read", "--add", "old")[1] == [
        "story0: read, old",
        "sub/story2: read, old",
    ]
    assert filled("tag", "S", "story0", "--remove", "old", "--remove", "read")[1] == ["story0: no tags"]
    assert filled("list", "S", "--tag", "old")[1][1:][0].endswith("sub/story2  [read, old]")


def test_show_prints_tags_and_metadata_as_words_and_leaves_out_empty_ones(filled, reader):
    lines = filled("show", "S", "story0")[1]
    assert not any(line.startswith(("tags", "metadata")) for line in lines[:12])
    filled("tag", "S", "story0", "--add", "read", "--add", "old")
    with Library("S", reader) as library:
        library.add("note", "Ann left.", metadata={"author": "Eve", "year": "1815"})
    assert "tags        read, old" in filled("show", "S", "story0")[1]
    assert "metadata    author: Eve, year: 1815" in filled("show", "S", "note")[1]


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
