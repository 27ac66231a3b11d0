"""`attar train-questions` and `attar evaluate-questions`: what they print, and one line per mistake."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

TEXT = "Ann lives in Leeds. Bob sold a boat in Dover."
QUESTIONS = [
    {"question": "Where does Ann live?", "answers": [{"text": "Leeds", "answer_start": 13}]},
    {"question": "Why did Ann leave?", "answers": []},
]


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    """A file in SQuAD's format, of two articles."""
    articles = [
        {"title": title, "paragraphs": [{"context": TEXT, "qas": QUESTIONS}]} for title in ("one", "two")
    ]
    file = tmp_path / "squad.json"
    file.write_text(json.dumps({"data": articles}))
    return file


def test_evaluation_prints_a_table(attar, squad) -> None:
    code, out, err = attar("evaluate-questions", squad, "--reader", "names")
    assert (code, err) == (0, [])
    assert out[0] == "squad.json, 1 per document: 4 questions"
    assert out[1].split()[:3] == ["EM", "F1", "sentence"]
    assert [line.split("  ")[0] for line in out[2:]] == [
        "reader",
        "most frequent capitalised phrase",
        "word overlap: a phrase of the best sentence",
        "BM25: a phrase of the best sentence",
    ]


@pytest.mark.slow
def test_evaluation_prints_json(attar, squad) -> None:
    code, (line,), _ = attar("evaluate-questions", squad, "--paragraphs", "all", "--json")
    assert code == 0
    printed = json.loads(line)
    assert (printed["file"], printed["paragraphs"]) == ("squad.json", "all")
    reader = printed["rows"][0]
    assert reader["name"] == "reader"
    assert reader["questions"] == 4
    assert reader["document_bytes"] > 0
    assert 0 <= reader["calibration_error"] <= 1
    assert printed["rows"][2]["em"] == 1
    assert printed["rows"][2]["calibration_error"] is None


def test_questions_without_answers_cannot_be_learned_from(attar, tmp_path) -> None:
    lines = [
        {
            "title": f"letter {at}",
            "context": TEXT,
            "questions": [{"question": "Where does Ann live?", "answers": []}],
        }
        for at in range(2)
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    code, out, (line,) = attar(
        "train-questions", file, "--init", "answers", "--out", tmp_path / "tuned", "--json"
    )
    assert (code, out) == (2, [])
    assert line.endswith(
        "expected questions with answers in their passages, got none that can be learned from"
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("evaluate-questions", "squad.json", "--paragraphs", "some"), "--paragraphs: expected a number"),
        (("evaluate-questions", "squad.json", "--paragraphs", "0"), "--paragraphs: expected a number"),
        (("evaluate-questions", "none.json"), "none.json: expected questions in SQuAD's JSON"),
        (("evaluate-questions", "bad.jsonl"), "bad.jsonl, line 2: expected a JSON object"),
        (
            ("train-questions", "squad.json", "--out", "r"),
            "--base and --init: expected one of them, got neither",
        ),
        (("train-questions", "bad.jsonl", "--out", "r", "--init", "answers"), "bad.jsonl, line 2"),
        (
            ("train-questions", "squad.json", "--out", "r", "--base", "nowhere"),
            "nowhere: expected the weights",
        ),
        (("train-questions", "none.json", "--out", "r", "--base", "b"), "none.json: expected a file to read"),
        (
            ("train-questions", "squad.json", "--out", "r", "--init", "answers", "--size", "32"),
            "--size: expected none with --init",
        ),
        (
            ("train-questions", "squad.json", "--out", "r", "--base", "b", "--resume", "--replace"),
            "--resume and --replace: expected one of them",
        ),
    ],
)
def test_a_mistake_is_one_line(attar, squad, monkeypatch, arguments, part) -> None:
    monkeypatch.chdir(squad.parent)
    good = {"title": "a", "context": TEXT, "questions": [{"question": "Who?", "answers": []}]}
    Path("bad.jsonl").write_text(json.dumps(good) + "\n{\n")
    code, out, err = attar(*arguments)
    assert (code, out) == (2, [])
    assert len(err) == 1, err
    assert part in err[0]
