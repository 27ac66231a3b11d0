"""The second-order unit, and the command at its smallest size."""

import pytest
import torch

from benchmarks.second_order import Unit
from tests.benchmarks.test_scripts import run


def test_the_memory_of_a_long_text_is_summed_in_float32():
    torch.manual_seed(0)
    unit, x = Unit(4, 16), torch.randn(2, 1000, 4)
    exact = unit(x)
    states = unit.bfloat16()(x.bfloat16()).float()
    assert (states - exact).norm() < 0.02 * exact.norm()


@pytest.mark.nightly
def test_the_command_compares_three_networks(tmp_path):
    short = ("--tokens", "60", "--documents", "20", "--epochs", "1", "--size", "8", "--seeds", "1")
    table = run("second_order", "--out", tmp_path, *short, "--jobs", "1")
    assert "| gru, equal parameters |" in table
