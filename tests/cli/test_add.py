"""Text into a library: `attar add` and `attar append`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attar.store.store import Store
from benchmarks.stories import tell_stories
from tests.documents.office_files import picture_of


def test_add_prints_each_document_and_the_counts(place, attar):
    code, lines, errors = attar("add", "S", "stories")
    assert (code, errors) == (0, [])
    assert [line.split(":")[0] for line in lines] == [
        "added story0",
        "added story1",
        "added sub/story2",
        "3 added",
    ]


def test_add_in_json(place, attar):
    _, (line,), _ = attar("add", "S", "stories", "--json")
    result = json.loads(line)
    assert [document["change"] for document in result["documents"]] == ["added"] * 3
    assert set(result["documents"][0]) == {"name", "change", "tokens", "bytes"}
    assert (result["removed"], result["bad"], result["skipped"]) == ([], [], [])


@pytest.mark.parametrize(
    ("device", "message"),
    [
        pytest.param(
            "cuda",
            "there is no GPU that PyTorch can use; leave the device out, or take cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        ("cuda:99", "there is no GPU 99 that PyTorch can use; leave the device out, or take cpu"),
        ("tpu", "device: expected cpu or cuda, got 'tpu'"),
    ],
)
@pytest.mark.parametrize("words", [("add", "none", "stories"), ("serve", "none", "--port", 0)])
def test_a_device_that_is_not_there_is_one_line_and_leaves_no_library(place, attar, words, device, message):
    assert attar(*words, "--device", device) == (2, [], [f"attar: {message}"])
    assert not (place / "none").exists()


def test_a_missing_file_among_others_is_named_and_the_others_are_added(place, attar):
    code, lines, errors = attar("add", "S", "stories", "none.txt")
    assert (code, lines[-1]) == (2, "3 added, 1 not added")
    assert errors == ["attar: none.txt does not exist; check the path"]


def test_add_from_stdin(place, attar, listed):
    assert attar("add", "S", "-", "--name", "a\nb", stdin=b"Ann left.")[0] == 0
    assert listed() == ["a\nb"]


def test_another_text_is_refused_unless_it_replaces(filled, texts):
    Path("story0.txt").write_text(texts[3])
    code, lines, errors = filled("add", "S", "story0.txt")
    assert (code, lines, len(errors)) == (2, [], 1)
    assert "--replace" in errors[0]
    assert filled("add", "S", "story0.txt", "--replace")[1][0].startswith("replaced story0")


@pytest.mark.parametrize(
    "data", [b"", b"GIF\0\1", b"\xff\xfe\xfa"], ids=["empty", "binary", "half of UTF-16"]
)
def test_a_bad_file_is_named_at_the_end_and_the_others_are_added(place, attar, data, listed):
    Path("stories/story1.txt").write_bytes(data)
    code, lines, errors = attar("add", "S", "stories")
    assert code == 2
    assert [line.split(":")[0] for line in lines] == [
        "added story0",
        "added sub/story2",
        "2 added, 1 not added",
    ]
    assert len(errors) == 1
    assert errors[0].startswith("attar: stories/story1.txt is ")
    assert listed() == ["story0", "sub/story2"]


def test_hidden_and_other_files_are_listed_and_are_no_mistake(place, attar, listed):
    Path("stories/.notes.txt").write_text("Hidden.")
    Path("stories/cover.mp3").write_bytes(b"\x89PNG\0")
    code, lines, errors = attar("add", "S", "stories")
    assert (code, lines[-1]) == (0, "3 added")
    assert errors == [
        "attar: skipped stories/.notes.txt: hidden",
        "attar: skipped stories/cover.mp3: .mp3 is not a kind of document; name the file itself to read it as text",
    ]


def test_files_that_need_the_same_program_are_one_line(place, attar, monkeypatch):
    monkeypatch.setattr("attar.documents.programs.has_ocr", lambda: False)
    monkeypatch.setattr("attar.documents.sources.has_ocr", lambda: False)
    for name, kind in {"a.png": "PNG", "b.png": "PNG", "c.pdf": "PDF", "d.pdf": "PDF"}.items():
        Path("stories", name).write_bytes(picture_of(["Ann left."], kind))
    code, lines, errors = attar("add", "S", "stories")
    assert (code, lines[-1]) == (2, "3 added, 2 not added")
    install = "install tesseract to read text in pictures"
    assert errors == [f"attar: skipped stories/a.png: a picture; {install} (and 3 more files)"]


def test_add_again_reads_what_changed_and_with_sync_removes_what_is_gone(filled, texts, listed):
    Path("stories/story0.txt").write_text(texts[3])
    Path("stories/story1.txt").unlink()
    Path("stories/new.txt").write_text(texts[4])
    _, lines, errors = filled("add", "S", "stories")
    assert (lines[-1], errors) == ("1 added, 1 replaced, 1 unchanged", [])
    assert listed() == ["new", "story0", "story1", "sub/story2"]
    _, lines, _ = filled("add", "S", "stories", "--sync")
    assert lines[-2:] == ["removed story1", "3 unchanged, 1 removed"]
    assert listed() == ["new", "story0", "sub/story2"]


def test_sync_keeps_documents_whose_folder_may_not_be_read(filled, listed, monkeypatch):
    """As root reads everything, the refusal is made up."""
    real = os.lstat

    def refuse(path, **options):
        if "sub" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    Path("stories/sub/story2.txt").rename("story2.txt")
    monkeypatch.setattr("attar.library.drafts.os.lstat", refuse)
    filled("add", "S", "stories", "--sync")
    assert "sub/story2" in listed()


def test_append_adds_tokens(filled, texts):
    Path("more.txt").write_text(texts[3])
    before = json.loads(filled("show", "S", "story0", "--json")[1][0])["tokens"]
    _, (line,), _ = filled("append", "S", "story0", "more.txt", "--json")
    assert json.loads(line)["tokens"] > before
    assert filled("append", "S", "story0", "-", stdin=b"Ann left.")[1][0].startswith("appended story0: ")


def test_an_interrupted_add_says_what_is_stored(place, attar, monkeypatch):
    from attar.library.library import Library

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
    added = [line.removeprefix("added ").split(":")[0] for line in lines[:-1]]
    assert not set(added) & set(whole)
    assert lines[-1] == f"{len(rows) - len(added)} unchanged, {len(added)} added"
    attar("add", "T", many)
    with Store.open("S") as interrupted, Store.open("T") as uninterrupted:
        for row in rows:
            assert interrupted.get(row["id"]).memory == uninterrupted.get(row["id"]).memory
