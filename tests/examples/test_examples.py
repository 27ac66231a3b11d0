"""What the examples show, as their output has it."""

import re

import pytest

pytestmark = pytest.mark.slow


def test_an_agent_finds_its_notes_in_this_process_and_another(run_example, tables_in, tmp_path):
    printed = run_example("agent_notes.py", "--folder", tmp_path / "notes")
    asked, kept = tables_in(printed)
    assert [answer for *_, answer in asked] == [
        "Joan Bell (“Maria gave Ivan one week, and asked Joan Bell to help him.”)",
        "one week (“Maria gave Ivan one week, and asked Joan Bell to help him.”)",
        "by Friday (“Northwind wants the export by Friday.”)",
        "slow (“Karen Holt said that the export is slow.”)",
        "not in the notes",
    ]
    tokens = {name: int(count) for name, count, _ in kept}
    assert list(tokens) == ["briefing", "falcon", "northwind"]
    assert tokens["briefing"] == tokens["falcon"] + tokens["northwind"]
    here = re.search(r"^The briefing: .*\? (.*)$", printed, re.MULTILINE)
    there = re.search(r"^Asked again in another process: (.*)$", printed, re.MULTILINE)
    assert here[1] == there[1]


def test_a_transformer_block_with_a_memory_learns_to_recall(run_example, tables_in, share):
    (rows,) = tables_in(run_example("transformer_block.py", "--pairs", 8, "--every", 15))
    recalled = {name: [share(cell) for cell in cells] for name, *cells in rows}
    assert max(recalled.pop("none")) < 0.2
    assert min(shares[-1] for shares in recalled.values()) > 0.8


def test_a_translator_learns_two_made_up_languages(run_example, share):
    printed = run_example("translation.py", "--steps", 200, "--lengths", "10,20000")
    accuracy = re.match(r"gated, 200 steps: (\S+) of 500 new sentences", printed)
    assert share(accuracy[1]) > 0.8
    assert printed.splitlines()[2] == "LUNS WET-o THE-o LUR THE-e CALLS ET KITS NEW-e A-e KIN THE-e LIKES"


def test_a_user_s_history_finds_what_the_user_likes_and_events_can_be_subtracted(
    run_example, tables_in, share
):
    printed = run_example("user_history.py", "--users", 40, "--lengths", "10,300")
    ((_, early, *_), (_, memory, _, mean, *_)), ((kept, faded, cleared),) = tables_in(printed)
    assert share(memory) > 0.85 > share(early)
    assert share(mean) < 0.5
    assert share(kept) < 0.2 < share(faded) < share(cleared)
    assert float(re.search(r"memories differ by (\S+) of", printed)[1]) < 1e-4
