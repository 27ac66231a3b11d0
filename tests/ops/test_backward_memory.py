"""What backward costs in bytes, as a slope in n: as F does (n · k), not as every C_t would (n · k²)."""

import pytest
import torch

from attar.ops.gram import encode
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive
from benchmarks.allocations import peak_bytes

pytestmark = pytest.mark.slow

FLOAT = 4


def slope(train, k):
    """Bytes that one more token costs at the peak of forward and backward."""
    # An adaptive scan is trained a segment of max(k, 32) tokens at a time: two of them, and four.
    lengths = [segments * max(k, 32) for segments in (2, 4)]
    short, long = (peak_bytes(lambda n=n: train(n, k)) for n in lengths)
    return (long - short) / (lengths[1] - lengths[0])


def train_encode(n, k):
    f = torch.randn(1, n, k, requires_grad=True)
    alpha = torch.rand(1, n, requires_grad=True)
    encode(f, alpha=alpha).sum().backward()


def train_adaptive(backward):
    def train(n, k):
        h, f = torch.randn(1, n, 1, requires_grad=True), torch.randn(1, n, k, requires_grad=True)
        cell = AffineGates(torch.zeros(2, 1), torch.zeros(2, k), torch.tensor([9.0, 0.0]))
        encode_adaptive(h, f, cell, backward=backward).sum().backward()

    return train


TRAINS = {
    "encode": train_encode,
    "adaptive, checkpoint": train_adaptive("checkpoint"),
    "adaptive, invert": train_adaptive("invert"),
}


@pytest.mark.parametrize("name", TRAINS)
@pytest.mark.parametrize("k", [16, 64])
def test_backward_keeps_a_few_vectors_per_token(name, k):
    vectors = slope(TRAINS[name], k) / (k * FLOAT)
    # F, its gradient, one memory a segment of k tokens (k²/k), and a few numbers for the gates (≤ 64 bytes).
    assert vectors <= 6 + 64 / (k * FLOAT)


@pytest.mark.parametrize("n", [750, 3000])
def test_backward_of_encode_allocates_little_more_than_the_gradient(n):
    f = torch.randn(2, n, 100, requires_grad=True)
    memory, G = encode(f), torch.randn(2, 100, 100)
    assert peak_bytes(lambda: torch.autograd.grad(memory, f, G)) <= 1.5 * f.nbytes
