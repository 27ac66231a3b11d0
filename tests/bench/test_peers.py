"""A race is only worth running against peers that are right."""

import numpy as np
import pytest
import torch

from attar.bench import peers
from attar.ops import AffineGates, encode, encode_adaptive, softmax_lookup


@pytest.mark.parametrize("name", ["numpy", "torch", "sdpa"])
def test_every_softmax_is_the_same_softmax(name):
    hidden, query = torch.randn(20, 4), torch.randn(4)
    expected = softmax_lookup(hidden[None].double(), query[None, None].double())[0, 0]
    if name == "numpy":
        found = torch.from_numpy(np.asarray(peers.softmax_numpy(hidden.numpy(), query.numpy())))
    else:
        found = getattr(peers, f"softmax_{name}")(hidden, query)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_the_plain_scan_is_a_memory():
    f, alpha = torch.randn(2, 9, 4), torch.rand(2, 9)
    torch.testing.assert_close(peers.plain_scan(f, alpha), encode(f, alpha=alpha))
    torch.testing.assert_close(peers.plain_scan(f), encode(f))


def test_the_plain_adaptive_loop_is_the_scan():
    h, f = torch.randn(2, 40, 4), torch.randn(2, 40, 4)
    cell = AffineGates(torch.randn(2, 4), torch.randn(2, 4), torch.tensor([2.0, 0.0]))
    torch.testing.assert_close(peers.plain_adaptive_loop(h, f, cell), encode_adaptive(h, f, cell))
