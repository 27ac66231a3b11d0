"""The commands on a library, with a small reader that has learnt nothing."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import lmdb
import numpy as np
import pytest
import torch

from attar.cli.main import main
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader import Reader
from attar.store import Store
from attar.text.stories import tell_stories
from attar.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [story.text for story in tell_stories(3, 6)]


@pytest.fixture(scope="module")
def reader(texts, tmp_path_factory) -> Path:
    """A reader's folder; its memories of ids are told apart by their tables of names."""
    torch.manual_seed(5)
    vocabulary = Vocabulary.build(texts, size=150, entities=40)
    options = NetworkOptions(len(vocabulary), 40, mechanism="gated", encoder="gru", embedding=5, size=6)
    folder = tmp_path_factory.mktemp("reader")
    Reader(Network(options), vocabulary).save(folder)
    return folder


@pytest.fixture
def place(tmp_path, texts, monkeypatch) -> Path:
    """A folder to work in, with stories in it."""
    (tmp_path / "stories" / "sub").mkdir(parents=True)
    for number, text in enumerate(texts[:3]):
        (tmp_path / "stories" / ("sub" if number == 2 else "") / f"story{number}.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def attar(monkeypatch, capsys, reader):
    """`attar …` as the shell runs it: exit code, lines on stdout, lines on stderr."""

    def run(*arguments, stdin: bytes = b""):
        reads = arguments[0] in ("add", "append", "ask") and "--reader" not in arguments
        with_reader = ["--reader", str(reader)] if reads else []
        monkeypatch.setattr(sys, "argv", ["attar", *map(str, arguments), *with_reader])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err.splitlines()

    return run


@pytest.fixture
def filled(place, attar):
    assert attar("add", "S", "stories")[0] == 0
    return attar


def listed(attar, store="S"):
    _, (line,), _ = attar("list", store, "--json")
    return [document["name"] for document in json.loads(line)["documents"]]


def test_add_says_each_document_and_the_sum(place, attar):
    code, lines, errors = attar("add", "S", "stories")
    assert (code, errors) == (0, [])
    assert [line.split(":")[0] for line in lines] == [
        "added story0",
        "added story1",
        "added sub/story2",
        "3 added",
    ]


def test_add_again_changes_nothing(filled):
    assert filled("add", "S", "stories")[1][-1] == "3 unchanged"


def test_add_in_json(place, attar):
    _, (line,), _ = attar("add", "S", "stories", "--json")
    told = json.loads(line)
    assert [document["change"] for document in told["documents"]] == ["added"] * 3
    assert set(told["documents"][0]) == {"name", "change", "tokens", "bytes"}
    assert told["skipped"] == []


def test_add_from_stdin(place, attar):
    assert attar("add", "S", "-", "--name", "a\nb", stdin=b"Ann left.")[0] == 0
    assert listed(attar) == ["a\nb"]


def test_stdin_needs_a_name(place, attar):
    code, _, errors = attar("add", "S", "-", stdin=b"Ann left.")
    assert code == 2
    assert errors == ["attar: name: expected --name NAME for a text from stdin, got none"]
    assert not Path("S").exists()


def test_a_file_by_another_name(place, attar):
    attar("add", "S", "stories/story0.txt", "--name", "x" * 10_000)
    assert listed(attar) == ["x" * 10_000]
    assert all(len(line) < 200 for line in attar("list", "S")[1])


def test_lines_of_json(place, attar, texts):
    rows = [{"id": f"news/{number}", "text": text} for number, text in enumerate(texts)]
    Path("news.jsonl").write_text("\n".join(map(json.dumps, rows)))
    attar("add", "S", "news.jsonl")
    assert listed(attar) == [row["id"] for row in rows]


def test_another_text_is_refused_unless_it_replaces(filled, texts):
    Path("story0.txt").write_text(texts[3])
    code, lines, errors = filled("add", "S", "story0.txt")
    assert (code, lines, len(errors)) == (2, [], 1)
    assert "--replace" in errors[0]
    assert filled("add", "S", "story0.txt", "--replace")[1][0].startswith("replaced story0")


@pytest.mark.parametrize("data", [b"", b"GIF\0\1", b"\xff\xfe\xfa"], ids=["empty", "binary", "no UTF-8"])
def test_a_bad_file_stops_at_itself(place, attar, data):
    Path("stories/story1.txt").write_bytes(data)
    code, lines, errors = attar("add", "S", "stories")
    assert code == 2
    assert [line.split(":")[0] for line in lines] == ["added story0"]
    assert len(errors) == 1
    assert errors[0].startswith("attar: stories/story1.txt: expected ")
    assert listed(attar) == ["story0"]


def test_bad_files_can_be_passed_over(place, attar):
    Path("stories/story1.txt").write_bytes(b"")
    Path("stories/a.txt").write_bytes(b"GIF\0\1")
    code, _, errors = attar("add", "S", "stories", "missing", "--skip-bad")
    assert (code, len(errors)) == (2, 3)
    assert listed(attar) == ["story0", "sub/story2"]


def test_a_missing_file_is_said_before_a_store_is_made(place, attar):
    code, _, errors = attar("add", "S", "stories", "missing")
    assert (code, len(errors)) == (2, 1)
    assert not Path("S").exists()


def test_a_bad_file_whose_name_has_two_lines_is_still_one_line(place, attar):
    Path("stories/a\nb.txt").touch()
    code, _, errors = attar("add", "S", "stories")
    assert (code, len(errors)) == (2, 1)
    assert "a\\nb.txt" in errors[0]


def test_a_cut_store_is_one_line(filled):
    with Path("S/data.mdb").open("r+b") as file:
        file.truncate(9_000)
    for command in (["list", "S"], ["add", "S", "stories"], ["store", "check", "S"]):
        code, lines, errors = filled(*command)
        assert (code, lines, len(errors)) == (2, [], 1)
        assert "restore it from a copy" in errors[0]


def test_a_text_of_twenty_megabytes(place, attar):
    word = "a" * 1_000
    Path("long.txt").write_text(f"Then Ann Lee met {word} in Bath. " * 20_000)
    code, (line,), _ = attar("add", "S", "long.txt", "--keep-text")
    assert code == 0
    assert line.startswith("added long: ")


def test_append_reads_on(filled, texts):
    Path("more.txt").write_text(texts[3])
    before = json.loads(filled("show", "S", "story0", "--json")[1][0])["tokens"]
    _, (line,), _ = filled("append", "S", "story0", "more.txt", "--json")
    assert json.loads(line)["tokens"] > before
    assert filled("append", "S", "story0", "-", stdin=b"Ann left.")[1][0].startswith("appended story0: ")


def test_ask_prints_names_and_probabilities(filled):
    code, lines, _ = filled("ask", "S", "story0", "Who left?", "--top", "3")
    assert code == 0
    assert lines[0].split() == ["name", "probability"]
    assert len(lines) == 4
    assert 0 < float(lines[1].split()[-1]) <= 1


def test_several_questions_and_a_file_of_them(filled):
    Path("questions").write_text("Who came?\n\n___ left .\n")
    _, (line,), _ = filled("ask", "S", "story0", "Who left?", "--questions", "questions", "--json")
    told = json.loads(line)
    assert [each["question"] for each in told["questions"]] == ["Who left?", "Who came?", "___ left ."]
    assert set(told["questions"][0]["answers"][0]) == {"name", "probability"}
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
def test_a_mistake_is_one_line_and_code_2(filled, arguments):
    code, lines, errors = filled(*arguments)
    assert (code, lines, len(errors)) == (2, [], 1)
    assert errors[0].startswith("attar: ")
    assert len(listed(filled)) == 3


def test_merging_what_was_read_apart_says_how_to_read_it_together(filled):
    code, _, (error,) = filled("merge", "S", "both", "story0", "story1")
    assert code == 2
    assert "attar add STORE FILE… --together --replace" in error
    filled("add", "S", "stories", "--together", "--replace")
    _, (line,), _ = filled("merge", "S", "both", "story0", "story1", "--json")
    assert json.loads(line)["change"] == "merged"
    assert "both" in listed(filled)


def test_remove_takes_several_out(filled):
    assert filled("remove", "S", "story0", "sub/story2")[1] == ["removed story0", "removed sub/story2"]
    assert listed(filled) == ["story1"]


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


def test_export_and_import(filled):
    assert filled("export", "S", "s.parquet")[1] == ["3 documents exported"]
    assert filled("import", "T", "s.parquet")[1] == ["3 documents imported"]
    assert filled("import", "T", "s.parquet")[1] == ["0 documents imported"]
    assert listed(filled, "T") == listed(filled)
    assert filled("ask", "T", "story0", "Who left?") == filled("ask", "S", "story0", "Who left?")


def test_another_reader_is_refused_in_one_line(filled, texts):
    vocabulary = Vocabulary.build(texts, size=150, entities=40)
    Reader(Network(NetworkOptions(len(vocabulary), 40, size=6)), vocabulary).save("other")
    code, lines, (error,) = filled("ask", "S", "story0", "Who left?", "--reader", "other")
    assert (code, lines) == (2, [])
    assert "expected its reader" in error


def test_stopping_add_says_that_nothing_is_lost(place, attar, monkeypatch):
    from attar.library import Library

    def interrupted(self, documents, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Library, "add_many", interrupted)
    code, _, errors = attar("add", "S", "stories")
    assert code == 130
    assert errors == [
        "attar: stopped; 0 documents are in the library, and the same command goes on from there"
    ]


def test_a_killed_add_keeps_what_it_reported_and_goes_on(place, reader, attar):
    many = Path("many.jsonl")
    rows = [{"id": f"{number:04}", "text": story.text} for number, story in enumerate(tell_stories(9, 400))]
    many.write_text("\n".join(map(json.dumps, rows)))
    command = [sys.executable, "-m", "attar", "add", "S", str(many), "--reader", str(reader)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        reported = [process.stdout.readline()]
        os.kill(process.pid, signal.SIGKILL)
        reported += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    whole = [line.removeprefix("added ").split(":")[0] for line in reported if line.endswith("bytes\n")]
    assert 0 < len(whole) < len(rows)
    assert set(whole) <= set(listed(attar))
    assert attar("store", "check", "S")[0] == 0
    _, lines, _ = attar("add", "S", many)
    assert {line.split()[0] for line in lines[: len(whole)]} == {"unchanged"}
    attar("add", "T", many)
    with Store.open("S") as interrupted, Store.open("T") as uninterrupted:
        for row in rows:
            one, other = interrupted.memory(row["id"]), uninterrupted.memory(row["id"])
            assert (one.tokens, one.names) == (other.tokens, other.names)
            np.testing.assert_allclose(one.widened(), other.widened(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("command", ["add", "append", "ask", "merge", "remove", "list", "show", "export"])
def test_every_command_takes_json_and_shows_an_example(attar, command):
    code, lines, _ = attar(command, "--help")
    assert code == 0
    assert any("--json" in line for line in lines)
    assert any(line.strip().startswith(f"attar {command} stories") for line in lines)
