"""The demonstration: a story told on the default reader, a table of costs, and an end."""

from rich.console import Console

from attar.bench.clocks import QUICK
from attar.bench.demo import TALES, run_demo
from attar.bench.demo_cost import read_and_ask, show_cost


def test_both_ways_are_measured_and_the_memory_is_right():
    reading = read_and_ask(50, QUICK)
    assert reading.error < 1e-5
    assert reading.hidden_bytes == 50 * 100 * 4
    assert reading.memory_bytes == 100 * 100 * 4


def test_a_row_for_every_length(capsys):
    show_cost(Console(), (10, 2_000), QUICK)
    shown = capsys.readouterr().out
    assert "| 10 " in shown
    assert "| 2,000 " in shown


def test_the_story_is_told_from_reading_to_removing(capsys):
    run_demo((10,), QUICK)
    shown = capsys.readouterr().out
    for name in TALES:
        assert f"| {name} " in shown
    assert "Henry Vance" in shown
    assert "Removed trial; left are both, harbour." in shown
    assert "attar ask" in shown
