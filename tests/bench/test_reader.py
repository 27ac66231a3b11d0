"""The reader's rows: checked before they are timed, on stories or on files."""

import pytest

from attar.bench import reader as rows
from attar.errors import FormatError
from attar.reader import Reader


def test_every_row_is_measured_on_made_up_stories():
    report = rows.run(quick=True)
    assert len(report.rows) == 4
    assert {row.verdict for row in report.rows} <= {"met", "missed"}
    assert all(row.ratio > 0 for row in report.rows)


def test_files_are_read_where_they_are_given(tmp_path):
    for n in range(8):
        (tmp_path / f"{n}.txt").write_text(f"Ann Lee met Bob Hale in Bath {n} times. Bob left.")
    report = rows.run(sources=[tmp_path], quick=True, only="reading")
    assert [row.verdict in ("met", "missed") for row in report.rows] == [True]


def test_too_few_documents_are_refused(tmp_path):
    (tmp_path / "one.txt").write_text("Ann met Bob.")
    with pytest.raises(FormatError, match="8 documents"):
        rows.run(sources=[tmp_path], quick=True)


def test_memories_of_other_texts_are_far_apart():
    reader = Reader.load()
    one, other = (reader.read(text) for text in ("Ann met Bob.", "Ann left Bob."))
    assert rows.distance_between(one, one) == 0
    assert rows.distance_between(one, other) > 0
    assert rows.distance_between(one, reader.read("Clara met Bob.")) == float("inf")
