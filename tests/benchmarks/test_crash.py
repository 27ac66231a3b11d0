"""`make crash`: a few kills of every kind here, and proof that a store which loses or tears changes is found out."""

import io
import json
import subprocess
import sys

import pytest

from benchmarks.crash import KINDS
from benchmarks.crash_states import Ledger, difference
from benchmarks.killed_search import QUERIES, check


def run(program, *arguments):
    return subprocess.run([sys.executable, *program, *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_killed_processes_lose_no_acknowledged_change_and_leave_none_half_done():
    ran = run(["-m", "benchmarks.crash"], "--kills", "70", "--json")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    rows = json.loads(ran.stdout)
    assert list(rows) == list(KINDS)
    for kind, row in rows.items():
        assert row["kills"] == 10, kind
        assert row["changes"] > 0, kind


# What a store with a fault would do, put in the place of `killed._apply`.
FORGETS = "store.__dict__.setdefault('n', []).append(1); len(store.n) % 3 == 0 or apply(store, change)"
TEARS = "[apply(store, {name: text}) for name, text in change.items()]"
MIXES = "apply(store, {name: text and str(int(text) + (name == 'left')) for name, text in change.items()})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kills", "message"),
    [(FORGETS, 8, "documents differ"), (TEARS, 40, "documents differ"), (MIXES, 4, "such as 'left'")],
    ids=["forgets changes", "makes half of a change", "writes another text"],
)
def test_a_store_with_a_fault_is_found_out(fault, kills, message):
    program = f"""
from benchmarks import crash, killed
apply = killed._apply
def faulty(store, change):
    {fault}
killed._apply = faulty
crash.main(kills={kills}, seconds=0, seed=0, only="writer", json_output=False)
"""
    ran = run(["-c", program])
    assert ran.returncode != 0
    assert message in ran.stdout


@pytest.mark.slow
def test_an_index_that_does_not_follow_the_store_is_found_out():
    program = """
from attar.search import SearchIndex
from benchmarks import crash
refresh = SearchIndex.refresh
SearchIndex.refresh = lambda self, now: self._missing if len(self) else refresh(self, now)
crash.main(kills=4, seconds=0, seed=0, only="search", json_output=False)
"""
    ran = run(["-c", program])
    assert ran.returncode != 0
    assert "a process that searched all the time" in ran.stdout


def test_a_search_that_differs_from_the_log_is_a_fault():
    shown = {query: [("a", 1.0, "Change 1 wrote it.")] for query in QUERIES}
    check(shown, shown, shown)
    later = {query: [("a", 1.0, "Change 2 wrote it.")] for query in QUERIES}
    other = {query: [("b", 1.0, "Change 1 wrote it.")] for query in QUERIES}
    far = {query: [("a", 1.5, "Change 1 wrote it.")] for query in QUERIES}
    for expected in (later, other, far):
        with pytest.raises(AssertionError, match="log"):
            check(shown, shown, expected)
    with pytest.raises(AssertionError, match="all the time"):
        check(shown, far, shown)


def test_a_change_under_way_may_be_made_or_not():
    ledger = Ledger(io.StringIO())
    ledger.texts = {"a": "1"}
    ledger.begun = {0: {"a": None, "b": "2"}, 1: {"c": "3"}}
    assert list(ledger.states()) == [
        {"a": "1"},
        {"b": "2"},
        {"a": "1", "c": "3"},
        {"b": "2", "c": "3"},
    ]


def test_a_difference_is_told_from_the_nearest_state():
    told = difference({"a": "1", "b": "9"}, [{"a": "2", "b": "3"}, {"a": "1", "b": "8"}])
    assert told == "1 documents differ, such as 'b': expected '8', found '9'"
