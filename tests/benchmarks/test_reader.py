"""The reader's rows: checked before they are timed, on stories or on files."""

import pytest

from attar.errors import FormatError
from attar.reader.names import NamesReader
from attar.reader.reader import Reader
from benchmarks import reader as rows

pytestmark = pytest.mark.slow  # whole benchmarks with the default reader


def test_every_row_is_measured_on_made_up_stories():
    report = rows.run(quick=True)
    assert len(report.rows) == 4
    assert {row.verdict for row in report.rows} == {"not judged"}, report.rows
    assert all(row.ratio > 0 for row in report.rows)


def test_files_are_read_where_they_are_given(tmp_path):
    for n in range(8):
        (tmp_path / f"{n}.txt").write_text(f"Ann Lee met Bob Hale in Bath {n} times. Bob left.")
    report = rows.run(sources=[tmp_path], quick=True, only="reading")
    assert [row.verdict for row in report.rows] == ["not judged"]
    assert not any("made up" in note for note in report.notes)


def test_too_few_documents_are_refused(tmp_path):
    (tmp_path / "one.txt").write_text("Ann met Bob.")
    with pytest.raises(FormatError, match="8 documents"):
        rows.run(sources=[tmp_path], quick=True)


def test_memories_of_other_texts_differ():
    reader = Reader.load("names")
    one, other = (reader.read(text) for text in ("Ann met Bob.", "Ann left Bob."))
    assert rows.largest_difference(one, one) == 0
    assert rows.largest_difference(one, other) > 0
    assert rows.largest_difference(one, reader.read("Clara met Bob.")) == float("inf")


def test_wrong_answers_get_no_timing(monkeypatch):
    right = NamesReader.answer_many

    def wrong(self, memories, questions, **options):
        return right(self, memories[::-1], questions, **options)

    monkeypatch.setattr(NamesReader, "answer_many", wrong)
    (row,) = rows.run(quick=True, only="the best answer").rows
    assert (row.verdict, row.ours) == ("wrong", None)
