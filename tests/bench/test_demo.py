"""`attar demo`: a library at work with the default reader, and a table of costs."""

from rich.console import Console

from attar.bench.cost import QUICK
from attar.bench.demo import TALES, measure_question, run_demo, show_cost


def test_softmax_and_a_memory_are_measured_and_the_memory_is_right():
    (tokens, *_, hidden_bytes, memory_bytes, error), softmax, memory = measure_question(50, QUICK)
    assert (tokens, hidden_bytes, memory_bytes) == ("50", "20 kB", "40 kB")
    assert float(error) < 1e-5
    assert softmax > 0 < memory


def test_a_row_for_every_length(capsys):
    show_cost(Console(), (10, 2_000), QUICK)
    shown = capsys.readouterr().out
    assert "| 10 " in shown
    assert "| 2,000 " in shown


def test_documents_are_added_asked_merged_and_removed(capsys):
    run_demo((10,), QUICK)
    shown = capsys.readouterr().out
    for name in TALES:
        assert f"| {name} " in shown
    assert "Henry Vance" in shown
    assert "Removed trial; left are both, harbour." in shown
    assert "attar ask" in shown
