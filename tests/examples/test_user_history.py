"""A user's history as a memory: it finds what the user likes, and events can be subtracted."""

import re

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def printed(run_example):
    return run_example("user_history.py", "--users", 40, "--lengths", "10,300")


def test_a_memory_finds_preferences_that_a_mean_vector_cannot(printed, tables_in, share):
    ((_, early, *_), (events, memory, _, mean, *_)), _ = tables_in(printed)
    assert events == "300"
    assert share(memory) > 0.85 > share(early)
    assert share(mean) < 0.5


def test_decay_and_subtraction_help_to_find_new_preferences(printed, tables_in, share):
    _, ((kept, faded, cleared),) = tables_in(printed)
    assert share(kept) < 0.2 < share(faded) < share(cleared)


def test_subtracted_events_leave_no_trace(printed):
    off = re.search(r"memories differ by (\S+) of", printed)
    assert float(off[1]) < 1e-4
