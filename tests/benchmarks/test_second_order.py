"""The second-order unit: its kernels against the plain loop, and the command at its smallest size."""

import pytest
import torch

from benchmarks.second_order import Unit
from benchmarks.second_order_kernels import FusedUnit
from tests.benchmarks.test_scripts import run


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "k"), [(1, 3), (17, 5), (9, 16)])
def test_kernels_agree_with_the_plain_loop_in_states_and_gradients(n, k, device):
    unit = Unit(4, k).to(device)
    x = torch.randn(3, n, 4, device=device, requires_grad=True)
    inputs = unit.of_input(x)
    weights = unit.of_state.weight, unit.of_state.bias, unit.of_reading.weight
    fused, plain = FusedUnit.apply(inputs, *weights), unit.read_plainly(inputs)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-5)
    towards = torch.randn_like(plain)
    found, expected = (
        torch.autograd.grad((states * towards).sum(), (x, *unit.parameters()), retain_graph=True)
        for states in (fused, plain)
    )
    for slope, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(slope, exact, rtol=1e-4, atol=1e-4)


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
