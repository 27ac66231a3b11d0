"""Text into a library: `attar add` and `attar append`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attar.store import Store
from benchmarks.stories import tell_stories


def test_add_prints_each_document_and_the_counts(place, attar):
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
    result = json.loads(line)
    assert [document["change"] for document in result["documents"]] == ["added"] * 3
    assert set(result["documents"][0]) == {"name", "change", "tokens", "bytes"}
    assert result["skipped"] == []


def test_add_from_stdin(place, attar, listed):
    assert attar("add", "S", "-", "--name", "a\nb", stdin=b"Ann left.")[0] == 0
    assert listed() == ["a\nb"]


def test_stdin_needs_a_name(place, attar):
    code, _, errors = attar("add", "S", "-", stdin=b"Ann left.")
    assert code == 2
    assert errors == ["attar: name: expected --name NAME for a text from stdin, got none"]
    assert not Path("S").exists()


def test_a_file_by_another_name(place, attar, listed):
    attar("add", "S", "stories/story0.txt", "--name", "x" * 10_000)
    assert listed() == ["x" * 10_000]
    assert all(len(line) < 200 for line in attar("list", "S")[1])


def test_lines_of_json(place, attar, texts, listed):
    rows = [{"id": f"news/{number}", "text": text} for number, text in enumerate(texts)]
    Path("news.jsonl").write_text("\n".join(map(json.dumps, rows)))
    attar("add", "S", "news.jsonl")
    assert listed() == [row["id"] for row in rows]


def test_another_text_is_refused_unless_it_replaces(filled, texts):
    Path("story0.txt").write_text(texts[3])
    code, lines, errors = filled("add", "S", "story0.txt")
    assert (code, lines, len(errors)) == (2, [], 1)
    assert "--replace" in errors[0]
    assert filled("add", "S", "story0.txt", "--replace")[1][0].startswith("replaced story0")


@pytest.mark.parametrize("data", [b"", b"GIF\0\1", b"\xff\xfe\xfa"], ids=["empty", "binary", "no UTF-8"])
def test_a_bad_file_stops_add_after_the_files_before_it(place, attar, data, listed):
    Path("stories/story1.txt").write_bytes(data)
    code, lines, errors = attar("add", "S", "stories")
    assert code == 2
    assert [line.split(":")[0] for line in lines] == ["added story0"]
    assert len(errors) == 1
    assert errors[0].startswith("attar: stories/story1.txt: expected ")
    assert listed() == ["story0"]


def test_bad_files_can_be_skipped(place, attar, listed):
    Path("stories/story1.txt").write_bytes(b"")
    Path("stories/a.txt").write_bytes(b"GIF\0\1")
    code, _, errors = attar("add", "S", "stories", "missing", "--skip-bad")
    assert (code, len(errors)) == (2, 3)
    assert listed() == ["story0", "sub/story2"]


def test_a_missing_file_is_reported_before_a_store_is_created(place, attar):
    code, _, errors = attar("add", "S", "stories", "missing")
    assert (code, len(errors)) == (2, 1)
    assert not Path("S").exists()


def test_a_bad_file_whose_name_has_two_lines_is_still_one_line(place, attar):
    Path("stories/a\nb.txt").touch()
    code, _, errors = attar("add", "S", "stories")
    assert (code, len(errors)) == (2, 1)
    assert "a\\nb.txt" in errors[0]


@pytest.mark.slow
def test_a_text_of_twenty_megabytes(place, attar):
    word = "a" * 1_000
    Path("long.txt").write_text(f"Then Ann Lee met {word} in Bath. " * 20_000)
    code, (line,), _ = attar("add", "S", "long.txt", "--keep-text")
    assert code == 0
    assert line.startswith("added long: ")


def test_append_adds_tokens(filled, texts):
    Path("more.txt").write_text(texts[3])
    before = json.loads(filled("show", "S", "story0", "--json")[1][0])["tokens"]
    _, (line,), _ = filled("append", "S", "story0", "more.txt", "--json")
    assert json.loads(line)["tokens"] > before
    assert filled("append", "S", "story0", "-", stdin=b"Ann left.")[1][0].startswith("appended story0: ")


def test_an_interrupted_add_says_what_is_stored(place, attar, monkeypatch):
    from attar.library import Library

    def interrupted(self, documents, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Library, "add_many", interrupted)
    code, _, errors = attar("add", "S", "stories")
    assert code == 130
    assert errors == [
        "attar: stopped; 0 documents are in the library, and the same command continues from there"
    ]


@pytest.mark.slow
def test_a_killed_add_keeps_what_it_reported_and_continues(place, reader, attar, listed):
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
    assert set(whole) <= set(listed())
    assert attar("store", "check", "S")[0] == 0
    _, lines, _ = attar("add", "S", many)
    assert {line.split()[0] for line in lines[: len(whole)]} == {"unchanged"}
    attar("add", "T", many)
    with Store.open("S") as interrupted, Store.open("T") as uninterrupted:
        for row in rows:
            one, other = interrupted.memory(row["id"]), uninterrupted.memory(row["id"])
            assert (one.tokens, one.names) == (other.tokens, other.names)
            np.testing.assert_allclose(one.to_float32(), other.to_float32(), rtol=2e-3, atol=2e-3)
