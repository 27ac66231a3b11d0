"""`attar train-questions` and `attar evaluate-questions`: what they print, and one line per mistake."""

import json
import re
from pathlib import Path

import pytest

from .conftest import assert_one_line

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


def test_evaluation_prints_a_table(attar, squad, tiny_reader_folder) -> None:
    code, out, err = attar("evaluate-questions", squad, "--reader", tiny_reader_folder)
    assert (code, err) == (0, [])
    assert out[0] == "squad.json, 1 per document: 4 questions"
    assert out[1].split()[:3] == ["EM", "F1", "sentence"]
    assert out[2].startswith("reader  ")
    assert re.fullmatch(r"reader, answers by certainty: .*(likely|possible|unsure): \d, right \d+%", out[3])
    assert len(out) == 4


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("evaluate-questions squad.json --paragraphs some", "--paragraphs: expected a number"),
        ("evaluate-questions squad.json --paragraphs 0", "--paragraphs: expected a number"),
        ("evaluate-questions none.json", "none.json cannot be read: No such file"),
        ("evaluate-questions bad.jsonl", "bad.jsonl, line 2 does not have the format of a question set"),
        ("train-questions squad.json --out r --init nowhere", "nowhere"),
        ("train-questions bad.jsonl --out r --init answers", "bad.jsonl, line 2"),
        ("train-questions none.json --out r --init answers", "none.json cannot be read: No such file"),
        ("train-questions squad.json --out r --init answers --resume --replace", "exclude each other"),
    ],
)
def test_a_mistake_is_one_line(attar, squad, monkeypatch, arguments, part) -> None:
    monkeypatch.chdir(squad.parent)
    good = {"title": "a", "context": TEXT, "questions": [{"question": "Who?", "answers": []}]}
    Path("bad.jsonl").write_text(json.dumps(good) + "\n{\n")
    assert_one_line(attar(*arguments.split()), part)
