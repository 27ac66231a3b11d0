"""The seconds of commands that need no model."""

import pytest

from attar.errors import OptionError
from benchmarks import startup


@pytest.mark.slow
def test_every_command_is_timed_against_python_alone():
    report = startup.run(1, judged=False)
    assert [row.what for row in report.rows] == list(startup.COMMANDS)
    assert [row.note for row in report.rows if row.verdict == "failed"] == []
    assert all("times `python -c pass`" in row.note for row in report.rows)


def test_a_command_that_ends_otherwise_is_refused(tmp_path):
    with pytest.raises(OptionError, match="exit code 0"):
        startup._Timer(tmp_path, 1).seconds(("-c", "raise SystemExit(3)"), 0)
