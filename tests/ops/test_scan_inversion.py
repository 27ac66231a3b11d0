"""Undoing the recurrence: the printed formula fails, the corrected one holds, the guard pays for drift."""

import math

import pytest
import torch

from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive


def constant_gates(alpha, k=4):
    """Gates that always keep α and write one half, whatever they read."""
    logit = math.log(alpha / (1 - alpha)) if 0 < alpha < 1 else 200.0 if alpha == 1 else -200.0
    return AffineGates(torch.zeros(2, 1), torch.zeros(2, k), torch.tensor([logit, 0.0]))


def read(alpha, n=192, k=4, dtype=torch.float32):
    h = torch.zeros(1, n, 1, dtype=dtype)
    f = torch.randn(1, n, k, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
    return f, encode_adaptive(h, f, constant_gates(alpha, k), backward="invert")


def anchors_of(memory):
    """How many segments there are, and before how many of them a memory was kept."""
    kept = memory.grad_fn.starts
    return len(kept), sum(anchor is not None for anchor in kept)


@pytest.mark.parametrize(("alpha", "kept"), [(1.0, 0), (0.99, 0), (0.95, 1), (0.5, 3), (0.0, 3)])
def test_memories_are_kept_where_decay_would_cost_too_many_digits(alpha, kept):
    _, memory = read(alpha)
    assert anchors_of(memory) == (3, kept)


@pytest.mark.parametrize("alpha", [1.0, 0.99, 0.9, 0.5, 0.0])
def test_gradients_have_four_digits(alpha):
    f, memory = read(alpha)
    exact = f.detach().double().requires_grad_()
    cell = AffineGates(*(x.double() for x in constant_gates(alpha).tensors()))
    expected = encode_adaptive(torch.zeros(1, 192, 1).double(), exact, cell, backend="reference")
    G = torch.randn(1, 4, 4)
    found, wanted = torch.autograd.grad(memory, f, G)[0], torch.autograd.grad(expected, exact, G.double())[0]
    assert (found - wanted).norm() < 1e-4 * wanted.norm()
