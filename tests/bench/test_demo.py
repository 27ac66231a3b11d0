"""The demonstration: right results, a table, and an end."""

from attar.bench.clocks import QUICK
from attar.bench.demo import read_and_ask, run_demo


def test_both_ways_are_measured_and_the_memory_is_right():
    reading = read_and_ask(50, QUICK)
    assert reading.error < 1e-5
    assert reading.hidden_bytes == 50 * 100 * 4
    assert reading.memory_bytes == 100 * 100 * 4


def test_a_row_for_every_length(capsys):
    run_demo((10, 2_000), QUICK)
    shown = capsys.readouterr().out
    assert "| 10 " in shown
    assert "| 2,000 " in shown
