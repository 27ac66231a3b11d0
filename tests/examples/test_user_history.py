"""A user's history as a memory: it finds what the user likes, and it can be changed."""

import re

import pytest


@pytest.fixture(scope="module")
def printed(run_example):
    return run_example("user_history.py", "--users", 40, "--lengths", "10,300")


def test_a_memory_learns_a_taste_that_a_mean_cannot_hold(printed, tables_in, share):
    ((_, early, *_), (events, memory, _, mean, *_)), _ = tables_in(printed)
    assert events == "300"
    assert share(memory) > 0.85 > share(early)
    assert share(mean) < 0.5


def test_what_fades_or_is_taken_out_makes_room_for_a_new_taste(printed, tables_in, share):
    _, ((kept, faded, cleared),) = tables_in(printed)
    assert share(kept) < 0.2 < share(faded) < share(cleared)


def test_what_is_taken_out_is_as_never_seen(printed):
    off = re.search(r"memories differ by (\S+) of", printed)
    assert float(off[1]) < 1e-4
