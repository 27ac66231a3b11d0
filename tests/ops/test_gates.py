"""The cell that the fast backends know."""

import torch

from attar.ops import AffineGates
from attar.ops.reference import squash


def test_gates_by_hand():
    cell = AffineGates(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, 1.0]))
    alpha, beta = cell(torch.tensor([[2.0]]), torch.tensor([[1.0]]))
    # α = σ(1 · 2), β = σ(1 / √(1 + 1²) + 1)
    torch.testing.assert_close(alpha, torch.sigmoid(torch.tensor([2.0])))
    torch.testing.assert_close(beta, torch.sigmoid(torch.tensor([1 / 2**0.5 + 1])))


def test_what_is_read_is_bounded_however_much_was_written():
    reading = 1e6 * torch.randn(4, 16)
    assert squash(reading).square().mean(-1).max() <= 1.0001


def test_a_small_reading_passes_as_it_is():
    reading = 1e-3 * torch.randn(4, 16)
    torch.testing.assert_close(squash(reading), reading, rtol=1e-5, atol=0)


def test_an_empty_memory_has_a_slope():
    reading = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(squash, reading)
