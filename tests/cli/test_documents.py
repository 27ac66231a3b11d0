"""`attar list`, `show`, `merge` and `remove`, and what all commands on a library share."""

import json

import pytest

from attar.library import Library


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
        ("add", "S", "stories", "--durability", "some"),
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


def test_merging_documents_read_separately_says_how_to_read_them(filled, listed):
    code, _, (error,) = filled("merge", "S", "both", "story0", "story1")
    assert code == 2
    assert "attar add STORE FILE… --together --replace" in error
    filled("add", "S", "stories", "--together", "--replace")
    _, (line,), _ = filled("merge", "S", "both", "story0", "story1", "--json")
    assert json.loads(line)["change"] == "merged"
    assert "both" in listed()


def test_remove_removes_several(filled, listed):
    assert filled("remove", "S", "story0", "sub/story2")[1] == ["removed story0", "removed sub/story2"]
    assert listed() == ["story1"]


def test_list_gives_names_tokens_and_bytes(filled):
    _, (line,), _ = filled("list", "S", "--json", "--limit", "2")
    documents = json.loads(line)["documents"]
    assert [document["name"] for document in documents] == ["story0", "story1"]
    assert all(document["tokens"] > 0 and document["bytes"] > 0 for document in documents)
    assert len(filled("list", "S", "--after", "story0")[1]) == 3


def test_show_prints_what_is_stored(place, attar, texts):
    attar("add", "S", "stories", "--keep-text", "--dtype", "int8")
    _, (line,), _ = attar("show", "S", "story0", "--json")
    record = json.loads(line)
    assert (record["name"], record["text"], record["dtype"]) == ("story0", texts[0], "int8")
    assert record["names"]
    assert record["names"][0] in "\n".join(attar("show", "S", "story0")[1])


@pytest.mark.parametrize("command", ["add", "append", "ask", "merge", "remove", "list", "show", "export"])
def test_every_command_takes_json_and_shows_an_example(attar, command):
    code, lines, _ = attar(command, "--help")
    assert code == 0
    assert any("--json" in line for line in lines)
    assert any(line.strip().startswith(f"attar {command} stories") for line in lines)


def test_control_characters_of_a_document_do_not_reach_the_terminal(place, attar, texts):
    escape = "\x1b]0;owned\x07\x1b[2J\u202e"
    (place / "odd.txt").write_text(f"{texts[0]} {escape}\nEnd.")
    attar("add", "S", "odd.txt", "--keep-text")
    attar("add", "S", "stories/story1.txt", "--name", f"n{escape}")
    with Library("S") as library:
        library.store.put("titled", library.memory("odd"), title=escape)
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


def test_a_full_table_of_names_is_said_when_added_and_shown(place, attar):
    names = ["Q" + "".join("abcdefghij"[int(digit)] for digit in str(at)) for at in range(60)]
    (place / "crowd.txt").write_text(" ".join(f"Then {name} left." for name in names))
    _, lines, _ = attar("add", "S", "crowd.txt")
    assert "table of names is full: later names are missing" in lines[0]
    _, lines, _ = attar("show", "S", "crowd")
    assert any(line.startswith("40 names (the table of names is full") for line in lines)
    _, (line,), _ = attar("show", "S", "crowd", "--json")
    assert json.loads(line)["names_full"] is True
