"""What a library answers and tells, and the care of its store: `ask`, `merge`, `list`, `store check` and others."""

import json
from pathlib import Path

import lmdb
import pytest

from attar.nn import Network
from attar.nn import NetworkOptions
from attar.reader import Reader
from attar.text import Vocabulary


def test_a_cut_store_is_one_line(filled):
    with Path("S/data.mdb").open("r+b") as file:
        file.truncate(9_000)
    for command in (["list", "S"], ["add", "S", "stories"], ["store", "check", "S"]):
        code, lines, errors = filled(*command)
        assert (code, lines, len(errors)) == (2, [], 1)
        assert "restore it from a copy" in errors[0]


def test_ask_prints_names_and_probabilities(filled):
    code, lines, _ = filled("ask", "S", "story0", "Who left?", "--top", "3")
    assert code == 0
    assert lines[0].split() == ["answer", "probability"]
    assert len(lines) == 4
    assert 0 < float(lines[1].split()[-1]) <= 1


def test_several_questions_and_a_file_of_them(filled):
    Path("questions").write_text("Who came?\n\n___ left .\n")
    _, (line,), _ = filled("ask", "S", "story0", "Who left?", "--questions", "questions", "--json")
    told = json.loads(line)
    assert [each["question"] for each in told["questions"]] == ["Who left?", "Who came?", "___ left ."]
    assert set(told["questions"][0]["answers"][0]) == {"text", "probability"}
    assert "___ left ." in filled("ask", "S", "story0", "--questions", "questions")[1]


def test_an_unknown_name_is_one_line_with_near_names(filled):
    code, lines, errors = filled("ask", "S", "story7", "Who left?")
    assert (code, lines, len(errors)) == (2, [], 1)
    assert "did you mean" in errors[0]
    assert "'story0'" in errors[0]


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


def test_merging_what_was_read_apart_says_how_to_read_it_together(filled, listed):
    code, _, (error,) = filled("merge", "S", "both", "story0", "story1")
    assert code == 2
    assert "attar add STORE FILE… --together --replace" in error
    filled("add", "S", "stories", "--together", "--replace")
    _, (line,), _ = filled("merge", "S", "both", "story0", "story1", "--json")
    assert json.loads(line)["change"] == "merged"
    assert "both" in listed()


def test_remove_takes_several_out(filled, listed):
    assert filled("remove", "S", "story0", "sub/story2")[1] == ["removed story0", "removed sub/story2"]
    assert listed() == ["story1"]


def test_list_gives_names_tokens_and_bytes(filled):
    _, (line,), _ = filled("list", "S", "--json", "--limit", "2")
    documents = json.loads(line)["documents"]
    assert [document["name"] for document in documents] == ["story0", "story1"]
    assert all(document["tokens"] > 0 and document["bytes"] > 0 for document in documents)
    assert len(filled("list", "S", "--after", "story0")[1]) == 3


def test_show_tells_what_is_kept(place, attar, texts):
    attar("add", "S", "stories", "--keep-text", "--dtype", "int8")
    _, (line,), _ = attar("show", "S", "story0", "--json")
    told = json.loads(line)
    assert (told["name"], told["text"], told["dtype"]) == ("story0", texts[0], "int8")
    assert told["names"]
    assert told["names"][0] in "\n".join(attar("show", "S", "story0")[1])


def test_check_is_0_only_if_all_is_sound(filled):
    assert filled("store", "check", "S") == (0, ["3 documents, all sound"], [])
    with lmdb.open("S") as environment, environment.begin(write=True) as transaction:
        value = bytearray(transaction.get(b"mstory1"))
        value[-1] ^= 1
        transaction.put(b"mstory1", bytes(value))
    code, (line,), _ = filled("store", "check", "S")
    assert code == 2
    assert "'story1'" in line
    code, (line,), _ = filled("store", "check", "S", "--json")
    assert code == 2
    assert [fault["name"] for fault in json.loads(line)["faults"]] == ["story1"]


def test_compact_and_stats(filled):
    filled("remove", "S", "story0")
    assert json.loads(filled("store", "compact", "S", "--json")[1][0])["saved_bytes"] >= 0
    assert json.loads(filled("store", "stats", "S", "--json")[1][0])["documents"] == 2
    assert filled("store", "stats", "S")[0] == 0


def test_export_and_import(filled, listed):
    assert filled("export", "S", "s.parquet")[1] == ["3 documents exported"]
    assert filled("import", "T", "s.parquet")[1] == ["3 documents imported"]
    assert filled("import", "T", "s.parquet")[1] == ["0 documents imported"]
    assert listed("T") == listed()
    assert filled("ask", "T", "story0", "Who left?") == filled("ask", "S", "story0", "Who left?")


def test_another_reader_is_refused_in_one_line(filled, texts):
    vocabulary = Vocabulary.build(texts, size=150, entities=40)
    Reader(Network(NetworkOptions(len(vocabulary), 40, size=6)), vocabulary).save("other")
    code, lines, (error,) = filled("ask", "S", "story0", "Who left?", "--reader", "other")
    assert (code, lines) == (2, [])
    assert "expected its reader" in error


@pytest.mark.parametrize("command", ["add", "append", "ask", "merge", "remove", "list", "show", "export"])
def test_every_command_takes_json_and_shows_an_example(attar, command):
    code, lines, _ = attar(command, "--help")
    assert code == 0
    assert any("--json" in line for line in lines)
    assert any(line.strip().startswith(f"attar {command} stories") for line in lines)
