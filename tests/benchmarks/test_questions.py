"""The rows of the default reader: in process, as a command, and over HTTP."""

import json

import pytest

from attar.errors import OptionError
from attar.library.library import Library
from benchmarks import questions as rows

pytestmark = pytest.mark.slow  # whole benchmarks with the default reader


def test_every_row_is_measured():
    report = rows.run(quick=True)
    assert [row.note for row in report.rows if row.verdict == "failed"] == []
    assert {row.verdict for row in report.rows} == {"not judged"}
    assert len(report.rows) == 8
    assert all(row.ratio > 0 for row in report.rows)


def test_the_time_of_each_question_at_the_prompt_is_measured(tmp_path):
    with Library(tmp_path / "library") as library:
        library.add("text 0", "Ann is in Bath. Bob is in Dover.")
    questions = [
        "Where is Ann?",
        "Where is Bob?",
        "Who is in a house that is by the sea, and that has two doors?",
    ]
    first, *later = rows.prompt_seconds(tmp_path / "library", "text 0", questions)
    assert len(later) == 2
    assert 0 < max(later) < first  # the first waits for the reader
    assert (tmp_path / "state" / "attar" / "history").read_text().startswith(questions[0])


def test_real_questions_are_read_from_a_file(tmp_path):
    file = tmp_path / "few.jsonl"
    answer = {"question": "Where is Ann?", "answers": [{"text": "Bath", "start": 10}]}
    file.write_text(json.dumps({"title": "Ann", "context": "Ann is in Bath.", "questions": [answer]}) + "\n")
    assert rows.load_data(file, 1) == rows.Data(["Ann is in Bath."], [(0, "Where is Ann?")])
    with pytest.raises(OptionError, match="2 passages"):
        rows.load_data(file, 2)
