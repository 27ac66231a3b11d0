"""Examples are short enough to be read."""

from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_an_example_is_under_a_hundred_lines(script):
    assert len(script.read_text(encoding="utf-8").splitlines()) < 100
