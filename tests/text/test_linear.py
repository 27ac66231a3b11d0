"""Each step that a text passes takes work in proportion to its length, whatever the text is."""

import pytest

from tests.debian import program
from tests.text.instructions import Sizes, growths

# Four times as much text takes at most five times the instructions; a quadratic step would take sixteen times.
MOST = 5


@pytest.mark.slow
def test_instructions_are_in_proportion_to_the_length() -> None:
    program("valgrind")
    counted = list(growths(Sizes(texts=10_000, documents=2_000, added=500)))
    assert counted
    assert [growth for growth in counted if growth.ratio > MOST] == []
