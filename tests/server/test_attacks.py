"""Floods against a server process, about a second each: its memory stays, and it goes on answering.

`python -m benchmarks.floods` runs the same for a minute each.
"""

import pytest

from benchmarks.floods import FLOODS, measure
from benchmarks.server import fill
from benchmarks.server_rows import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory, make_reader):
    place = tmp_path_factory.mktemp("flooded")
    make_reader("named").save(place / "reader")
    fill(place / "library", place / "reader", 8)
    with serving(place / "library", place / "reader") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.what)
def test_memory_stays_and_questions_are_answered(server, flood):
    row = measure(server, flood, 1.1)
    assert row.met, row
