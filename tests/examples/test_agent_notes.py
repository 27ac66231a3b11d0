"""The agent's notes: added, asked, merged, removed, and visible to another process."""

import re

import pytest

pytestmark = pytest.mark.slow

ANSWERS = [
    "Joan Bell (“Maria gave Ivan one week, and asked Joan Bell to help him.”)",
    "one week (“Maria gave Ivan one week, and asked Joan Bell to help him.”)",
    "by Friday (“Northwind wants the export by Friday.”)",
    "slow (“Karen Holt said that the export is slow.”)",
    "not in the notes",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("agent") / "notes"


@pytest.fixture(scope="module")
def printed(run_example, folder):
    return run_example("agent_notes.py", "--folder", folder)


def test_answers_are_phrases_of_the_notes_with_their_sentences(printed, tables_in):
    asked, _ = tables_in(printed)
    assert [answer for *_, answer in asked] == ANSWERS


def test_topics_merge_and_are_removed(printed, tables_in):
    _, kept = tables_in(printed)
    tokens = {name: int(count) for name, count, _ in kept}
    assert list(tokens) == ["briefing", "falcon", "northwind"]
    assert tokens["briefing"] == tokens["falcon"] + tokens["northwind"]


def test_another_process_gives_the_same_answers(printed):
    here = re.search(r"^The briefing: .*\? (.*)$", printed, re.MULTILINE)
    there = re.search(r"^Asked again in another process: (.*)$", printed, re.MULTILINE)
    assert here[1] == there[1]
