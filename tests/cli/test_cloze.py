"""`attar cloze` builds a set from text and shows it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attar.cli.cloze import app
from attar.errors import AttarError
from benchmarks.question_files import write_folder
from benchmarks.stories import story_document, tell_stories, tell_story


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "news.jsonl"
    rows = ({"id": f"n{n}", "text": story.text} for n, story in enumerate(tell_stories(seed=3, count=20)))
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_build_then_show(texts: Path, tmp_path: Path) -> None:
    output = run("build", texts, "--out", tmp_path / "set", "--validation", "i%5==0", "--test", "i%5==1")
    assert "training: " in output
    assert "4 texts" in output
    shown = run("show", tmp_path / "set", "--count", 1)
    assert "n1#0 (news)" in shown
    assert "@placeholder" in shown


def test_build_and_show_print_json(texts: Path, tmp_path: Path) -> None:
    about = json.loads(run("build", texts, "-o", tmp_path, "--only", "test", "--json"))
    assert list(about["splits"]) == ["test"]
    shown = json.loads(run("show", tmp_path, "--json", "--count", 2))
    assert len(shown["documents"]) == 2
    assert shown["documents"][0]["questions"]


def test_training_documents_are_shown_with_drawn_questions(texts: Path, tmp_path: Path) -> None:
    run("build", texts, "-o", tmp_path)
    shown = json.loads(run("show", tmp_path, "--split", "training", "--json", "--count", 1))
    assert shown["documents"][0]["questions"]


def test_a_vocabulary_can_be_given(texts: Path, tmp_path: Path) -> None:
    run("build", texts, "-o", tmp_path / "a", "--vocabulary-size", 100)
    run("build", texts, "-o", tmp_path / "b", "--vocabulary", tmp_path / "a" / "tokenizer.json")
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (
        tmp_path / "b" / "tokenizer.json"
    ).read_bytes()


def test_the_cnn_format_is_shown_and_its_malformed_files_skipped_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "questions" / "test"
    write_folder(iter([story_document(tell_story(1), "http://a")]), folder)
    (folder / "bad.question").write_bytes(b"oops")
    with pytest.raises(AttarError, match=r"bad\.question, line 1"):
        run("show", tmp_path)
    assert "http://a" in run("show", tmp_path, "--skip-malformed")


def test_skipped_files_are_reported_every_time(tmp_path: Path) -> None:
    folder = tmp_path / "questions" / "test"
    write_folder(iter([story_document(tell_story(1), "http://a")]), folder)
    (folder / "bad.question").write_bytes(b"oops")
    for _ in range(2):
        result = CliRunner().invoke(app, ["show", str(tmp_path), "--skip-malformed"], catch_exceptions=False)
        assert result.stderr.count("bad.question, line 1") == 1


def test_an_unwritable_folder_is_one_line(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("here first")
    with pytest.raises(AttarError, match="afile: expected a folder to write to, got File exists"):
        run("build", texts, "-o", tmp_path / "afile")


def test_a_missing_source_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(AttarError, match="nothing there"):
        run("build", tmp_path / "none.txt", "-o", tmp_path / "out")


def test_a_set_is_replaced_only_if_asked_to(texts: Path, tmp_path: Path) -> None:
    run("build", texts, "-o", tmp_path)
    before = (tmp_path / "training.parquet").read_bytes()
    with pytest.raises(AttarError, match=r"set\.json: expected nothing there yet, got a file; add --replace"):
        run("build", texts, "-o", tmp_path, "--seed", 5)
    assert (tmp_path / "training.parquet").read_bytes() == before
    run("build", texts, "-o", tmp_path, "--seed", 5, "--replace")
    assert (tmp_path / "training.parquet").read_bytes() != before
