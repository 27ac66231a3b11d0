"""The rows of the default reader: in process, as a command, and over HTTP."""

import json

import pytest

from attar.errors import OptionError
from benchmarks import questions as rows

pytestmark = pytest.mark.slow  # whole benchmarks with the default reader


def test_every_row_is_measured():
    report = rows.run(quick=True)
    assert [row.note for row in report.rows if row.verdict == "failed"] == []
    assert {row.verdict for row in report.rows} == {"not judged"}
    assert len(report.rows) == 7
    assert all(row.ratio > 0 for row in report.rows)


def test_real_questions_are_read_from_a_file(tmp_path):
    file = tmp_path / "few.jsonl"
    answer = {"question": "Where is Ann?", "answers": [{"text": "Bath", "start": 10}]}
    file.write_text(json.dumps({"title": "Ann", "context": "Ann is in Bath.", "questions": [answer]}) + "\n")
    assert rows.load_data(file, 1) == rows.Data(["Ann is in Bath."], [(0, "Where is Ann?")])
    with pytest.raises(OptionError, match="2 passages"):
        rows.load_data(file, 2)
